"""Where the programs of the bundle start. On Windows, the one without a console is told by its name."""

from __future__ import annotations

import sys
from pathlib import Path

from ckpt_gui.cli.entry import main, window_main

if __name__ == "__main__":
    sys.exit(window_main() if Path(sys.executable).stem.endswith("-window") else main())
