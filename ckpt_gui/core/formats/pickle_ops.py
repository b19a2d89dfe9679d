"""The less frequent opcodes of pickle: one small function each, looked up by `pickle_vm`.

Meaning and numbers: `pickletools` and `Lib/pickle.py` of CPython 3.13. A handler takes the machine and the byte after
the opcode, and returns the byte at which the next opcode begins.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ckpt_gui.core.formats import pickle_scalars
from ckpt_gui.core.formats.pickle_scalars import line_at, take
from ckpt_gui.core.formats.torch_values import safe_key

if TYPE_CHECKING:
    from ckpt_gui.core.formats.pickle_vm import PickleMachine

    Handler = Callable[[PickleMachine, int], int]


def _tuple(count: int) -> Handler:
    def handler(vm: PickleMachine, pos: int) -> int:
        if len(vm.stack) < count:
            raise IndexError
        items = tuple(vm.stack[-count:])
        vm.stack[-count:] = [items]
        return pos

    return handler


def _pop_mark(vm: PickleMachine) -> list[Any]:
    items = vm.stack
    vm.stack = vm.marks.pop()
    return items


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
    line, pos = line_at(vm, pos)
    vm.stack.append(vm.get(int(line)))
    return pos


def _long_binget(vm: PickleMachine, pos: int) -> int:
    vm.stack.append(vm.get(struct.unpack_from("<I", vm.data, pos)[0]))
    return pos + 4


def _put(vm: PickleMachine, pos: int) -> int:
    line, pos = line_at(vm, pos)
    vm.put(int(line), vm.stack[-1])
    return pos


def _memoize(vm: PickleMachine, pos: int) -> int:
    vm.memo.append(vm.stack[-1])
    return pos


def _global(vm: PickleMachine, pos: int) -> int:
    module, pos = line_at(vm, pos)
    name, pos = line_at(vm, pos)
    vm.stack.append(vm.find(module, name))
    return pos


def _stack_global(vm: PickleMachine, pos: int) -> int:
    name, module = vm.stack.pop(), vm.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise ValueError("a name is not text")
    vm.stack.append(vm.find(module, name))
    return pos


def _extension(width: int) -> Handler:
    """EXT1, EXT2, EXT4: a name by a number that only the writer's process knew."""

    def handler(vm: PickleMachine, pos: int) -> int:
        code = int.from_bytes(take(vm, pos, width), "little")
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
    module, pos = line_at(vm, pos)
    name, pos = line_at(vm, pos)
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
    take(vm, pos + 8, int.from_bytes(take(vm, pos, 8), "little"))
    return pos + 8


def _buffer(vm: PickleMachine, pos: int) -> int:
    raise ValueError("it needs a buffer from outside (protocol 5)")


def _readonly_buffer(vm: PickleMachine, pos: int) -> int:
    return pos


def _binput(vm: PickleMachine, pos: int) -> int:
    vm.put(vm.data[pos], vm.stack[-1])
    return pos + 1


class _Table(dict[int, "Handler"]):
    """The handlers by opcode."""

    def __missing__(self, op: int) -> Handler:
        """Refuse an unknown opcode."""
        raise ValueError(f"0x{op:02x} is not an opcode")


HANDLERS: dict[int, Handler] = _Table(
    pickle_scalars.HANDLERS
    | {
        ord("0"): _pop,
        ord("1"): _discard_mark,
        ord("2"): _dup,
        0x85: _tuple(1),
        0x86: _tuple(2),
        0x87: _tuple(3),
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
        ord("q"): _binput,
    }
)
