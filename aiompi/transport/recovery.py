"""`AgentRecovery`: revocations and agreements about communicators with failed members, through the agent of the job.

The agent lives as long as the job, so it never fails during an agreement. In a `local_world` the `Hub` replaces it.
"""

from __future__ import annotations

from collections.abc import Callable

from aiompi.engine import Engine, Request
from aiompi.wire import control


class AgentRecovery:
    """Sends a rank's revocations and agreements to the agent, and takes the results (`aiompi.engine.RecoveryService`).

    Args:
        engine: of the rank.
        send: sends a message to the agent.
        gone: notes that a rank has failed or left.
    """

    def __init__(
        self, engine: Engine, send: Callable[[control.Message], object], gone: Callable[[int], object]
    ) -> None:
        self._engine = engine
        self._send = send
        self._gone = gone
        self._pending: dict[tuple[int, int], Request[control.Agreed]] = {}

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    def revoke(self, context: int) -> None:
        self._send(control.Revoke(context, self._engine.processes.own.process))

    def agree(
        self, context: int, number: int, members: list[int], flag: int, proposal: int, acknowledged: list[int]
    ) -> Request[control.Agreed]:
        request: Request[control.Agreed] = Request(self._engine)
        if self._engine.error is not None:
            request.fail(self._engine.error)
            return request
        processes = self._engine.processes
        everybody, known = ([processes.name(member).process for member in those] for those in (members, acknowledged))
        self._pending[context, number] = request
        self._send(control.Agree(context, number, sorted(everybody), flag, proposal, known))
        return request

    def agreed(self, result: control.Agreed) -> None:
        """Take the result of an agreement, and note the failures of the members that it lists."""
        failed = [rank for rank in map(self._engine.processes.of_job, result.failed) if rank is not None]
        for rank in failed:
            self._gone(rank)
        request = self._pending.pop((result.context, result.number), None)
        if request is not None:
            request.complete(result._replace(failed=failed))

    def close(self, error: Exception) -> None:
        """Fail all agreements: the rank has left the job, or the job has ended."""
        pending, self._pending = self._pending, {}
        for request in pending.values():
            request.fail(error)
