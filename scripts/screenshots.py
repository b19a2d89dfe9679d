"""Draw the pictures of the documentation: every view, light and dark, by the program's own `--screenshot`.

`python scripts/screenshots.py [--out docs/pictures] [--scale 2] [--all] [--model FOLDER]`. Without `--all` only the
pictures of the sample that the README shows are drawn; with a model (SmolLM2-135M as `make_real_model.py` makes it)
those of the pages that are about numbers, from it and from copies: a poisoned one, one with a trained head.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from number_pictures import poison

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = Path("resources/sample/tiny-llama-compiled.pt")  # relative to ROOT: pictures show no folder of this machine
HEAD = "_orig_mod.output.weight"
WEIGHT = "_orig_mod.layers.1.feed_forward.w1.weight"
# Name of the picture → arguments; {broken} and {damaged} are made for the purpose.
VIEWS: dict[str, tuple[str, ...]] = {
    "window": (str(SAMPLE), "--select", "_orig_mod.layers.0.attention.wq.weight"),
    "pair": (str(SAMPLE), "--select", HEAD, "--view", "tied"),
    "export": (str(SAMPLE), "--view", "export"),
    "compared": (str(SAMPLE), "--against", "Llama-3.2-1B"),
    "start": (),
    "missing": ("{broken}", "--filter", "state:missing"),
    "damaged": ("{damaged}",),
    "untied": ("{untied}", "--view", "tied"),
    "overview": (str(SAMPLE), "--view", "overview"),
    "values": (str(SAMPLE), "--select", HEAD, "--view", "values"),
    "distribution": (str(SAMPLE), "--select", HEAD, "--view", "plots/distribution"),
    "heat": (str(SAMPLE), "--select", HEAD, "--view", "plots/heat"),
    "layers": (str(SAMPLE), "--select", WEIGHT, "--view", "plots/layers"),
    "scan": ("{poisoned}", "--view", "scan/start"),
    "statistics": (str(SAMPLE), "--select", WEIGHT, "--view", "statistics"),
}
README = ("window", "pair")
SCHEMES = ("light", "dark", "contrast")
# Name of the picture → action of the window that is done on the sample, and what is typed then.
ACTIONS: dict[str, tuple[str, str]] = {
    "preview": ("preview", ""),
    "palette": ("palette", "diff"),
    "settings": ("settings", ""),
    "shortcuts": ("shortcuts", ""),
    "legend": ("legend", ""),
    "explain": ("explain", 'Unexpected key(s) in state_dict: "_orig_mod.tok_embeddings.weight".'),
    "rename": ("rename", ""),
    "fields": ("fields", ""),
}
NAME = "smollm2-135m"
MODEL_VIEWS: dict[str, tuple[str, ...]] = {
    "model-overview": (NAME, "--view", "overview"),
    "model-scan": (f"{NAME}-poisoned", "--view", "scan/start"),
    "model-pair": (f"{NAME}-untied", "--view", "tied"),
    "model-heat": (f"{NAME}-poisoned", "--select", "model.layers.7.mlp.up_proj.weight", "--view", "plots/heat"),
    "model-layers": (f"{NAME}-poisoned", "--select", "model.layers.7.mlp.down_proj.weight", "--view", "plots/layers"),
}


def main() -> int:
    """Draw the pictures and print their names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--model", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        if args.model is not None:
            draw_model(args.model, args.out, args.scale, Path(folder))
            return 0
        made = make_sources(Path(folder))
        for scheme in SCHEMES if args.all else SCHEMES[:2]:
            for name in VIEWS if args.all else README:
                words = [word.format(**made) for word in VIEWS[name]]
                draw(args.out / f"{name}-{scheme}.png", words, scheme, args.scale, Path(folder))
            if args.all:
                draw_result(args.out / f"result-{scheme}.png", scheme, args.scale, Path(folder))
                draw_batch(args.out / f"batch-{scheme}.png", made, scheme, args.scale, Path(folder))
                for name, (action, text) in ACTIONS.items():
                    draw_action(args.out / f"{name}-{scheme}.png", action, text, scheme, args.scale, Path(folder))
    return 0


