"""Findings as SARIF 2.1.0, which code hosts show beside a change."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ckpt_gui.core.errors import Finding, worst_first
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.report.as_json import MOST_KEYS
from ckpt_gui.core.version import version

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def sarif(path: str, findings: Iterable[Finding]) -> dict[str, Any]:
    """Return findings as a SARIF 2.1.0 log, which code hosts show beside a change."""
    listed = worst_first(tuple(findings))
    codes = list(dict.fromkeys(f.code for f in listed))
    driver = {
        "name": "ckpt_gui",
        "version": version(),
        "rules": [{"id": code, "name": code.title().replace("-", "")} for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(path, f, codes.index(f.code)) for f in listed],
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _sarif_result(path: str, finding: Finding, rule: int) -> dict[str, Any]:
    text = f"{finding.message} {finding.fix}" if finding.fix else finding.message
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}}}
    if finding.keys:
        names = [{"fullyQualifiedName": key, "kind": "member"} for key in finding.keys[:MOST_KEYS]]
        location["logicalLocations"] = names
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [location],
    }


def _uri(path: str) -> str:
    """Return a path as a reference that SARIF readers take: relative, or `file:` and absolute."""
    if is_url(path):
        return path
    pure = PurePath(path)
    if pure.is_absolute():
        posix = pure.as_posix()
        return "file://" + quote(posix if posix.startswith("/") else f"/{posix}", errors="surrogateescape")
    return quote(pure.as_posix(), errors="surrogateescape")
