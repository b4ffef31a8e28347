"""Regular shutdown of a rank: together with the other ranks (MPI_Finalize, section 7.5), or alone."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from aiompi.engine import Request, Schedule
from aiompi.engine.schedule import settled
from aiompi.errors import LocalProtocolError
from aiompi.wire import control

if TYPE_CHECKING:
    from aiompi.job.runtime import Runtime


def finalize(runtime: Runtime, timeout: float | None) -> Schedule[bool]:
    """End communication together with all ranks; see `Runtime.finalize`."""
    engine, sessions = runtime.engine, runtime.sessions
    _before_end(runtime)
    if not sessions.open:
        _meet(runtime)
    schedules = [schedule for schedule in engine.schedules if schedule.owner is not sessions]
    if sessions.open:
        return engine.spawn(sessions.end_world(schedules))
    finalizing = engine.spawn(_finalize(runtime, schedules))
    if timeout is None or finalizing.done():
        return finalizing
    return engine.spawn(_finalize_in_time(runtime, finalizing, timeout))


async def _finalize_in_time(runtime: Runtime, finalizing: Schedule[bool], timeout: float) -> bool:
    engine = runtime.engine
    first: Request[None] = Request(engine)
    timer = engine.driver.call_later(timeout, first.complete)
    finalizing.when_done(lambda _: None if first.done() else first.complete())
    await first
    timer.cancel()
    if finalizing.done() or engine.error is not None:
        return await finalizing
    await runtime.stop_waiting()
    return False


async def stop_waiting(runtime: Runtime) -> None:
    """Leave while `finalize` waits for the other ranks; see `Runtime.stop_waiting`."""
    runtime.engine.finish()
    await _tell_agent(runtime, control.Leave())
    runtime.give_up(runtime.finalized_error())


async def _finalize(runtime: Runtime, schedules: list[Schedule[Any]]) -> bool:
    engine = runtime.engine
    if runtime.finalized:
        raise LocalProtocolError("Finalize was called before: call it once, as the last MPI call")
    if engine.error is not None:
        raise engine.error
    _closing(runtime)
    await settled(schedules)
    await engine.encoded()
    if engine.gateway is not None:
        engine.gateway.fail_unmatched_sends()  # the barrier among clients has ended
    engine.finish()
    await settled(engine.undelivered())
    await runtime.wiring.flush()
    await runtime.wiring.children.ended()
    await _tell_agent(runtime, control.Finalize(), runtime.wiring.all_finalized)
    _end_well(runtime)
    return True


async def _tell_agent(runtime: Runtime, message: control.Message, answer: Request[None] | None = None) -> None:
    """Send the last message to the agent, which expects no more from this rank."""
    if runtime.agent is not None:
        runtime.agent.send(message)
        if answer is not None:
            await answer
        await runtime.agent.finish()


def _meet(runtime: Runtime) -> None:
    """Start the final barrier of the ranks of several clients (IMPI 0.0, section 2.4)."""
    if runtime.engine.gateway is not None and not runtime.finalized and runtime.engine.error is None:
        from aiompi.coll import buffers  # other jobs do not need it here

        buffers.barrier(runtime.world)


def leave(runtime: Runtime) -> Schedule[None]:
    """End communication without waiting for the other ranks; see `Runtime.leave`."""
    _before_end(runtime)
    return runtime.engine.spawn(_leave(runtime))


async def _leave(runtime: Runtime) -> None:
    engine, children = runtime.engine, runtime.wiring.children
    _closing(runtime)
    await engine.encoded()
    if engine.undelivered() or children.running:
        engine.finish()  # so that no process waits for this rank while this rank waits for that process
        await settled(engine.undelivered())
    engine.part()
    await runtime.wiring.flush()
    await children.ended()
    await _tell_agent(runtime, control.Leave())
    _end_well(runtime)


def leave_now(runtime: Runtime) -> None:
    """Tell the agent that this rank ends; see `Runtime.leave_now`."""
    if not runtime.finalized and runtime.engine.error is None:
        with contextlib.suppress(RuntimeError):  # data that cannot leave at once needs the loop
            runtime.engine.part()
        if runtime.agent is not None:
            runtime.agent.send(control.Leave())
        _closing(runtime)


def _before_end(runtime: Runtime) -> None:
    if not runtime.finalized and not runtime.sessions.world_ended and runtime.engine.error is None:
        runtime.on_finalize()


def _closing(runtime: Runtime) -> None:
    runtime.finalized = True
    runtime.engine.close()


def _end_well(runtime: Runtime) -> None:
    runtime.close()
    runtime.engine.failure.abort(runtime.finalized_error())
