"""Put the texts of the program before translators, and make what the window reads.

    python scripts/translations.py templates          resources/i18n/templates.json, by which sentences are looked up
    python scripts/translations.py de fr              besides, resources/i18n/ckpt_gui_de.ts and _fr.ts, made or brought
                                                      up to date, with what was translated kept; and the .qm of each

A .ts is translated with Qt Linguist or any editor. In texts of the context `sentences`, {0} and {1} are values.
"""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import sentences  # noqa: E402

FOLDER = ROOT / "resources" / "i18n"
TEMPLATES = "templates.json"


def write_templates(folder: Path = FOLDER) -> Path:
    """Write the templates that `ckpt_gui.gui.language` reads; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = sorted(found.text for found in sentences.texts() if found.context == sentences.CONTEXT)
    file = folder / TEMPLATES
    file.write_text(json.dumps(texts, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    return file


def update(language: str, folder: Path = FOLDER) -> Path:
    """Make the .ts of a language, or bring it up to date; return the file."""
    file = folder / f"ckpt_gui_{language}.ts"
    file.parent.mkdir(parents=True, exist_ok=True)
    known = read_translations(file) if file.exists() else {}
    root = ET.Element("TS", version="2.1", language=language, sourcelanguage="en")
    by_context: dict[str, list[sentences.Found]] = defaultdict(list)
    for found in sentences.texts():
        by_context[found.context].append(found)
    for context, texts in sorted(by_context.items()):
        _add_context(root, context, texts, known)
    ET.indent(root)
    file.write_bytes(b'<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n' + ET.tostring(root, "utf-8") + b"\n")
    return file


def read_translations(file: Path) -> dict[tuple[str, str], str]:
    """Return what a .ts has translated, by context and text."""
    found: dict[tuple[str, str], str] = {}
    for context in ET.parse(file).getroot().iter("context"):
        for message in context.iter("message"):
            spoken = message.findtext("translation") or ""
            if spoken:
                found[context.findtext("name") or "", message.findtext("source") or ""] = spoken
    return found


def release(file: Path) -> Path:
    """Make the .qm of a .ts with Qt's own tool; return it.

    Raises:
        subprocess.CalledProcessError: Qt's tool refused the file.
    """
    made = file.with_suffix(".qm")
    subprocess.run([Path(sys.executable).with_name("pyside6-lrelease"), "-silent", file, "-qm", made], check=True)
    return made


def _add_context(
    root: ET.Element, context: str, texts: Sequence[sentences.Found], known: Mapping[tuple[str, str], str]
) -> None:
    place = ET.SubElement(root, "context")
    ET.SubElement(place, "name").text = context
    for found in texts:
        message = ET.SubElement(place, "message")
        ET.SubElement(message, "location", filename=f"../../{found.file}", line=str(found.line))
        ET.SubElement(message, "source").text = found.text
        spoken = known.get((context, found.text), "")
        translation = ET.SubElement(message, "translation", {} if spoken else {"type": "unfinished"})
        translation.text = spoken


def main(languages: Sequence[str]) -> None:
    """Do what the command line asks for."""
    print(f"wrote {write_templates().relative_to(ROOT)}")
    for language in languages:
        file = update(language)
        open_ = sum(1 for m in ET.parse(file).getroot().iter("translation") if not m.text)
        print(f"wrote {file.relative_to(ROOT)}, {open_:,} texts to translate")
        print(f"wrote {release(file).relative_to(ROOT)}")


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if name != "templates"])
