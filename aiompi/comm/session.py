"""The sessions of a rank (chapter 11 of MPI-4), and the state that the groups and communicators of a session share."""

from __future__ import annotations

from typing import Any, Final

from aiompi.comm.contexts import ContextIds
from aiompi.comm.errhandler import ERRORS_RETURN, Errhandler
from aiompi.engine import Engine, Request, Schedule
from aiompi.engine.bsend import Attachment
from aiompi.engine.schedule import settled
from aiompi.errors import LocalProtocolError

#: names of the process sets of MPI-4, section 11.3.2
WORLD: Final = "mpi://WORLD"
SELF: Final = "mpi://SELF"


class SessionState:
    """The state of a session, to which its handles refer; the World Model of a rank has such a state, too.

    A group that is made from the session refers to this object. So do the groups and communicators made from the group.

    Args:
        runtime: the rank, of class `aiompi.job.runtime.Runtime`.
        engine: of the rank.
        ids: context identifiers of the rank.
        attachment: buffer for buffered sends on the communicators of the session.

    Attributes:
        runtime, engine, ids, attachment: as above.
        errhandler: handler called when a call on the session fails.
        hints: the result of `Get_info`.
    """

    def __init__(self, runtime: Any, engine: Engine, ids: ContextIds, attachment: Attachment) -> None:
        self.runtime = runtime
        self.engine = engine
        self.ids = ids
        self.attachment = attachment
        self.errhandler: Errhandler = ERRORS_RETURN
        self.hints: dict[str, str] = {}

    @property
    def appnum(self) -> int | None:
        """Number of this process's section of the launcher's command line; None without a command line."""
        contact = self.runtime.contact
        return None if contact is None else contact.appnum

    @property
    def universe_size(self) -> int:
        """Number of processes for which there is room.

        This number is the setting `universe_size`, or by default the number of cores or the number of ranks, whichever
        is larger.
        """
        size: int = self.runtime.settings.universe_size or max(self.runtime.universe_size, self.engine.size)
        return size


class Sessions:
    """The sessions of a rank, beside its World Model.

    Args:
        runtime: the rank.
        engine: of the rank.

    Attributes:
        open: sessions that are not finalized.
        world: the World Model.
        world_begun: True if the program has a World of the native face for this rank.
        world_ended: True if the World Model is finalized: COMM_WORLD and COMM_SELF cannot be used any more.
    """

    def __init__(self, runtime: Any, engine: Engine) -> None:
        self._runtime = runtime
        self._engine = engine
        self.open: set[SessionState] = set()
        self.world = SessionState(runtime, engine, ContextIds(), engine.attachment)
        self.world_begun = self.world_ended = False

    def psets(self) -> dict[str, list[int]]:
        """Return the members of the process sets of the job, by name (MPI-4, section 11.3.2).

        Besides the sets of the standard there is a set for each known host, and for each known section of the
        launcher's command line.
        """
        psets = {WORLD: [*range(self._engine.size)], SELF: [self._engine.rank]}
        for rank in range(self._engine.size):
            card = self._engine.processes.cards.get(rank, {})
            for kind, value in (("host", card.get("host")), ("section", card.get("appnum"))):
                if value is not None:
                    psets.setdefault(f"aiompi://{kind}/{value}", []).append(rank)
        return psets

    def begin(self) -> SessionState:
        """Return a new session (MPI_Session_init, MPI-4)."""
        session = SessionState(self._runtime, self._engine, self.world.ids, Attachment(self._engine))
        self.open.add(session)
        return session

    def end(self, session: SessionState) -> Schedule[None]:
        """End a session (MPI_Session_finalize, MPI-4). The result is complete when the session's messages have left.

        If the World Model has ended and no other session is open, this also ends communication, as Finalize does.
        """
        self.open.discard(session)
        return self._engine.spawn(self._end(session), self)

    async def _end(self, session: SessionState) -> None:
        if session.attachment.buffer is not None:
            await session.attachment.detach()
        if self._engine.error is not None:
            raise self._engine.error
        await self._engine.encoded()
        if self.world_ended and not self.open:
            finalized: Request[bool] = self._runtime.finalize()
            await finalized

    async def end_world(self, schedules: list[Schedule[Any]]) -> bool:
        """End the World Model while sessions are open; communication ends with the last session."""
        if self.world_ended:
            raise LocalProtocolError("Finalize was called before: call it once, as the last MPI call")
        if self._engine.error is not None:
            raise self._engine.error
        await settled(schedules)
        await self._engine.encoded()
        self.close_world()
        return True

    def close_world(self) -> None:
        """Refuse operations on COMM_WORLD and COMM_SELF from now on."""
        self.world_ended = True
        error = LocalProtocolError(f"rank {self._engine.rank} has finalized: only its sessions can communicate")
        for comm in (self._runtime.world, self._runtime.self_comm):
            comm.release(error)
