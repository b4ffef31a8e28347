"""The base of a peer: it matches arriving eager messages, and counts credit (flow control)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: bytes of credit that an eager message costs beyond its payload: they bound empty messages, too
OVERHEAD: Final = 128
#: kind of the frame of a whole message (see `aiompi.wire.frame`)
_EAGER: Final = 1


class PeerBase:
    """The base of a peer (a process), which matches its eager messages; see `aiompi.engine.endpoint.Endpoint`.

    Attributes:
        credit: bytes that this rank may still send eagerly.
        most_credit: upper bound of `credit`: the bytes of credit that the peer has granted at the start.
        ring: ring buffer of `link` in shared memory, into which this rank writes short messages directly; None until
            the link uses its ring. In the pure form always None.
        brief: most bytes of a message that this rank writes directly into `ring`.
    """

    __slots__ = (
        "_ackmark", "_contexts", "_held", "_hiwater", "_max_announced", "_owed", "_unanswered", "_withheld",
        "brief", "credit", "engine", "error", "finalize_error", "landings", "link", "most_credit", "orphans",
        "rank", "ring",
    )  # fmt: skip

    def __init__(self, engine: Any, rank: int) -> None:
        self.engine = engine
        self.rank = rank
        self._contexts: dict[int, Any] = engine.contexts
        self.link: Any = None
        self.error: Exception | None = None
        self.finalize_error: Exception | None = None
        self.landings: set[Any] = set()
        self.orphans: list[Any] = []
        self._withheld: Any = None  # messages beyond the bound of announcements
        self._unanswered = 0  # messages that the peer has to answer, including withheld ones
        self._max_announced = 0  # most messages that may be announced to it
        self.ring: Any = None
        self.brief: int = engine.brief_limit
        self.credit = self.most_credit = self._owed = self._held = self._hiwater = self._ackmark = 0

    def gain(self, credit: int) -> None:
        """Record that the peer has returned credit."""
        self.credit = min(self.credit + credit, self.most_credit)

    def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
        """Handle a complete frame. The payload is valid only during the call."""
        kind, tag, source, credit, context, length, _, note = header
        self.gain(credit)
        if kind == _EAGER and context in self._contexts:
            matcher = self._contexts[context]
            if matcher.sources.get(self.rank) == source:
                receive = matcher.take_posted(source, tag)
                if receive is not None:
                    self._owed += length + OVERHEAD
                    if self._owed >= self._ackmark:
                        self._acknowledge()
                    receive.note = note
                    receive.take(source, tag, payload)
                    return
        self.handle(header, payload)

    def handle(self, header: tuple[int, ...], payload: memoryview) -> None:
        """Handle any frame but an eager message with a posted receive. The credit of the frame has been noted."""
        raise NotImplementedError

    def emit(
        self,
        kind: int,
        tag: int = 0,
        source: int = 0,
        context: int = 0,
        length: int = 0,
        srqid: int = 0,
        drqid: int = 0,
    ) -> None:
        """Send a frame without payload."""
        raise NotImplementedError

    def fetch(self, receive: Any, source: int, tag: int, length: int, srqid: int, offer: Any) -> None:
        """Get a long message for its receive: copy it, or ask for it.

        Args:
            offer: the sender's memory (see `aiompi.wire.frame.Offer`); None if this rank must ask for the message.
        """
        raise NotImplementedError

    def assist_on(self, send: Any, write: Callable[[int], bool]) -> None:
        """Write the rest of a message into memory of the peer; this copy takes turns with other copies.

        Args:
            write: function that writes at most the given number of bytes; it returns True if bytes remain.
        """
        raise NotImplementedError

    def copy_on(self, receive: Any, memory: memoryview, srqid: int, offer: Any, filled: int) -> None:
        """Copy the rest of an offered message, in turn with other copies.

        Args:
            memory: destination of the whole message; the first `filled` bytes have been copied.
        """
        raise NotImplementedError

    def _acknowledge(self) -> None:
        """Return credit, in a separate frame if necessary."""
        raise NotImplementedError
