"""Build hook: puts resources/ into the wheel as ckpt_gui/_resources.

Not a plain `force-include`: that would also copy the folder into an editable install, where the copy grows stale and
its folder makes type checkers find a second, empty package. A source checkout uses resources/ itself.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ResourcesHook(BuildHookInterface):
    """Adds the resources to wheels that are not editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Say what else goes in."""
        if version != "editable":
            build_data["force_include"]["resources"] = "ckpt_gui/_resources"
