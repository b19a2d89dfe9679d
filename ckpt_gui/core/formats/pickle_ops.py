"""The less frequent opcodes of pickle: one small function each, looked up by `pickle_vm`.

Meaning and numbers: `pickletools` and `Lib/pickle.py` of CPython 3.13. Each takes the machine and the byte after the
opcode, and returns the byte at which the next opcode begins.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ckpt_gui.core.formats.torch_values import safe_key

if TYPE_CHECKING:
    from ckpt_gui.core.formats.pickle_vm import PickleMachine

MAX_LONG = 4096
MAX_LINE = 1 << 16


def _take(vm: PickleMachine, pos: int, count: int) -> bytes:
    if count < 0 or pos + count > len(vm.data):
        raise ValueError("it claims a text or a number that is longer than the rest of it")
    return vm.data[pos : pos + count]


def _line(vm: PickleMachine, pos: int) -> tuple[str, int]:
    end = vm.data.find(b"\n", pos, pos + MAX_LINE)
    if end < 0:
        raise ValueError("a line has no end")
    return vm.data[pos:end].decode("utf-8"), end + 1


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _sized(width: int, make: Callable[[bytes], Any]) -> Callable[[PickleMachine, int], int]:
    """An opcode with a length of `width` bytes and that many bytes."""

    def handler(vm: PickleMachine, pos: int) -> int:
        count = int.from_bytes(_take(vm, pos, width), "little")
        vm.stack.append(make(_take(vm, pos + width, count)))
        return pos + width + count

    return handler


def _constant(make: Callable[[], Any]) -> Callable[[PickleMachine, int], int]:
    def handler(vm: PickleMachine, pos: int) -> int:
        vm.stack.append(make())
        return pos

    return handler


def _tuple(count: int) -> Callable[[PickleMachine, int], int]:
    def handler(vm: PickleMachine, pos: int) -> int:
        if len(vm.stack) < count:
            raise IndexError
        items = tuple(vm.stack[-count:])
        vm.stack[-count:] = [items]
        return pos

    return handler


def _parsed(make: Callable[[str], Any]) -> Callable[[PickleMachine, int], int]:
    """An opcode of protocol 0 with a line of text."""

    def handler(vm: PickleMachine, pos: int) -> int:
        line, pos = _line(vm, pos)
        vm.stack.append(make(line))
        return pos

    return handler


def _pop_mark(vm: PickleMachine) -> list[Any]:
    items = vm.stack
    vm.stack = vm.marks.pop()
    return items


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
    return _text(line[1:-1].encode().decode("unicode_escape").encode("latin-1", "replace"))


def _float(vm: PickleMachine, pos: int) -> int:
    vm.stack.append(struct.unpack_from(">d", vm.data, pos)[0])
    return pos + 8


def _pop(vm: PickleMachine, pos: int) -> int:
    if vm.stack:
        vm.stack.pop()
    else:
        _pop_mark(vm)
    return pos


def _discard_mark(vm: PickleMachine, pos: int) -> int:
    _pop_mark(vm)
    return pos


def _dup(vm: PickleMachine, pos: int) -> int:
    vm.stack.append(vm.stack[-1])
    return pos


def _get(vm: PickleMachine, pos: int) -> int:
    line, pos = _line(vm, pos)
    vm.stack.append(vm.get(int(line)))
    return pos


def _long_binget(vm: PickleMachine, pos: int) -> int:
    vm.stack.append(vm.get(struct.unpack_from("<I", vm.data, pos)[0]))
    return pos + 4


def _put(vm: PickleMachine, pos: int) -> int:
    line, pos = _line(vm, pos)
    vm.put(int(line), vm.stack[-1])
    return pos


def _memoize(vm: PickleMachine, pos: int) -> int:
    vm.memo.append(vm.stack[-1])
    return pos


def _global(vm: PickleMachine, pos: int) -> int:
    module, pos = _line(vm, pos)
    name, pos = _line(vm, pos)
    vm.stack.append(vm.find(module, name))
    return pos


def _stack_global(vm: PickleMachine, pos: int) -> int:
    name, module = vm.stack.pop(), vm.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise ValueError("a name is not text")
    vm.stack.append(vm.find(module, name))
    return pos


def _extension(width: int) -> Callable[[PickleMachine, int], int]:
    """EXT1, EXT2, EXT4: a name by a number that only the writer's process knew."""

    def handler(vm: PickleMachine, pos: int) -> int:
        code = int.from_bytes(_take(vm, pos, width), "little")
        vm.stack.append(vm.find("copyreg", f"extension_{code}"))
        return pos + width

    return handler


def _append(vm: PickleMachine, pos: int) -> int:
    item = vm.stack.pop()
    vm.extend(vm.stack[-1], [item])
    return pos


def _appends(vm: PickleMachine, pos: int) -> int:
    items = _pop_mark(vm)
    vm.extend(vm.stack[-1], items)
    return pos


def _set_item(vm: PickleMachine, pos: int) -> int:
    value, key = vm.stack.pop(), vm.stack.pop()
    vm.set_items(vm.stack[-1], [key, value])
    return pos


