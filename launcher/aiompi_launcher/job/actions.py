"""The inputs and outputs of a state table: events, actions, and timers."""

from __future__ import annotations

import enum
from typing import NamedTuple, TypeAlias

from aiompi.wire import control


class Closed(NamedTuple):
    """Event: the connection of a rank has ended.

    Attributes:
        error: the fault of the rank or its host, as a predicate such as "broke the control protocol"; empty if unknown.
    """

    error: str = ""


class Due(enum.Enum):
    """The action of a table when a timer runs out."""

    VERDICT = enum.auto()  # end the job because of its culprit
    TIDIED = enum.auto()  # the time of ranks to end after a forwarded signal is over
    KILL = enum.auto()  # kill the ranks
    ABANDON = enum.auto()  # do not wait for killed ranks any longer
    CONCLUDE = enum.auto()  # print the result of an inquiry
    HANGUP = enum.auto()  # close the connection of a rank whose process has ended
    TELL = enum.auto()  # tell the others that a rank has failed
    REPORT = enum.auto()  # tell the user why a rank has failed
    JUDGE = enum.auto()  # decide which of two ranks is expelled
    JUDGE_LAST = enum.auto()  # decide it with the present knowledge
    ASSEMBLE = enum.auto()  # a member has waited long enough for a world
    START = enum.auto()  # a world should have started


class Timer(NamedTuple):
    """A timer of a table.

    Attributes:
        due: the action when it runs out.
        subject: the ranks that the timer concerns; for ASSEMBLE, a member and the number of its call of `assemble`; for
            START, the generation of a world.
    """

    due: Due
    subject: tuple[int, ...] = ()


class Send(NamedTuple):
    """Action: send a message to a rank or member."""

    number: int
    message: control.Message


class Hangup(NamedTuple):
    """Action: close the connection to a rank or member once everything is sent."""

    number: int


class Signal(NamedTuple):
    """Action: send a signal to the process group of a rank, or of all ranks."""

    signum: int
    rank: int | None = None


class StartTimer(NamedTuple):
    """Action: call `expired(timer)` after `seconds`."""

    timer: Timer
    seconds: float


class StopTimer(NamedTuple):
    """Action: a timer is not needed any more."""

    timer: Timer


class Publish(NamedTuple):
    """Action: all ranks have joined; exchange cards with the other clients, then call `introduce`."""

    cards: list[control.BusinessCard]


class Fence(NamedTuple):
    """Action: all ranks of this job have finalized or left; call `fenced` once all ranks of the world have."""


class Blame(NamedTuple):
    """Action: tell the user why the job ends; `rank` is the rank at fault, None if no rank is at fault."""

    rank: int | None
    text: str


class Note(NamedTuple):
    """Action: print a message, about `rank` if it is not None; the job goes on."""

    text: str
    rank: int | None = None


class Loss(NamedTuple):
    """Action: tell the user why a rank has failed; the job goes on without it."""

    rank: int
    text: str


class Exit(NamedTuple):
    """Action: the job is over; `code` is the exit code of the launcher."""

    code: int


Action: TypeAlias = Send | Hangup | Signal | StartTimer | Publish | Fence | Blame | Note | Loss | Exit
