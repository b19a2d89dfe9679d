"""Put the table of `ckpt-gui families --markdown` into the README, between its markers."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
BEGIN, END = "<!-- families: made by scripts/families_table.py -->", "<!-- end of families -->"


def filled(text: str) -> str:
    """Return the README with the table as it should be."""
    from ckpt_gui.cli.families import markdown

    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n" + "\n".join(markdown()) + f"\n\n{END}{after}"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(encoding="utf-8")), encoding="utf-8")