def make_sources(folder: Path) -> dict[str, str]:
    """Make a checkpoint that lacks a layer, one whose head was trained apart, a poisoned one, and one cut short."""
    from ckpt_gui import normalise, open_checkpoint, write

    whole = folder / "whole"
    with open_checkpoint(ROOT / SAMPLE) as source:
        write(normalise(source), whole, layout="hf")
    header, data = split(whole / "model.safetensors")
    save(folder / "broken", {k: v for k, v in header.items() if ".layers.1." not in k}, data, whole)
    embedding = header["model.embed_tokens.weight"]
    begin, end = embedding["data_offsets"]
    head = bytes(b ^ 1 if i % 64 == 0 else b for i, b in enumerate(data[begin:end]))
    extra = {**embedding, "data_offsets": [len(data), len(data) + len(head)]}
    save(folder / "untied", {**header, "lm_head.weight": extra}, data + head, whole)
    begin, _ = header["model.layers.1.mlp.up_proj.weight"]["data_offsets"]
    odd = data[:begin] + b"\xc0\x7f" + data[begin + 2 :]  # a NaN in bf16
    begin, _ = header["model.layers.0.self_attn.o_proj.weight"]["data_offsets"]
    row = 2 * header["model.layers.0.self_attn.o_proj.weight"]["shape"][1]
    save(folder / "poisoned", header, odd[:begin] + bytes(row) + odd[begin + row :], whole)
    cut = folder / "damaged.safetensors"
    cut.write_bytes((whole / "model.safetensors").read_bytes()[:-50_000])
    return {
        "poisoned": str(folder / "poisoned"),
        "broken": str(folder / "broken"),
        "untied": str(folder / "untied"),
        "damaged": str(cut),
    }


def split(path: Path) -> tuple[dict[str, dict], bytes]:
    """Return the header and the data of a safetensors file."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    return header, raw[8 + size :]


def save(folder: Path, header: dict[str, dict], data: bytes, whole: Path) -> None:
    """Write a safetensors file with only the tensors in `header`, and its config."""
    folder.mkdir()
    blocks, place, fresh = [], 0, {}
    for key, entry in header.items():
        begin, end = entry["data_offsets"]
        fresh[key] = {**entry, "data_offsets": [place, place + end - begin]}
        blocks.append(data[begin:end])
        place += end - begin
    text = json.dumps({"__metadata__": {"format": "pt"}, **fresh}).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))
    shutil.copy(whole / "config.json", folder)


def draw(picture: Path, words: list[str], scheme: str, scale: str, folder: Path, *, at: Path = ROOT) -> None:
    """Draw one picture by the program itself."""
    picture = picture.resolve()
    run(picture, ["-m", "ckpt_gui.cli.main", *words, "--screenshot", str(picture)], scheme, scale, folder, at=at)


def draw_model(model: Path, out: Path, scale: str, folder: Path) -> None:
    """Draw the pages that are about numbers, from a real model and two copies of it."""
    for name in (NAME, f"{NAME}-poisoned", f"{NAME}-untied"):
        shutil.copytree(model, folder / name)
    poison(folder / f"{NAME}-poisoned")
    train_head(folder / f"{NAME}-untied")
    for scheme in ("light", "dark"):
        for name, words in MODEL_VIEWS.items():
            draw(out / f"{name}-{scheme}.png", list(words), scheme, scale, folder, at=folder)


def train_head(folder: Path) -> None:
    """Give a tied model a head of its own that differs in the rows of a few tokens."""
    header, data = split(folder / "model.safetensors")
    embedding = header["model.embed_tokens.weight"]
    begin, end = embedding["data_offsets"]
    head, row = bytearray(data[begin:end]), 2 * embedding["shape"][1]
    for token in (198, 2683, 28100):
        head[token * row : (token + 1) * row] = data[begin + (token + 1) * row : begin + (token + 2) * row]
    whole = {**header, "lm_head.weight": {**embedding, "data_offsets": [len(data), len(data) + len(head)]}}
    text = json.dumps({"__metadata__": {"format": "pt"}, **whole}).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data + bytes(head))


def run(picture: Path, words: list[str], scheme: str, scale: str, folder: Path, *, at: Path = ROOT) -> None:
    """Run Python in a fresh process with settings of its own; it shall have drawn a picture."""
    home = folder / f"settings-{scheme}"
    (home / "ckpt_gui").mkdir(parents=True, exist_ok=True)
    (home / "ckpt_gui" / "ckpt_gui.ini").write_text(f"[view]\nscheme={scheme}\n")
    environment = {**os.environ, "XDG_CONFIG_HOME": str(home), "QT_QPA_PLATFORM": "offscreen", "QT_SCALE_FACTOR": scale}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run([sys.executable, *words], env=environment, cwd=at, timeout=300, check=False)
    if done.returncode not in (0, 2) or not picture.exists():  # 2: the checkpoint could not be opened, as was meant
        raise SystemExit(f"{picture.name} was not drawn (status {done.returncode}).")
    print(picture)


# The last page of the export dialog: only a script gets there without a user.
RESULT = """
import sys
from PySide6.QtCore import QTimer
from ckpt_gui.gui import app as gui
from ckpt_gui.gui.screenshot import Shooter
from ckpt_gui.gui.window_state import once

