"""An own interpreter of pickle opcodes (protocols 0 to 5) that can only make inert values.

Not a subclass of `pickle.Unpickler`: that one cannot bound opcodes, memo, depth or the length of strings, and its
restricted forms stop at the first name that they do not know. Here a name outside the allow-list becomes a
`ForeignObject` that keeps its arguments and state, so that the tensors inside are still found; nothing is imported.

Memory and time are proportional to the bytes of the pickle: every opcode makes one small value, and what could copy
(a call of `list`, `bytearray`, …) draws from a budget.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ckpt_gui.core.beside import ForeignObject
from ckpt_gui.core.formats import pickle_ops
from ckpt_gui.core.formats.pickle_global import Global
from ckpt_gui.core.formats.pickle_names import find
from ckpt_gui.core.formats.torch_values import StateDict, safe_key

COPY_BUDGET = 1 << 24
_U4 = struct.Struct("<I").unpack_from
_I4 = struct.Struct("<i").unpack_from
_NOTHING = object()
_Handler = Callable[["PickleMachine", int], int]


class PickleLimitError(Exception):
    """A pickle that asks for more than it may."""


class BadPickleError(ValueError):
    """A pickle that breaks the rules."""


class PickleMachine:
    """Stack, memo and position of one run.

    Attributes:
        data: The bytes.
        pos: The byte at which it stopped.
        persistent: Makes what a persistent id stands for.
        globals: Every (module, name) mentioned, with what it stands for.
        foreign: Names outside the allow-list.
        unsafe: Those that a permissive loader would run.
    """

    def __init__(self, data: bytes, persistent: Callable[[Any], Any]) -> None:
        """Start with an empty stack."""
        self.data = data
        self.persistent = persistent
        self.pos = 0
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: list[Any] = []  # a list: writers count from 0 or 1 on, and a dict would take four times the room
        self.globals: dict[tuple[str, str], Any] = {}
        self.foreign: dict[str, None] = {}
        self.unsafe: dict[str, None] = {}
        self._budget = COPY_BUDGET
        self._items: dict[int, tuple[Any, Any]] = {}

    def run(self, pos: int) -> Any:
        """Interpret from a byte to the STOP opcode and return the value on top of the stack.

        The opcodes that make up nearly all of a state dict stand here, the most frequent first; the others are looked
        up in a table. What remembers a value follows most of those that make one: it is looked for there at once.
        """
        data, memo, marks, handlers = self.data, self.memo, self.marks, _HANDLERS
        persistent, size = self.persistent, len(self.data)
        stack = self.stack
        push = stack.append
        try:
            while True:
                op = data[pos]
                pos += 1
                if op == 0x68:  # BINGET
                    value = memo[data[pos]]
                    if value is _NOTHING:
                        raise BadPickleError("it refers to a value that it never made")
                    push(value)
                    pos += 1
                    continue
                if op == 0x4B:  # BININT1
                    push(data[pos])
                    pos += 1
                    continue
                if op == 0x28:  # MARK
                    marks.append(stack)
                    stack = []
                    push = stack.append
                    continue
                if op == 0x86:  # TUPLE2
                    second = stack.pop()
                    stack[-1] = value = (stack[-1], second)
                elif op == 0x74:  # TUPLE
                    value = tuple(stack)
                    stack = marks.pop()
                    push = stack.append
                    push(value)
                elif op == 0x52:  # REDUCE
                    args, target = stack.pop(), stack[-1]
                    value = NotImplemented
                    if type(target) is Global and type(args) is tuple and target.build and not (target.copies and args):
                        value = target.build(args)
                    stack[-1] = value = self.call(target, args) if value is NotImplemented else value
                elif op == 0x58:  # BINUNICODE
                    end = pos + 4 + _U4(data, pos)[0]
                    if end > size:
                        raise BadPickleError("it claims a text that is longer than the rest of it")
                    value = data[pos + 4 : end].decode("utf-8", "surrogatepass")
                    push(value)
                    pos = end
                elif op == 0x51:  # BINPERSID
                    stack[-1] = persistent(stack[-1])
                    continue
                elif op == 0x89:  # NEWFALSE
                    push(False)
                    continue
                elif op == 0x29:  # EMPTY_TUPLE
                    push(())
                    continue
                elif op == 0x4D:  # BININT2
                    push(data[pos] | data[pos + 1] << 8)
                    pos += 2
                    continue
                elif op == 0x4A:  # BININT
                    push(_I4(data, pos)[0])
                    pos += 4
                    continue
                elif op == 0x2E:  # STOP
                    return stack[-1]
                elif op == 0x72:  # LONG_BINPUT, after what is not looked at below
                    pos -= 1
                    value = stack[-1]
                else:
                    self.stack = stack
                    pos = handlers[op](self, pos)
                    stack = self.stack
                    push = stack.append
                    continue
                if data[pos] == 0x72:  # LONG_BINPUT
                    index = _U4(data, pos + 1)[0]
                    pos += 5
                    if index == len(memo):
                        memo.append(value)
                    else:
                        self.put(index, value)
        finally:
            self.pos = pos

    def put(self, index: int, value: Any) -> None:
        """Remember a value; gaps are filled, up to one place for each byte of the pickle."""
        memo = self.memo
        if not 0 <= index < len(memo):
            if index < 0 or index > len(self.data):
                raise PickleLimitError("it numbers its values far beyond their count")
            memo += [_NOTHING] * (index + 1 - len(memo))
        memo[index] = value

    def get(self, index: int) -> Any:
        """Return a value that was remembered."""
        if not 0 <= index < len(self.memo) or self.memo[index] is _NOTHING:
            raise BadPickleError(f"it refers to value {index:,}, which it never made")
        return self.memo[index]

    def find(self, module: str, name: str) -> Any:
        """Return what a name stands for, and note it."""
        found = self.globals.get((module, name))
        if found is None:
            found = self.globals[(module, name)] = find(module, name)
            if isinstance(found, Global) and found.build is None and not found.is_storage:
                self.foreign[found.name] = None
                if found.unsafe and not found.only_if_called:
                    self.unsafe[found.name] = None
        return found

    def call(self, target: Any, args: Any) -> Any:
        """Return what calling a name with arguments makes: a description, whatever the name is."""
        if type(args) is not tuple:
            raise BadPickleError("it calls something with arguments that are not a tuple")
        if type(target) is not Global:
            return self._foreign(f"{_name_of(target)}(…)", True, (target, *args))
        if target.build is not None:
            if target.copies and args:
                self.charge(args)
            made = target.build(args)
            if made is not NotImplemented:
                return made
            return self._foreign(_name_of(args[1]), False, args)
        if target.name in ("copyreg._reconstructor", "copyreg.__newobj__") and args:
            return self.call(args[0], args[1:])
        return self._foreign(target.name, target.unsafe, args)

    def _foreign(self, name: str, unsafe: bool, args: tuple[Any, ...]) -> ForeignObject:
        self.foreign[name] = None
        if unsafe:
            self.unsafe[name] = None
        return ForeignObject(name, True, unsafe, args)

    def charge(self, items: tuple[Any, ...]) -> None:
        """Draw the size of what is copied from the budget."""
        self._budget -= sum(len(x) for x in items if hasattr(x, "__len__"))
        if self._budget < 0:
            raise PickleLimitError("it copies the same values too often")

    def set_items(self, target: Any, pairs: list[Any]) -> None:
        """Do SETITEMS: on dicts, and on foreign objects (a subclass of dict), which keep them as a child."""
        if isinstance(target, ForeignObject):
            target = self._child(target, dict)
        if not isinstance(target, dict):
            raise BadPickleError(f"it sets an item of a {_name_of(target)}")
        for i in range(0, len(pairs), 2):
            key = pairs[i]
            target[key if type(key) is str else safe_key(key)] = pairs[i + 1]

    def extend(self, target: Any, items: list[Any]) -> None:
        """Do APPENDS: on lists, and on foreign objects (a subclass of list), which keep them as a child."""
        if isinstance(target, ForeignObject):
            target = self._child(target, list)
        if type(target) is not list:
            raise BadPickleError(f"it appends to a {_name_of(target)}")
        target.extend(items)

    def build(self, target: Any, state: Any) -> Any:
        """Do BUILD: keep the state beside what it belongs to."""
        if type(target) is StateDict:
            if isinstance(state, dict):
                target.attributes = state
        elif isinstance(target, ForeignObject):
            self._adopt(target, state)
        elif type(target) is Global:
            return self._foreign(target.name, target.unsafe, (state,))
        return target

    def _child(self, target: ForeignObject, kind: type) -> Any:
        _, held = self._items.get(id(target), (None, None))
        if type(held) is not kind:
            held = kind()
            self._items[id(target)] = (target, held)  # the target too, lest its id is used again
            self._adopt(target, held)
        return held

    def _adopt(self, target: ForeignObject, child: Any) -> None:
        self._budget -= len(target.children)
        if self._budget < 0:
            raise PickleLimitError("an object is given a state again and again")
        # The object is frozen for everybody else; its state follows it in the pickle and may hold the object itself.
        object.__setattr__(target, "children", (*target.children, child))


def _name_of(value: Any) -> str:
    return str(getattr(value, "name", type(value).__name__))


_HANDLERS: dict[int, _Handler] = pickle_ops.HANDLERS
