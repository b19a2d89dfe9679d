"""The files beside the weights: config, params, generation settings, tokenizer.

They are read with a cap and never trusted: a damaged `config.json` is a finding, not a crash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.places import is_file, is_folder, join, names_in, open_file

MAX_JSON = 16 << 20
CONFIG, PARAMS, GENERATION, REPORT = "config.json", "params.json", "generation_config.json", "EXPORT_REPORT.json"
ADAPTER = "adapter_config.json"
LIT, MAX_LIT = "model_config.yaml", 1 << 20  # litgpt's
MODULES = "modules.json"  # sentence-transformers'
TOKENIZER = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer.model.v3",
    "tekken.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)
TOKENIZER_EXTRAS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
OTHERS = (
    GENERATION,
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)


def read_sidecars(
    folder: str, config: str | os.PathLike[str] | Mapping[str, Any] | None = None
) -> tuple[Sidecars, tuple[Finding, ...]]:
    """Look for the files that say what the weights beside them mean.

    Args:
        folder: Where to look.
        config: A config to use instead of the folder's: parsed, or the file that holds it.

    Raises:
        CheckpointError: The config that was named cannot be read.
    """
    problems: list[Finding] = []
    names = _list(folder)
    parsed = {
        name: _read_found(folder, name, problems) for name in (CONFIG, PARAMS, GENERATION, ADAPTER) if name in names
    }
    if config is not None:
        named = config if isinstance(config, Mapping) else read_json(_config_in(os.fspath(config)))
        for other in (CONFIG, PARAMS):  # what the user names stands alone
            parsed.pop(other, None)
        parsed[_kind_of(named)] = named
    tokenizer = tuple(n for n in (*TOKENIZER, *TOKENIZER_EXTRAS) if n in names)
    carried = tokenizer + tuple(n for n in OTHERS if n in names)
    report = _read_found(folder, REPORT, problems) if REPORT in names else None
    origin, stored = _of_export(report or {})
    found = Sidecars(
        folder, parsed.get(CONFIG), parsed.get(PARAMS), parsed.get(GENERATION), origin if config is None else None,
        tokenizer, carried,
        parsed.get(ADAPTER), MODULES in names, _read_lit(folder, problems) if LIT in names and config is None else None,
        stored,
    )  # fmt: skip
    return found, tuple(problems)


def _config_in(path: str) -> str:
    """Return the config in a folder that was named instead of a file; anything else as it is."""
    inside = (join(path, name) for name in (CONFIG, PARAMS))
    return next(filter(is_file, inside), path) if is_folder(path) else path


def read_json(path: str) -> Mapping[str, Any]:
    """Return the JSON object in a file.

    Raises:
        CheckpointError: It cannot be read, is too large, or is not a JSON object.
    """
    shown = show_path(path)
    file = open_file(path)
    try:
        if file.size > MAX_JSON:
            raise CheckpointError("limit-exceeded", f"{shown} has {file.size:,} bytes; {MAX_JSON:,} are read at most.")
        value = json.loads(file.read(0, file.size).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise CheckpointError("config-mismatch", f"{shown} is not valid JSON: {reason}.", path=path) from error
    finally:
        file.close()
    if not isinstance(value, dict):
        raise CheckpointError("config-mismatch", f"{shown} is not a JSON object.", path=path)
    return value


def _read_lit(folder: str, problems: list[Finding]) -> Mapping[str, Any] | None:
    """Return litgpt's config, or None with a finding."""
    from ckpt_gui.core.flat_yaml import load

    path = join(folder, LIT)
    try:
        file = open_file(path)
        try:
            if file.size > MAX_LIT:
                raise ValueError(f"it has {file.size:,} bytes; {MAX_LIT:,} are read at most")
            return load(file.read(0, file.size).decode("utf-8"))
        finally:
            file.close()
    except (ValueError, CheckpointError) as error:
        why = error.message if isinstance(error, CheckpointError) else f"{show_path(path)} can not be read: {error}."
        problems.append(Finding("config-mismatch", "warning", why, fix="Mend the file, or name another with --config."))
        return None


def _list(folder: str) -> frozenset[str]:
    try:
        return frozenset(names_in(folder or "."))
    except OSError:
        return frozenset()


def _read_found(folder: str, name: str, problems: list[Finding]) -> Mapping[str, Any] | None:
    try:
        return read_json(join(folder, name))
    except CheckpointError as error:
        fix = "Mend the file, or name another one with --config."
        problems.append(Finding("config-mismatch", "warning", error.message, fix=fix))
        return None


def _kind_of(config: Mapping[str, Any]) -> str:
    """Tell Meta's params.json from a Hugging Face config: the user may name either."""
    return PARAMS if "n_layers" in config and "model_type" not in config else CONFIG


def _of_export(report: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str | None]:
    """Return what an earlier export's report says of its source's config, and of the layout that was written."""
    origin, layout = report.get("source_config"), report.get("layout")
    return origin if isinstance(origin, dict) else None, layout if isinstance(layout, str) else None
