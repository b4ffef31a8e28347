"""Communicators of simulated processes, and the messages of their collectives (sections 4.1 to 4.3)."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from aiompi_launcher.conformance.model import tags
from aiompi_launcher.conformance.model.engine import ANY, Proc, Send
from aiompi_launcher.conformance.model.universe import Universe


@dataclass(frozen=True, slots=True)
class Expected:
    """The next message that a collective expects from one process.

    Attributes:
        rule: of the specification that prescribes the message.
        tags: the right tag first, then tags that the tester accepts in its place.
        length: in bytes; None if only the source of the message knows the length.
    """

    rule: str
    operation: str
    tags: tuple[int, ...]
    length: int | None


class Comm:
    """A communicator in one process.

    Args:
        proc: the process.
        cid: point-to-point context id; the collective id is the next.
        group: its members, as ranks in COMM_WORLD.
        remote: the other group of an intercommunicator.

    Attributes:
        rank: of the process.
    """

    def __init__(self, proc: Proc, cid: int, group: list[int], remote: list[int] | None = None) -> None:
        self.proc = proc
        self.cid = cid
        self.group = group
        self.remote = remote
        self.rank = group.index(proc.rank)

    @property
    def universe(self) -> Universe:
        return self.proc.host.universe

    @property
    def size(self) -> int:
        return len(self.group)

    @property
    def peers(self) -> list[int]:
        """The group whose ranks sends and receives name."""
        return self.group if self.remote is None else self.remote

    def client(self, rank: int) -> int:
        """The client of a member."""
        return self.universe.procs[self.group[rank]].client

    def has(self, quirk: str) -> bool:
        return self.proc.host.mischief.has(quirk)

    # Masters (section 4.2).

    @functools.cached_property
    def masters(self) -> list[int]:
        """The lowest rank of each client, ascending."""
        return [local[0] for local in self.locals]

    @functools.cached_property
    def locals(self) -> list[list[int]]:
        """By master: the ranks of its client."""
        clients: dict[int, list[int]] = {}
        for rank in range(self.size):
            clients.setdefault(self.client(rank), []).append(rank)
        return list(clients.values())

    def number(self, rank: int) -> int:
        """The number of the master of a rank (`local_master_num`)."""
        return next(number for number, local in enumerate(self.locals) if rank in local)

    def is_local(self, rank: int) -> bool:
        return self.client(rank) == self.client(self.rank)

    # Messages of collectives.

    def tell(self, dest: int, tag: int, data: bytes = b"") -> Send:
        """Send a message of a collective; a message between processes of one client counts as private."""
        world = self.peers[dest]
        local = self.universe.procs[world].client == self.proc.info.client
        cid = self._private if local else self.cid + 1
        return self.proc.send(world, cid, self.rank, tag, data)

    async def hear(self, source: int, operation: str, tag: int, length: int | None, rule: str) -> bytes:
        """Receive the next collective message from a process, and check it against the specification.

        The tester reports a message that differs from the specification, but still accepts it. The messages of one
        process in one collective context come in the order of the collectives. Therefore a message that differs can
        only be the expected message in a wrong form.
        """
        world = self.peers[source]
        if self.universe.procs[world].client == self.proc.info.client:
            return bytes((await self.proc.receive(self._private, source, tag).done).data)
        also = (tags.GATHER,) if tag == tags.GATHERV else ()
        what = f"{operation} on context {self.cid + 1}: a message of rank {source}, tag {tag}"
        receive = self.proc.receive(self.cid + 1, source, ANY, what, rule)
        message = await receive.done
        self.proc.host.observer.collective(self, message, Expected(rule, operation, (tag, *also), length))
        return bytes(message.data)

    def not_yet(self, source: int, rule: str, problem: str) -> None:
        """Report a message that arrived before it could be sent."""
        message = self.proc.peek(self.cid + 1, source, ANY)
        if message is not None:
            self.proc.host.observer.early(message, rule, problem)

    def object(self, rule: str, problem: str) -> None:
        """Report an impossible value from another process."""
        self.proc.host.observer.objected(rule, problem)

    @property
    def _private(self) -> int:
        """Return a context that is only used within the client."""
        return -2 - self.cid

    # Point to point.

    def send(self, dest: int, tag: int, data: bytes, *, sync: bool = False) -> Send:
        return self.proc.send(self.peers[dest], self.cid, self.rank, tag, data, sync=sync)
