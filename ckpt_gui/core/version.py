"""The version of this program, as its installation says."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version; `0` where it runs without being installed."""
    try:
        return metadata.version("ckpt_gui")
    except metadata.PackageNotFoundError:
        return "0"
