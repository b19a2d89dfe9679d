"""Versions of this program and of others, as their installations say."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=64)  # every request to a server names the version
def installed(name: str) -> str:
    """Return the version of a package; empty where it is not installed."""
    from importlib import metadata  # 25 ms, half of them for a parser of e-mails: not for every start

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def version() -> str:
    """Return the version of this program; `0` where it runs without being installed."""
    return installed("ckpt_gui") or "0"
