"""Draws the program's icon in the sizes and forms that desktops ask for, from resources/icons/ckpt-gui.svg.

Linux takes the PNG files (hicolor theme), Windows the .ico, macOS the .icns. Run it when the drawing changes.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PIL import Image
from PySide6.QtCore import QSize
from PySide6.QtGui import QGuiApplication, QIcon

ICONS = Path(__file__).resolve().parent.parent / "resources" / "icons"
SIZES = (16, 22, 24, 32, 48, 64, 128, 256, 512)
WINDOWS = (16, 24, 32, 48, 64, 256)


def main() -> None:
    """Draw them all."""
    app = QGuiApplication([])
    icon = QIcon(str(ICONS / "ckpt-gui.svg"))
    files = {}
    for size in SIZES:
        files[size] = ICONS / "png" / f"{size}.png"
        files[size].parent.mkdir(exist_ok=True)
        drawn = icon.pixmap(QSize(size, size), 1.0)
        if drawn.width() != size or not drawn.save(str(files[size])):
            raise SystemExit(f"{files[size]} could not be drawn")
    largest = Image.open(files[SIZES[-1]])
    own = [Image.open(files[size]) for size in WINDOWS]
    largest.save(ICONS / "ckpt-gui.ico", sizes=[(size, size) for size in WINDOWS], append_images=own)
    largest.save(ICONS / "ckpt-gui.icns", append_images=[Image.open(path) for path in files.values()])
    app.quit()


if __name__ == "__main__":
    main()
