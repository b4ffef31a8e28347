"""What two ranks with a segment have of each other's memory, beside its rings."""

from __future__ import annotations

import socket
from typing import Final

from aiompi.datatype.buffer.process import address_of
from aiompi.engine import Receive
from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.area import Area, Borrower, Loan
from aiompi.transport.shared_memory.arena import Arena
from aiompi.transport.shared_memory.cma import Assistance, Exposed
from aiompi.transport.shared_memory.descriptors import process_of
from aiompi.transport.shared_memory.inbound import Inbound
from aiompi.transport.shared_memory.neighbour import Neighbour
from aiompi.transport.shared_memory.posted import Advertiser, Filler
from aiompi.transport.shared_memory.ring import PLACE, Ring
from aiompi.transport.shared_memory.segment import Segment
from aiompi.transport.shared_memory.words import RETRACTED
from aiompi.wire.frame import Payload


class Sharing:
    """Areas that they have handed to each other, and memory in which messages are that one has announced.

    Args:
        sock: the socket between them.
        segment: the memory that they share.

    Attributes:
        loans: by kind, the areas of the peer.
        filler: what copies messages straight into memory of the peer, once it is needed.
    """

    def __init__(self, sock: socket.socket, segment: Segment) -> None:
        self._socket = sock
        self._outbound = segment.outbound
        segment.inbound.lender = self._lender
        segment.inbound.exposed = self._exposed
        self._borrowers: dict[Area, Borrower] = {}  # the peer, as reader of the areas of this rank
        self.loans: Final[dict[int, Loan]] = {}
        self._offered: Arena | None = None  # where messages to the peer may lie
        self._exposing = False  # whether they may lie in any memory
        self._neighbour: Neighbour | None = None
        self._advertiser: Advertiser | None = None
        self.filler: Filler | None = None

    def open_to(self, area: Area) -> Borrower | None:
        """Let the peer read an area of this rank; the peer as its reader once it can."""
        borrower = self._borrowers.get(area)
        if borrower is None:
            borrower = area.open_to(self._socket)
            if borrower is not None:
                self._borrowers[area] = borrower
        return borrower if borrower is not None and borrower.able else None

    def receive(self) -> Loan | None:
        """An area that the peer hands over; None if it has closed.

        Raises:
            RemoteProtocolError: what came is no area, or it has been handed over before.
            OSError: as of `Loan.receive`.
        """
        loan = Loan.receive(self._socket)
        if loan is not None and self.loans.setdefault(loan.kind, loan) is not loan:
            raise RemoteProtocolError("it handed over the same memory twice")
        return loan

    def _lender(self, kind: int) -> Loan:
        """An area of the peer, which this rank has told it to have."""
        loan = self.loans.get(kind)
        if loan is None:
            raise RemoteProtocolError("it told of memory that this rank has not got")
        return loan

    def offer(self, arena: Arena) -> None:
        """Messages to the peer lie in the arena."""
        self._offered = arena

    def expose(self, payload: Payload) -> bytes:
        """Let the peer copy a message from where it is; what it is to be told."""
        self._exposing = True
        places = [PLACE.pack(address_of(piece), len(piece)) for piece in payload if len(piece)]
        return b"".join((PLACE.pack(len(places), self._outbound.words[RETRACTED]), *places))

    def take_back(self) -> None:
        """Nothing that the peer has been told to copy is the message any more."""
        if self._offered is not None:
            self._offered.take_back()
        if self._exposing:
            self._outbound.words[RETRACTED] += 1

    def assist(self, payload: Payload, wanted: int, number: int, address: int) -> Assistance:
        """Copy a message that has been exposed from its end on, as its receiver wants."""
        return Assistance(self._met(), payload, wanted, address, number, self._outbound)

    def _exposed(self, inbound: Ring, pieces: list[tuple[int, int]], number: int) -> Exposed:
        """A message in memory of the peer."""
        return Exposed(self._met(), pieces, inbound, number)

    def advertise(self, receive: Receive, memory: memoryview, inbound: Inbound) -> None:
        """Let the peer copy a message straight into the memory of a receive, if that can be done now."""
        if self._advertiser is None:
            self._advertiser = Advertiser(self._met(), inbound)
        self._advertiser.advertise(receive, memory)

    def meet(self) -> Filler:
        """Make what copies messages straight into memory of the peer."""
        filler = self.filler = Filler(self._met(), self._outbound)
        return filler

    def _met(self) -> Neighbour:
        if self._neighbour is None:
            self._neighbour = Neighbour(self._socket)
        return self._neighbour

    def close(self) -> None:
        """Part with the peer, as long as the socket is there."""
        if self._advertiser is not None:
            self._advertiser.end()
            self._advertiser = None
        if self._neighbour is not None:
            self._neighbour.close()
        number = process_of(self._socket)
        for borrower in self._borrowers.values():
            borrower.leave(number)
        self._borrowers.clear()
        self.loans.clear()
