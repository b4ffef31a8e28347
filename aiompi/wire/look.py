"""`Look`: a rank's report to the launcher on its current state; and `table`, which shows the looks of a job."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from aiompi.wire.wait_report import read_number, read_text

#: seconds between two looks
INTERVAL: Final = 1.0

# States of a rank.
RUNS: Final = "runs"
WAITS: Final = "waits"
_STYLES: Final = {"ended": "dim", "left": "dim", "gone": "red", "failed": "red"}


class Look(NamedTuple):
    """What one rank does now.

    Attributes:
        rank: rank in the world; -1 for a member of an open job that is in no world.
        host: name of the rank's machine.
        state: "runs"; "waits"; "ended" if the rank has stopped its recording; "gone" if its process has ended without
            stopping the recording. The launcher adds further states, such as "starts", "computes" for a rank that does
            not answer, "left" and "failed".
        seconds: seconds that the rank has waited; 0.0 if its clock cannot be read.
        place: the waiting call and its source line; for a failed rank, the cause of the failure.
        peer: the process for which the rank waits; -1 if it waits for any process.
        messages: messages that the rank sends and receives, per second.
        nbytes: bytes of these messages, per second.
        cpu: number of cores that the rank uses; None for a rank on another machine.
        memory: resident bytes; None for a rank on another machine.
    """

    rank: int
    host: str
    state: str
    seconds: float = 0.0
    place: str = ""
    peer: int = -1
    messages: float = 0.0
    nbytes: float = 0.0
    cpu: float | None = None
    memory: int | None = None

    def __str__(self) -> str:
        """The state in words."""
        if self.state != WAITS:
            return f"{self.state}: {self.place}" if self.place else self.state
        peer = f" for rank {self.peer}" if self.peer >= 0 else ""
        return f"waits {self.seconds:.1f} s{peer}: {self.place}"

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> Look | None:
        """Return the look that another process has sent as a list; None if the list is malformed."""
        try:
            fields: list[Any] = [read(value) for read, value in zip(_READERS, packed, strict=True)]
            return cls(*fields)
        except (OverflowError, TypeError, ValueError):
            return None


def _amount(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} in place of an amount")
    return float(value)


#: for each field of `Look` the function that reads it
_READERS: Final[tuple[Callable[[Any], Any], ...]] = (
    read_number, read_text, read_text, _amount, read_text, read_number, _amount, _amount,
    lambda value: None if value is None else _amount(value),
    lambda value: None if value is None else int(_amount(value)),
)  # fmt: skip


def table(looks: Sequence[Look]) -> Any:
    """Return a table of `rich`; its cells are no markup.

    Raises:
        ModuleNotFoundError: `rich` is not installed.
    """
    from rich.table import Table  # an optional dependency
    from rich.text import Text

    made = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("rank", "host", "CPU", "memory", "messages/s", "MB/s", "state"):
        # A narrow terminal cuts the last column only.
        made.add_column(name, justify="left" if name in ("host", "state") else "right", no_wrap=name != "state")
    for look in looks:
        cpu = "" if look.cpu is None else f"{look.cpu:.0%}"
        memory = "" if look.memory is None else f"{look.memory / 1e6:.0f} MB"
        rates = f"{look.messages:,.0f}", f"{look.nbytes / 1e6:,.1f}"
        rank = str(look.rank) if look.rank >= 0 else ""
        cells = [
            Text(cell, no_wrap=True, overflow="ellipsis") for cell in (rank, look.host, cpu, memory, *rates, str(look))
        ]
        made.add_row(*cells, style=_STYLES.get(look.state, ""))
    return made
