"""Build hook: puts resources/ into the wheel as ckpt_gui/_resources.

Not a plain `force-include`: that would also copy the folder into an editable install, where the copy grows stale and
its folder makes type checkers find a second, empty package. A source checkout uses resources/ itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

import translations


class ResourcesHook(BuildHookInterface):
    """Adds the resources to wheels that are not editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Say what else goes in."""
        if version != "editable":
            translations.write_templates()  # so that what is looked up is what this source says
            build_data["force_include"]["resources"] = "ckpt_gui/_resources"
