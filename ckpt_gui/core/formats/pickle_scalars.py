"""The opcodes of pickle that put a constant, a number, a text or bytes on the stack.

Meaning and numbers: `pickletools` and `Lib/pickle.py` of CPython 3.13. A handler takes the machine and the byte after
the opcode, and returns the byte at which the next opcode begins.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckpt_gui.core.formats.pickle_vm import PickleMachine

    Handler = Callable[[PickleMachine, int], int]

MAX_LONG = 4096
MAX_LINE = 1 << 16


def take(vm: PickleMachine, pos: int, count: int) -> bytes:
    """Return bytes of the pickle; nothing is reserved for what it only claims to have."""
    if count < 0 or pos + count > len(vm.data):
        raise ValueError("it claims a text or a number that is longer than the rest of it")
    return vm.data[pos : pos + count]


def line_at(vm: PickleMachine, pos: int) -> tuple[str, int]:
    """Return a line of text and the byte after it."""
    end = vm.data.find(b"\n", pos, pos + MAX_LINE)
    if end < 0:
        raise ValueError("a line has no end")
    return vm.data[pos:end].decode("utf-8"), end + 1


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _sized(width: int, make: Callable[[bytes], Any]) -> Handler:
    """An opcode with a length of `width` bytes and that many bytes."""

    def handler(vm: PickleMachine, pos: int) -> int:
        count = int.from_bytes(take(vm, pos, width), "little")
        vm.stack.append(make(take(vm, pos + width, count)))
        return pos + width + count

    return handler


def _constant(make: Callable[[], Any]) -> Handler:
    def handler(vm: PickleMachine, pos: int) -> int:
        vm.stack.append(make())
        return pos

    return handler


def _parsed(make: Callable[[str], Any]) -> Handler:
    """An opcode of protocol 0 with a line of text."""

    def handler(vm: PickleMachine, pos: int) -> int:
        line, pos = line_at(vm, pos)
        vm.stack.append(make(line))
        return pos

    return handler


def _long(data: bytes) -> int:
    if len(data) > MAX_LONG:
        raise ValueError("a number is too long")
    return int.from_bytes(data, "little", signed=True)


def _int_line(line: str) -> int | bool:
    if line in ("00", "01"):
        return line == "01"
    return int(line.removesuffix("L"))


def _string_line(line: str) -> str:
    if len(line) < 2 or line[0] != line[-1] or line[0] not in "'\"":
        raise ValueError("a text has no quotes")
    if "\\" not in line:
        return line[1:-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes that mean nothing; they are taken as they stand
        return _text(line[1:-1].encode().decode("unicode_escape").encode("latin-1", "replace"))


def _float(vm: PickleMachine, pos: int) -> int:
    vm.stack.append(struct.unpack_from(">d", vm.data, pos)[0])
    return pos + 8


def _int2(vm: PickleMachine, pos: int) -> int:
    vm.stack.append(struct.unpack_from("<H", vm.data, pos)[0])
    return pos + 2


def _int4(vm: PickleMachine, pos: int) -> int:
    vm.stack.append(struct.unpack_from("<i", vm.data, pos)[0])
    return pos + 4


HANDLERS: dict[int, Handler] = {
    ord("F"): _parsed(float),
    ord("I"): _parsed(_int_line),
    ord("L"): _parsed(_int_line),
    ord("S"): _parsed(_string_line),
    ord("G"): _float,
    ord("}"): _constant(dict),
    ord("]"): _constant(list),
    ord(")"): _constant(tuple),
    0x8F: _constant(set),
    0x8A: _sized(1, _long),
    0x8B: _sized(4, _long),
    ord("T"): _sized(4, _text),
    ord("U"): _sized(1, _text),
    ord("B"): _sized(4, bytes),
    ord("C"): _sized(1, bytes),
    0x8C: _sized(1, _text),
    0x8D: _sized(8, _text),
    0x8E: _sized(8, bytes),
    0x96: _sized(8, bytes),
    ord("M"): _int2,
    ord("J"): _int4,
    ord("V"): _parsed(lambda line: line.encode("latin-1", "backslashreplace").decode("raw_unicode_escape")),
    ord("N"): _constant(lambda: None),
    0x88: _constant(lambda: True),
    0x89: _constant(lambda: False),
}
