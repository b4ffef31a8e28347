"""The messages between the notebook and a rank, and how output and messages of a rank keep their order.

A rank prints to its standard output and error. The launcher passes both streams on to the notebook, in order, even
while the rank computes. Results that are no text are messages. For each message the rank prints a mark, a separate
line, at the place of the message in the output. The notebook takes the next message of the rank when it reads the mark.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

try:
    from cloudpickle import dumps as _dumps
except ImportError:  # then functions and classes of cells cannot be pushed or pulled
    from pickle import dumps as _dumps

#: interrupts the running cell of a rank; SIGINT would end the job
INTERRUPT: Final = signal.SIGUSR1
#: reaches a rank after all interrupts that were sent before: of two pending signals, the lower number is delivered
#: first
FENCE: Final = signal.SIGUSR2

#: ends the last line before a message of the rank, on standard output; ends the output of a cell on standard error
MARK: Final = "\x02aiompi\x03"

#: precedes the text of a warning, in JSON, on standard error. A warning is no message, because a warning inside of a
#: call of MPI could not send one
WARNING: Final = "\x02warning\x03"

#: formats by their media types, as IPython publishes them
Bundle: TypeAlias = dict[str, object]


class Run(NamedTuple):
    """Command: run a cell.

    Attributes:
        code: of the cell.
        number: number of the cell in the notebook, for tracebacks; 0 for the next number that the rank itself counts.
    """

    code: str
    number: int = 0


class Push(NamedTuple):
    """Command: set variables to pickled values."""

    values: dict[str, bytes]


class Pull(NamedTuple):
    """Command: answer with the value of an expression."""

    expression: str


class Renew(NamedTuple):
    """Command: make a new communicator `comm`, because the previous cell may have left messages.

    Attributes:
        interrupted: True if interrupts were sent. The rank then waits for the signal `FENCE`, which was sent after
            these interrupts, so that no late interrupt ends the next cell.
    """

    interrupted: bool


class Stop(NamedTuple):
    """Command: end."""


class Shown(NamedTuple):
    """Event: the cell shows an object, or has it as its result.

    Attributes:
        data: the object in several formats.
        metadata: about these formats.
    """

    data: Bundle
    metadata: Bundle


class Raised(NamedTuple):
    """Event: the cell has raised an exception.

    Attributes:
        name: class of the exception.
        text: text of the exception.
        traceback: lines for people, with colours.
    """

    name: str
    text: str
    traceback: list[str]


class Pulled(NamedTuple):
    """Event: the answer to `Pull`, pickled."""

    value: bytes


class Done(NamedTuple):
    """Event: a command has been carried out.

    Attributes:
        how: "well"; "badly" if it has raised an exception; "interrupted".
    """

    how: Literal["well", "badly", "interrupted"]


Command: TypeAlias = Run | Push | Pull | Renew | Stop
Event: TypeAlias = Shown | Raised | Pulled | Done

_KINDS: Final[dict[str, Callable[..., Command | Event]]] = {
    kind.__name__: kind for kind in (Run, Push, Pull, Renew, Stop, Shown, Raised, Pulled, Done)
}


def dumps(value: Any) -> bytes:
    """Return an object pickled.

    Raises:
        TypeError: the object cannot be pickled.
    """
    try:
        pickled: bytes = _dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"{type(value).__name__} cannot be pickled: {error}") from None
    return pickled


def pack(message: Command | Event) -> tuple[object, ...]:
    """Return a command or an event as a tuple that travels without a pickle."""
    return (type(message).__name__, *message)


def unpack(packed: tuple[str, ...]) -> Command | Event:
    """Return the command or event that `pack` has packed."""
    name, *fields = packed
    return _KINDS[name](*fields)
