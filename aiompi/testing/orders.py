"""The messages between a session of pytest and the workers that run its tests as ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """The process for which a worker runs tests.

    Attributes:
        args: arguments of pytest.
        directory: working directory.
        path: sys.path.
        basetemp: parent of the temporary directories of its workers.
    """

    args: list[str]
    directory: str
    path: list[str]
    basetemp: str


class Order(NamedTuple):
    """A test to run.

    Attributes:
        nodeid: id of the test.
        following: id of the test that the worker probably runs next; fixtures that it shares stay set up. Empty if none
            follows.
    """

    nodeid: str
    following: str = ""


class Begun(NamedTuple):
    """The worker has collected the test, and begins it."""


class Warned(NamedTuple):
    """A warning in a test.

    Attributes:
        packed: the warning, pickled; empty if the warning cannot be pickled.
        text: class and text of the warning.
        filename: of the line.
        lineno: number of the line.
    """

    packed: bytes
    text: str
    filename: str
    lineno: int


class Ended(NamedTuple):
    """The worker has run the test.

    Attributes:
        reports: serialized reports of its phases.
        trouble: why the worker cannot run the test; empty if it has run the test.
        warned: the warnings in it.
    """

    reports: list[dict[str, Any]]
    trouble: str = ""
    warned: Sequence[Warned] = ()


class Settle(NamedTuple):
    """All ranks have passed the test: is any message of the test left?"""


class Settled(NamedTuple):
    """The answer to `Settle`.

    Attributes:
        clean: False if a message has come that the test has not received.
    """

    clean: bool


class Inquire(NamedTuple):
    """What does the worker do now?"""


class State(NamedTuple):
    """What the worker does now.

    Attributes:
        report: its waiting calls, packed.
        place: line of the project that the main thread runs.
    """

    report: dict[str, Any]
    place: str
