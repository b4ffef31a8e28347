"""The interface between the core and the driver of a rank: `Waiter`, which waiting code yields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class Waiter(Protocol):
    """The object that waiting code yields, such as a future of its event loop."""

    def __iter__(self) -> Iterator[Any]: ...

    def done(self) -> bool:
        """Return True if the waiting has ended, by `set_result` or by cancellation."""

    def set_result(self, result: None, /) -> None:
        """Make the waiting code continue."""
