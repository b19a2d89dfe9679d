"""What the program tells a desktop: valid for its own tools, complete, installed and taken away without a trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from configparser import RawConfigParser
from pathlib import Path

import pytest

from ckpt_gui.cli.main import main
from ckpt_gui.desktop import linux, windows
from ckpt_gui.desktop.resources import APP, resource

MIME = "{http://www.freedesktop.org/standards/shared-mime-info}"
ENTRY = f"{APP}.desktop"
SAMPLE = resource("sample/tiny-llama-compiled.pt")


def entry(path: Path) -> RawConfigParser:
    parser = RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path, encoding="utf-8")
    return parser


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (make test-desktop installs it)")
    return found


def test_the_desktop_entry_is_valid() -> None:
    done = subprocess.run([tool("desktop-file-validate"), resource(ENTRY)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_metainfo_is_valid() -> None:
    words = [tool("appstreamcli"), "validate", "--no-net", resource(f"{APP}.metainfo.xml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_entry_metainfo_and_mime_types_agree() -> None:
    types = entry(resource(ENTRY))["Desktop Entry"]["MimeType"].rstrip(";").split(";")
    defined = [each.get("type") for each in ET.parse(resource(f"{APP}.mime.xml")).iter(f"{MIME}mime-type")]
    provided = [each.text for each in ET.parse(resource(f"{APP}.metainfo.xml")).iter("mediatype")]
    assert sorted(types) == sorted(map(str, defined)) == sorted(map(str, provided))
    assert entry(resource(ENTRY))["Desktop Entry"]["Exec"] == "ckpt-gui %F"


def test_every_file_goes_to_its_place_and_away_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("a Linux desktop")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert main(["--install-desktop"]) == 0
    for place in linux.FILES.values():
        assert (tmp_path / place).stat().st_size > 0, place
    installed = entry(tmp_path / linux.DESKTOP)
    assert installed["Desktop Entry"]["Exec"].endswith('ckpt-gui" %F')
    assert installed["Desktop Action new-window"]["Exec"].endswith('ckpt-gui" --new-window')
    if validate := shutil.which("desktop-file-validate"):
        subprocess.run([validate, tmp_path / linux.DESKTOP], check=True)
    assert main(["--uninstall-desktop"]) == 0
    assert not [place for place in linux.FILES.values() if (tmp_path / place).exists()]
    assert main(["--uninstall-desktop"]) == 0, "twice is no fault"
    assert "0 files were taken" in capsys.readouterr().err


def test_a_folder_that_can_not_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("a Linux desktop")
    (tmp_path / "data").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert main(["--install-desktop"]) == 1
    assert "can not be written" in capsys.readouterr().err


@pytest.mark.parametrize("program", ["/opt/my tools/ckpt-gui", '/a"b$c`d/100%/ckpt-gui', "/a\\b/ckpt-gui"])
def test_the_program_is_quoted_as_desktops_want_it(program: str) -> None:
    line = linux.started_by("Exec=ckpt-gui %F", program).removeprefix("Exec=")
    plain = line.replace("\\\\", "\\")  # a value of type string
    quoted = plain[1 : plain.index('" %F')]
    read, place = "", 0
    while place < len(quoted):
        place += quoted[place] == "\\"
        read += quoted[place]
        place += 1
    assert read.replace("%%", "%") == program


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.safetensors", None, "application/x-safetensors"),
        ("model.safetensors.index.json", None, "application/x-safetensors-index+json"),
        ("pytorch_model.bin.index.json", None, "application/x-safetensors-index+json"),
        ("a.pth", None, "application/x-pytorch-checkpoint"),
        ("pytorch_model-00001-of-00002.bin", None, "application/x-pytorch-checkpoint"),
        ("a.gguf", None, "application/x-gguf"),
        ("nameless1", b"\x40\0\0\0\0\0\0\0" + b'{"w":{}}', "application/x-safetensors"),
        ("nameless2", b"GGUF\3\0\0\0", "application/x-gguf"),
        ("nameless3", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "application/x-pytorch-checkpoint"),
        ("nameless4", b"sample", "application/x-pytorch-checkpoint"),
        ("nameless5", b'{"metadata": {"total_size": 1}, "weight_map": {}}', "application/x-safetensors-index+json"),
        ("a.zip", b"PK\3\4" + b"\0" * 26 + b"readme.txt", "application/zip"),
    ],
)
def test_files_are_known_by_name_and_by_content(tmp_path: Path, name: str, content: bytes | None, kind: str) -> None:
    update = tool("update-mime-database")
    data = tmp_path / "data"
    (data / "mime" / "packages").mkdir(parents=True)
    shutil.copy(resource(f"{APP}.mime.xml"), data / "mime" / "packages")
    subprocess.run([update, data / "mime"], check=True, capture_output=True)
    path = tmp_path / name
    path.write_bytes(SAMPLE.read_bytes()[:4096] if content == b"sample" else content or b"x")
    ask = (
        "import sys; from PySide6.QtCore import QMimeDatabase as D; p = sys.argv[1];"
        "mode = D.MatchMode.MatchContent if 'nameless' in p else D.MatchMode.MatchDefault;"
        "print(D().mimeTypeForFile(p, mode).name())"
    )
    environment = os.environ | {"XDG_DATA_HOME": str(data)}
    done = subprocess.run(
        [sys.executable, "-c", ask, path], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == kind


def test_windows_is_told_of_every_file_type_and_takes_none_from_others() -> None:
    found = windows.entries(r"C:\Program Files\ckpt-gui\ckpt-gui-window.exe", r"C:\icon.ico")
    command = '"C:\\Program Files\\ckpt-gui\\ckpt-gui-window.exe" "%1"'
    assert {value.text for value in found if value.key.endswith("command")} == {command}
    offered = [v.key.split("\\")[2] for v in found if v.key.endswith("OpenWithProgids")]
    assert offered == [".safetensors", ".gguf", ".pth", ".pt", ".ckpt"]
    assert not [v for v in found if v.key.split("\\")[2].startswith(".") and not v.key.endswith("OpenWithProgids")]
    own = windows.own_keys()
    assert all(value.key in own or value.key.endswith("OpenWithProgids") for value in found)
    for place, key in enumerate(own):
        assert not [later for later in own[place + 1 :] if later.startswith(f"{key}\\")], "those below go first"


def test_icons_are_there_in_every_form() -> None:
    for size in linux.PNG_SIZES:
        head = resource(f"icons/png/{size}.png").read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        assert (int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")) == (size, size)
    assert resource("icons/ckpt-gui.ico").read_bytes()[:4] == b"\0\0\1\0"
    assert resource("icons/ckpt-gui.icns").read_bytes()[:4] == b"icns"
