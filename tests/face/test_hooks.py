"""Hooks around the calls of both faces."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import aiompi
import aiompi.face.blocking.environment
import face.native.checks.collective
import face.native.checks.message
import face.native.checks.requests  # noqa: F401
from aiompi import MPI, hooks
from aiompi.comm.errhandler import Errhandler
from aiompi.face.errhandlers import consult
from aiompi.face.native.communicator import Cartcomm
from aiompi.face.native.job import World
from aiompi.info import Info
from face.native.checks import CHECKS, SIZE, Check
from support.limits import LIMIT

SURFACES = {declared.namespace: declared.names for declared in hooks._surfaces}
CLASSES = [
    aiompi.Comm, aiompi.Intracomm, aiompi.Intercomm, Cartcomm, World, aiompi.Message, MPI.Comm, MPI.Intracomm,
    MPI.Intercomm, MPI.Cartcomm, MPI.Request, MPI.Prequest, MPI.Grequest, MPI.Message, MPI.Group, aiompi.Datatype,
    MPI.Op, Info, Errhandler,
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_hooks() -> Iterator[None]:
    assert not hooks.active()
    yield
    for hook in hooks.active():
        hooks.remove(hook)


@pytest.mark.spec("S8.1-1", "S8.1-2")
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_every_call_is_seen_and_has_a_shifted_name(cls: type) -> None:
    """All that the standard has; under the other name it has the same arguments and is the same, without the hooks."""
    calls = {
        name
        for name in dir(cls)
        if name[0].isupper() and (inspect.isfunction(getattr(cls, name)) or inspect.ismethod(getattr(cls, name)))
    }
    assert calls
    assert calls <= set(SURFACES[cls])
    with hooks.added(lambda call: call()):
        for name in calls:
            hooked = getattr(cls, name)
            assert hasattr(getattr(hooked, "__func__", hooked), "_is_hooked"), name
            assert inspect.signature(hooks.shifted(hooked)) == inspect.signature(hooked)
    assert not any(hasattr(inspect.getattr_static(cls, name), "_is_hooked") for name in calls)


@pytest.mark.spec("S8.1-1", "S8.1-2")
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_everything_works_the_same_under_hooks(check: Check) -> None:
    """Profilers and error handlers change nothing."""
    seen: list[str] = []

    def profiler(call: hooks.Call) -> Any:
        seen.append(call.name)
        return call()

    hooks.add(profiler)
    hooks.add(consult, always=True)

    async def main() -> None:
        async with asyncio.timeout(LIMIT):
            await check(aiompi.local_world(SIZE))

    asyncio.run(main())
    assert seen
