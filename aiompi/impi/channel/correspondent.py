"""The seam between a pair and those who use it."""

from __future__ import annotations

from typing import Protocol

from aiompi.impi.channel.message import Incoming, Outgoing, Payload


class Correspondent(Protocol):
    """What a pair tells, and asks for."""

    def transmit(self, header: bytes, data: Payload, last_of: Outgoing | None) -> None:
        """Hand a packet to the host, behind all others.

        Args:
            header: its 128 bytes.
            data: views of the memory of a message, which must stay as it is until the packet has left.
            last_of: the message of which this is the last packet: once it has left, its memory is free again.
        """

    def waits(self, outgoing: Outgoing) -> None:
        """The rest of a long message waits for its receive; it may be written ahead meanwhile."""

    def arrived(self, incoming: Incoming, data: memoryview) -> None:
        """A message is there with its first packet. Call `pair.match` when a receive has matched it, now or later.

        Args:
            data: of that packet; valid only during the call.
        """

    def continued(self, incoming: Incoming, data: memoryview) -> None:
        """More of a matched message has come; it is complete when `incoming.missing` is 0."""

    def recalled(self, incoming: Incoming) -> None:
        """The sender has taken a message back before it was matched: forget it."""

    def matched(self, outgoing: Outgoing) -> None:
        """A receive has matched a message that asked to be told."""

    def cancelled(self, outgoing: Outgoing) -> None:
        """A message that was to be cancelled will not be received."""

    def not_cancelled(self, outgoing: Outgoing) -> None:
        """A message that was to be cancelled had been matched before."""

    def odd(self, what: str) -> None:
        """The other side does something that is wrong and can be lived with; told once per kind."""
