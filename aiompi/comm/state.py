"""The state of a communicator, and the checks of ranks, tags and roots."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeAlias

from aiompi.base.arguments import integer
from aiompi.base.attached import ByClass
from aiompi.comm.attribute import COMMUNICATOR_KEYVALS, Attributes
from aiompi.comm.channel import Route
from aiompi.comm.contexts import AGREEMENTS, ContextIds
from aiompi.comm.conversion import NATIVE_FORM, Conversion
from aiompi.comm.errhandler import ERRORS_RETURN, Errhandler
from aiompi.comm.group import Group
from aiompi.comm.placement import Placement
from aiompi.comm.session import SessionState
from aiompi.constants import CONGRUENT, CONTEXT_SELF, CONTEXT_WORLD, IDENT, PROC_NULL, TAG_UB, UNEQUAL
from aiompi.core import CommunicatorBase
from aiompi.engine import Engine, Receive, Request
from aiompi.engine.bsend import Attachment
from aiompi.engine.endpoint import Endpoint
from aiompi.engine.failure import another
from aiompi.engine.matching import Matcher
from aiompi.engine.slices import SendQueue
from aiompi.errors import InvalidCommError, InvalidRankError, InvalidRootError

if TYPE_CHECKING:
    from aiompi.comm.communicator import Communicator
    from aiompi.comm.topology import Topology
    from aiompi.core._native import SlotGroup

#: type of a rank or a tag in a call of the program
Integer: TypeAlias = SupportsIndex


class Revocable(Protocol):
    """An object that is revoked together with a communicator."""

    def revoked(self, error: Exception, source: int) -> None:
        """See `aiompi.engine.seams.Community`."""


class CommunicatorState(CommunicatorBase[Receive]):
    """The state of a communicator; the subclass `aiompi.comm.communicator.Communicator` adds the operations.

    Args:
        engine: of this rank.
        group: the members; this rank must be one.
        context_id: context of point-to-point traffic; collectives use the next one (IMPI 0.0, section 4.3).
        name: for error messages and MPI_Comm_get_name; may be empty.
        remote: remote group of an intercommunicator; ranks of sends and receives refer to it (section 5.6).
        ids: context identifiers of this process, for communicators made from this one.

    Attributes:
        rank: rank of this process in the group.
        size: size of the group.
        targets: number of the process (see `aiompi.engine.processes`) for each rank to which sends and receives refer.
        native: True if no message passes through IMPI hosts. If it is False, the communicator spans clients, and
            chapter 4 of IMPI 0.0 defines the messages of its collectives.
        shares_memory: True if all members can read shared memory of each other.
        hosts: ranks by host (`Engine.hosts`).
        spans_hosts: True if there are several hosts, and one of them has several ranks.
        tag_ub: largest tag of a message, the same on all communicators.
        conversion: data representation of the user's buffers in messages.
        attachment: buffer for buffered sends on this communicator; if none is attached, the session's buffer is used.
        session: session, or World Model, from which the communicator comes; None for a communicator of neither.
        attributes: values that the program caches on the communicator (section 5.7).
        errhandler: handler called when a call fails (section 7.2).
        topology: arrangement of the processes, if there is one (chapter 6).
        route: route of the collectives.
        attached: state that higher layers keep here, such as the use of slots by the collectives.
        slots: the members' slots, through which the core runs collectives with common arguments; None until the members
            have slots.
        hints: hints of the program, by key (MPI_Comm_set_info, MPI-3).
        matcher: queues of its point-to-point messages.
        collectives: number of collectives that have been started.
        heirs: objects that are revoked with it, such as its windows.
        is_revoked: True if a rank has revoked it (Comm.Revoke).
        agreements: number of the next agreement on it (aiompi.comm.recovery).
        agreeing: queues of agreements, if several jobs share the communicator; otherwise None.
    """

    __slots__ = (
        "collectives", "freed", "_latest", "_met", "_placement", "_refusal", "agreeing", "agreements", "attached",
        "attachment", "attributes", "conversion", "errhandler", "group", "heirs", "hints", "hosts", "ids", "is_revoked",
        "name", "native", "remote", "route", "session", "shares_memory", "size", "slots", "spans_hosts", "topology",
    )  # fmt: skip

    engine: Engine
    matcher: Matcher
    route: Route

    def __init__(
        self,
        engine: Engine,
        group: Group,
        context_id: int,
        name: str,
        remote: Group | None = None,
        ids: ContextIds | None = None,
    ) -> None:
        self.engine, self.context_id, self.name = engine, context_id, name
        self.group, self.remote, self.rank, self.size = group, remote, group.rank, group.size
        self.ids = ids or ContextIds()
        self.targets = group.members if remote is None else remote.members
        self._reach = len(self.targets)
        self._met = engine.processes.retain(self.everybody())
        self._peers: list[Endpoint | SendQueue | None] = [None] * self._reach
        self.collectives = self.agreements = 0
        self._latest: Request[Any] | None = None
        self._placement: Placement | None = None
        self.native = engine.universe is None or self.placement.native
        self.matcher = self._open_contexts()
        self.agreeing = engine.open_agreements(AGREEMENTS | context_id, self.everybody()) if self._met else None
        self.hosts = engine.hosts(self.targets) if remote is None and self.native else []
        self.shares_memory = len(self.hosts) == 1 and engine.share_memory(self.targets[:1])
        self.spans_hosts = 1 < len(self.hosts) < self.size
        self.freed = self.is_revoked = False
        self.heirs: list[Revocable] = []
        self._refusal: Exception | None = None  # why no collective can start any more
        self.tag_ub = TAG_UB if engine.universe is None else engine.universe.tagub
        self.conversion = self._conversion()
        self.attachment = Attachment(engine)
        self.session: SessionState | None = None
        self.attributes = Attributes(COMMUNICATOR_KEYVALS)
        self.errhandler: Errhandler = ERRORS_RETURN
        self.topology: Topology | None = None
        self.attached = ByClass()
        self.slots: SlotGroup | None = None
        self.hints: dict[str, str] = {}

    def _open_contexts(self) -> Matcher:
        """Tell the engine which sources messages of members may have. `Channel` defines the sources of collectives."""
        own, other = self.group.index, (self.remote or self.group).index
        both = self.size + (remote_size := 0 if self.remote is None else self.remote.size)
        more = [(remote_size, own), (both, other), (2 * both, own)] if self.native else [(0, own)]
        self.engine.open_context(self.context_id + 1, other, *more)
        return self.engine.open_context(self.context_id, other)

    def everybody(self) -> list[int]:
        """Return the processes of both groups."""
        return [*self.group.members, *(() if self.remote is None else self.remote.members)]

    def _conversion(self) -> Conversion:
        return NATIVE_FORM

    @property
    def label(self) -> str:
        """Name of the communicator in error messages."""
        return self.name or f"communicator {self.context_id}"

    def where(self, operation: str) -> str:
        """Return the operation, the communicator and this rank, for error messages."""
        return f"{operation} on {self.label}, rank {self.rank}"

    @property
    def placement(self) -> Placement:
        """The IMPI clients and hosts of the members, followed by the clients and hosts of the remote group."""
        if self._placement is None:
            remote = () if self.remote is None else self.remote.members
            self._placement = Placement.of(self.engine.universe, (*self.group.members, *remote))
        return self._placement

    @property
    def predefined(self) -> bool:
        """True for COMM_WORLD and COMM_SELF, which live as long as the process."""
        return self.context_id in (CONTEXT_WORLD, CONTEXT_SELF)

    def compare(self, other: Communicator) -> int:
        """IDENT, CONGRUENT, SIMILAR or UNEQUAL (MPI_Comm_compare, sections 5.4.1 and 5.6.1)."""
        if self is other:
            return IDENT
        if self.remote is None or other.remote is None:
            alike = self.group.Compare(other.group) if self.remote is other.remote else UNEQUAL
        else:
            alike = max(self.group.Compare(other.group), self.remote.Compare(other.remote))
        return CONGRUENT if alike == IDENT else alike

    def _integers(self, role: str, rank: Integer, tag: Integer) -> tuple[int, int]:
        """Return a rank and a tag as ints. The program may pass other integers, such as NumPy's."""
        try:
            return index(rank), index(tag)
        except TypeError:
            wrong = {name: given for name, given in ((role, rank), ("tag", tag)) if not hasattr(given, "__index__")}
            given = ", ".join(f"{name} is {value!r}" for name, value in wrong.items())
            raise TypeError(f"{self.label}, rank {self.rank}: {given}: expected an integer") from None

    def _bad_rank(self, role: str, rank: int) -> Exception:
        if (self.freed or self.is_revoked) and self._refusal is not None:
            return another(self._refusal)
        ranks = "the ranks of this communicator" if self.remote is None else "the ranks of the remote group"
        return InvalidRankError(
            f"{self.label}, rank {self.rank}: {role} {rank} is not in 0..{self._reach - 1}, {ranks}"
        )

    def _gone(self) -> InvalidCommError:
        """Return the error that operations raise after the communicator was freed."""
        return InvalidCommError(f"{self.label}, rank {self.rank}: the communicator has been freed")

    def _peer(self, rank: int) -> Endpoint:
        peer = self._peers[rank] = self.engine.peer(self.targets[rank])
        return peer

    def reached(self, rank: Integer) -> Endpoint | None:
        """Return the endpoint of a rank; None for PROC_NULL and for invalid ranks."""
        number = index(rank) if hasattr(rank, "__index__") else PROC_NULL
        peer = self._peers[number] or self._peer(number) if 0 <= number < self._reach else None
        return peer.peer if isinstance(peer, SendQueue) else peer

    def checked_root(self, root: Integer, operation: str) -> int:
        """Return the root of a collective as an int. The program may pass another integer, such as NumPy's.

        Raises:
            InvalidRootError, TypeError: root is not a rank of this communicator, or not an integer.
        """
        if type(root) is int and 0 <= root < self.size:
            return root  # the usual case, without making the text of a message
        if not 0 <= (number := integer(root, f"{self.where(operation)}: root")) < self.size:
            raise InvalidRootError(f"{self.where(operation)}: root {root} is not in 0..{self.size - 1}")
        return number

    def __repr__(self) -> str:
        remote = "" if self.remote is None else f", remote group of {self.remote.size}"
        return f"<{self.label}: rank {self.rank} of {self.size}{remote}>"
