"""Interpret one pickle: what it holds, which names it mentions, and in plain words why it cannot be read to its end."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.pickle_global import read_storage
from ckpt_gui.core.formats.pickle_vm import BadPickleError, PickleLimitError, PickleMachine
from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import dataclass

MAX_BYTES = 1 << 30
_BAD = (IndexError, KeyError, ValueError, TypeError, OverflowError, AttributeError, struct.error)


@dataclass(frozen=True, slots=True)
class PickleResult:
    """What a pickle holds.

    Attributes:
        value: The inert value.
        end: The byte after its last opcode.
        names: Every (module, name) that it mentions, in order.
        foreign: Names outside the allow-list.
        unsafe: Those of them that a permissive loader would run.
    """

    value: Any
    end: int
    names: tuple[tuple[str, str], ...]
    foreign: tuple[str, ...]
    unsafe: tuple[str, ...]


def load_pickle(
    data: bytes, *, where: str = "data.pkl", start: int = 0, persistent: Callable[[Any], Any] = read_storage
) -> PickleResult:
    """Interpret one pickle.

    Args:
        data: The bytes.
        where: What to call it in messages.
        start: Where the pickle begins.
        persistent: Makes what a persistent id stands for; raises ValueError for one that stands for nothing.

    Raises:
        PickleError: `damaged` or `limit-exceeded`; the names that were seen until then are in the message.
    """
    if len(data) > MAX_BYTES:
        raise PickleError("limit-exceeded", f"{where} has {len(data):,} bytes; {MAX_BYTES:,} are read at most.")
    machine = PickleMachine(data, persistent)
    try:
        value = machine.run(start)
    except PickleLimitError as error:
        raise _failed(machine, "limit-exceeded", where, str(error)) from error
    except RecursionError as error:
        raise _failed(machine, "limit-exceeded", where, "it is nested too deeply") from error
    except _BAD as error:
        raise _failed(machine, "damaged", where, _reason(error)) from error
    names = tuple(machine.globals)
    return PickleResult(value, machine.pos, names, tuple(machine.foreign), tuple(machine.unsafe))


class PickleError(CheckpointError):
    """A pickle that cannot be read to its end.

    Attributes:
        unsafe: Names seen until then that a permissive loader would run.
    """

    unsafe: tuple[str, ...] = ()


def _reason(error: Exception) -> str:
    if isinstance(error, (IndexError, struct.error)):
        return "it ends too early, or takes more from its stack than was put there"
    if isinstance(error, KeyError):
        return f"it refers to something that is not there ({safe_text(str(error), 40)})"
    if isinstance(error, BadPickleError):
        return str(error)
    if isinstance(error, ValueError) and error.args:
        return safe_text(str(error), 120)
    return "a value has the wrong type"


def _failed(machine: PickleMachine, code: str, where: str, reason: str) -> PickleError:
    """Return the error for a run that failed, with the unsafe names that were seen."""
    message = f"{where} is {'damaged' if code == 'damaged' else 'refused'} at byte {machine.pos:,}: {reason}."
    if machine.unsafe:
        names = ", ".join(safe_text(name, 80) for name in list(machine.unsafe)[:8])
        message += f" Before that it names what a permissive loader would run: {names}."
    error = PickleError(code, message, offset=machine.pos)
    error.unsafe = tuple(machine.unsafe)
    return error
