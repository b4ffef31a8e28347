"""`Spans`: the seam for distributed traces. `aiompi.integrations.opentelemetry` puts spans of its own in `active`.

Each call and each publication carries the context of the sender's span: bytes that only the `Spans` object interprets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from aiompi.errors import RemoteProtocolError

#: most bytes of a context, as its length travels in two bytes
LONGEST: Final = 65_535

_NO_SPAN: Final[nullcontext[bytes]] = contextlib.nullcontext(b"")


class Spans:
    """No spans; a subclass makes some. In all methods, `rank` is the rank of this member."""

    def of_call(self, rank: int, peer: int, name: str) -> AbstractContextManager[bytes]:
        """Return a context manager for the span of a call to a peer's handler; it yields the context for the peer."""
        return _NO_SPAN

    def of_handler(self, rank: int, name: str | None, context: bytes) -> AbstractContextManager[object]:
        """Return a context manager for the span of a handler's run; `name` is None if the handler is unknown."""
        return _NO_SPAN

    def of_publication(self, rank: int, topic: str) -> AbstractContextManager[bytes]:
        """Return a context manager for the span of a publication; it yields the context for the members."""
        return _NO_SPAN

    def of_object(self, rank: int, topic: str, context: bytes) -> Callable[[], object] | None:
        """Begin the span in which an object of a subscription is processed, and return the function that ends it."""
        return None

    def of_write(self, rank: int, operation: str, name: str) -> AbstractContextManager[object]:
        """Return the span in which a shared dict is written."""
        return _NO_SPAN


#: the spans of this process
active: Spans = Spans()


def split(data: memoryview, start: int, length: int) -> tuple[bytes, memoryview]:
    """Return the context in a message, and the rest of the message.

    Raises:
        RemoteProtocolError: the message is too short.
    """
    end = start + length
    if len(data) < end:
        raise RemoteProtocolError(f"a message of {len(data)} bytes has a context that ends at {end}")
    return bytes(data[start:end]), data[end:]