def _set_items(vm: PickleMachine, pos: int) -> int:
    pairs = _pop_mark(vm)
    vm.set_items(vm.stack[-1], pairs)
    return pos


def _add_items(vm: PickleMachine, pos: int) -> int:
    items = _pop_mark(vm)
    target = vm.stack[-1]
    if type(target) is not set:
        raise ValueError("it adds to something that is not a set")
    target.update(map(safe_key, items))
    return pos


def _list(vm: PickleMachine, pos: int) -> int:
    items = _pop_mark(vm)
    vm.stack.append(items)
    return pos


def _dict(vm: PickleMachine, pos: int) -> int:
    pairs = _pop_mark(vm)
    made: dict[Any, Any] = {}
    vm.set_items(made, pairs)
    vm.stack.append(made)
    return pos


def _frozenset(vm: PickleMachine, pos: int) -> int:
    items = _pop_mark(vm)
    vm.stack.append(frozenset(map(safe_key, items)))
    return pos


def _inst(vm: PickleMachine, pos: int) -> int:
    module, pos = _line(vm, pos)
    name, pos = _line(vm, pos)
    args = tuple(_pop_mark(vm))
    vm.stack.append(vm.call(vm.find(module, name), args))
    return pos


def _obj(vm: PickleMachine, pos: int) -> int:
    items = _pop_mark(vm)
    vm.stack.append(vm.call(items[0], tuple(items[1:])))
    return pos


def _newobj(vm: PickleMachine, pos: int) -> int:
    args = vm.stack.pop()
    vm.stack[-1] = vm.call(vm.stack[-1], args)
    return pos


def _newobj_ex(vm: PickleMachine, pos: int) -> int:
    kwargs, args = vm.stack.pop(), vm.stack.pop()
    if type(kwargs) is not dict or type(args) is not tuple:
        raise ValueError("it makes an object from arguments that are none")
    vm.stack[-1] = vm.call(vm.stack[-1], (*args, kwargs) if kwargs else args)
    return pos


def _build(vm: PickleMachine, pos: int) -> int:
    state = vm.stack.pop()
    vm.stack[-1] = vm.build(vm.stack[-1], state)
    return pos


def _persid(vm: PickleMachine, pos: int) -> int:
    raise ValueError("it refers to something outside by a text (protocol 0)")


def _protocol(vm: PickleMachine, pos: int) -> int:
    if vm.data[pos] > 5:
        raise ValueError(f"it claims pickle protocol {vm.data[pos]}; 5 is the last one known")
    return pos + 1


def _frame(vm: PickleMachine, pos: int) -> int:
    _take(vm, pos + 8, int.from_bytes(_take(vm, pos, 8), "little"))
    return pos + 8


def _buffer(vm: PickleMachine, pos: int) -> int:
    raise ValueError("it needs a buffer from outside (protocol 5)")


def _readonly_buffer(vm: PickleMachine, pos: int) -> int:
    return pos


class _Table(dict[int, Callable[["PickleMachine", int], int]]):
    """The handlers by opcode."""

    def __missing__(self, op: int) -> Callable[[PickleMachine, int], int]:
        """Refuse an unknown opcode."""
        raise ValueError(f"0x{op:02x} is not an opcode")


HANDLERS: dict[int, Callable[[PickleMachine, int], int]] = _Table(
    {
        ord("0"): _pop,
        ord("1"): _discard_mark,
        ord("2"): _dup,
        ord("F"): _parsed(float),
        ord("I"): _parsed(_int_line),
        ord("L"): _parsed(_int_line),
        ord("S"): _parsed(_string_line),
        ord("V"): _parsed(lambda line: line.encode("latin-1", "backslashreplace").decode("raw_unicode_escape")),
        ord("G"): _float,
        ord("N"): _constant(lambda: None),
        0x88: _constant(lambda: True),
        0x89: _constant(lambda: False),
        ord("}"): _constant(dict),
        ord("]"): _constant(list),
        ord(")"): _constant(tuple),
        0x8F: _constant(set),
        0x85: _tuple(1),
        0x86: _tuple(2),
        0x87: _tuple(3),
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
        ord("g"): _get,
        ord("j"): _long_binget,
        ord("p"): _put,
        0x94: _memoize,
        ord("c"): _global,
        0x93: _stack_global,
        0x82: _extension(1),
        0x83: _extension(2),
        0x84: _extension(4),
        ord("a"): _append,
        ord("e"): _appends,
        ord("s"): _set_item,
        ord("u"): _set_items,
        0x90: _add_items,
        ord("l"): _list,
        ord("d"): _dict,
        0x91: _frozenset,
        ord("i"): _inst,
        ord("o"): _obj,
        0x81: _newobj,
        0x92: _newobj_ex,
        ord("b"): _build,
        ord("P"): _persid,
        0x80: _protocol,
        0x95: _frame,
        0x97: _buffer,
        0x98: _readonly_buffer,
    }
)
