"""Build hook: puts resources/ into the wheel as ckpt_gui/_resources, and compiles the kernels if there is a compiler.

Not a plain `force-include`: that would also copy the folder into an editable install, where the copy grows stale and
its folder makes type checkers find a second, empty package. A source checkout uses resources/ itself, and has its
kernels compiled in place. A wheel without them is for any system, one with them for this system and any Python.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

import native_build
import translations


class PackageHook(BuildHookInterface):
    """Adds the resources and the compiled kernels to wheels."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Say what else goes in."""
        if version == "editable":
            self._tell(native_build.build_in_place())
            return
        translations.write_templates()  # so that what is looked up is what this source says
        build_data["force_include"]["resources"] = "ckpt_gui/_resources"
        self._made = tempfile.TemporaryDirectory()
        library = Path(self._made.name) / native_build.NAME
        if said := native_build.build(library):
            self._tell(said)
            return
        build_data["force_include"][str(library)] = f"ckpt_gui/core/native/{library.name}"
        build_data |= {"pure_python": False, "tag": native_build.wheel_tag()}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled for a wheel."""
        if version != "editable":
            self._made.cleanup()

    def _tell(self, said: str | None) -> None:
        if said:
            self.app.display_warning(said)