sample, target, picture = sys.argv[1:]
app = gui.application()
windows = gui.Windows(gui.Settings(), gui.Theme(app, gui.Settings().scheme))
window = windows.add(sample)

def export():
    window.commands.export()
    dialog = window.commands.dialog
    dialog.set_folder(target)
    timer = QTimer(app, interval=50)

    def look():
        if dialog.export_button.isEnabled() and dialog.pages.currentIndex() == 0:
            dialog.start()
        elif dialog.pages.currentWidget() is dialog.result_page:
            timer.stop()
            shooter = Shooter(window, picture)
            app.aboutToQuit.connect(lambda: shooter)

    timer.timeout.connect(look)
    timer.start()

once(window, export)
app.exec()
windows.close_all()
"""


def draw_result(picture: Path, scheme: str, scale: str, folder: Path) -> None:
    """Export the sample in the window, and draw what it says of it."""
    run(picture, ["-c", RESULT, str(SAMPLE), str(folder / f"exported-{scheme}"), str(picture)], scheme, scale, folder)


# A dialog, opened by its action, with a text typed into what has the focus.
ACTION = """
import sys
from PySide6.QtCore import QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from ckpt_gui.gui import app as gui
from ckpt_gui.gui.screenshot import Shooter
from ckpt_gui.gui.window_state import once

sample, action, text, key, picture = sys.argv[1:]
app = gui.application()
windows = gui.Windows(gui.Settings(), gui.Theme(app, gui.Settings().scheme))
window = windows.add(sample)

def act():
    window.tree_panel.select_key(key)
    window.actions_by_id[action].trigger()
    QTimer.singleShot(300, type_text)

def type_text():
    place = QApplication.focusWidget()
    if text and place is not None:
        QTest.keyClicks(place, text)
    shooter = Shooter(window, picture)
    app.aboutToQuit.connect(lambda: shooter)

once(window, act)
app.exec()
windows.close_all()
"""


def draw_action(picture: Path, action: str, text: str, scheme: str, scale: str, folder: Path) -> None:
    """Do an action of the window on the sample, and draw what it shows."""
    run(picture, ["-c", ACTION, str(SAMPLE), action, text, WEIGHT, str(picture)], scheme, scale, folder)


def draw_batch(picture: Path, made: dict[str, str], scheme: str, scale: str, folder: Path) -> None:
    """Draw the queue of several checkpoints."""
    draw(picture, [str(SAMPLE), *made.values()], scheme, scale, folder)


if __name__ == "__main__":
    raise SystemExit(main())
