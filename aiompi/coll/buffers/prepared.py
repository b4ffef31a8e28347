"""Prepared collectives: a call checks its arguments once, and then starts the collective once or many times."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec

from aiompi import core
from aiompi.coll.buffers.call import Call, Run
from aiompi.coll.select import direct_limits
from aiompi.comm import Communicator
from aiompi.engine import PersistentRequest, Request
from aiompi.errors import InvalidCommError

if TYPE_CHECKING or core.form == "native":
    from aiompi.core._native import SlotGroup, know
    from aiompi.datatype.buffer.bufspec import IN_PLACE
    from aiompi.op.operation import PREDEFINED

    know(PREDEFINED.values(), IN_PLACE)

P = ParamSpec("P")


def _direct(name: str) -> Callable[..., Request[Any] | None] | None:
    """Return the function of the core for a collective; None if it has none."""
    return getattr(SlotGroup, name, None) if core.form == "native" else None


class Prepared(Generic[P]):
    """A collective. Calling it with a communicator and the arguments starts it.

    Args:
        check: function that checks the arguments and returns a function which runs the collective with them, any number
            of times. It has the name of the collective.
        algorithm: name of the algorithm; None: the settings and the tuning data decide.
        between_groups: True if the collective is defined on an intercommunicator.
    """

    def __init__(
        self, check: Callable[Concatenate[Call, P], Run], algorithm: str | None = None, *, between_groups: bool = True
    ) -> None:
        functools.update_wrapper(self, check)
        self.name = check.__name__.capitalize()
        self._check = check
        self._algorithm = algorithm
        self._between_groups = between_groups
        self._direct = _direct(check.__name__) if algorithm is None else None

    def __call__(self, comm: Communicator, /, *args: P.args, **kwargs: P.kwargs) -> Request[None]:
        """Start the collective on a communicator."""
        if kwargs:
            return self._usual(comm, *args, **kwargs)
        request = self.begin(comm, *args)
        request.attend()
        return request

    def begin(self, comm: Communicator, /, *args: Any) -> Request[None]:
        """Start the collective; the caller waits for it at once, by `Request.spin` and then as its driver waits.

        The core makes calls with common arguments among ranks that share memory.
        """
        slots = comm.slots
        if slots is not None and self._direct is not None:
            request = self._direct(slots, comm, *args)
            if request is not None:
                return request
        return self._usual(comm, *args)

    def _usual(self, comm: Communicator, /, *args: Any, **kwargs: Any) -> Request[None]:
        run, note = self._prepare(comm, *args, **kwargs)
        channel = comm.channel(self.name, note)
        if comm.slots is None and comm.shm_sync is not None and comm.shm_sync.slots is not None:
            slots = comm.slots = comm.shm_sync.slots
            slots.limit(direct_limits(comm))
        return comm.start_on(channel, run)

    def init(self, comm: Communicator, /, *args: P.args, **kwargs: P.kwargs) -> PersistentRequest[None]:
        """Check and bind the arguments; each start of the request runs the collective once more.

        Collectives are bound in the same order on all ranks, and started in any order (MPI-4, section 6.13). Each has
        a channel of its own, on which the messages of one run do not overtake those of the run before.
        """
        run, note = self._prepare(comm, *args, **kwargs)
        channel = comm.bound_channel(self.name, note)
        return PersistentRequest(comm.engine, lambda: comm.run(run(channel)), lambda: None)

    def _prepare(self, comm: Communicator, *args: P.args, **kwargs: P.kwargs) -> tuple[Run, int]:
        """Check the arguments. Return the function that runs the collective, and the note of its messages."""
        engine = comm.engine
        if engine.stepping:
            engine.refuse_nested()
        call = Call(comm, self.name, self._algorithm)
        if comm.remote is not None and not self._between_groups:
            raise InvalidCommError(
                f"{call.where}: not defined on an intercommunicator; merge it, or use its local group"
            )
        run = self._check(call, *args, **kwargs)
        return run, call.note

    def using(self, algorithm: str | None) -> Prepared[P]:
        """Return the collective with an algorithm of this name, the same on all ranks; None for the usual choice.

        Calls raise InvalidArgumentError if there is no algorithm of that name, or if it cannot serve them.
        """
        if algorithm is None:
            return self
        return Prepared(self._check, algorithm, between_groups=self._between_groups)


def within_group(check: Callable[Concatenate[Call, P], Run]) -> Prepared[P]:
    """Make a collective that is not defined on an intercommunicator (a decorator)."""
    return Prepared(check, between_groups=False)
