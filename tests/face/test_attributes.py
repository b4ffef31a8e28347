"""Attributes of communicators in the native face."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import aiompi
from aiompi import Intracomm, constants, errors


async def everywhere(world: list[Any], call: Callable[[Any], Any]) -> list[Any]:
    """Make a call on all ranks at once, and return the results by rank."""
    return list(await asyncio.gather(*(call(comm) for comm in world), return_exceptions=True))


@pytest.mark.spec("S5.7-1", "S5.7-3")
def test_values_belong_to_one_process_and_communicator() -> None:
    a, b = aiompi.local_world(2)
    own = a.COMM_SELF
    key = Intracomm.Create_keyval()
    for comm, value in ((a, ["world"]), (own, ["self"])):
        comm.Set_attr(key, value)
        assert comm.Get_attr(key) is value
    assert (a.Get_attr(key), own.Get_attr(key), b.Get_attr(key)) == (["world"], ["self"], None)
    assert Intracomm(a._runtime, a._core).Get_attr(key) is a.Get_attr(key), "another handle of the same"
    a.Delete_attr(key)
    assert (a.Get_attr(key), own.Get_attr(key)) == (None, ["self"])
    assert Intracomm.Free_keyval(key) == constants.KEYVAL_INVALID


def test_callbacks_get_the_communicator() -> None:
    calls: list[tuple[Any, ...]] = []
    (comm,) = aiompi.local_world(1)
    key = Intracomm.Create_keyval(delete_fn=lambda *arguments: calls.append(arguments))
    comm.Set_attr(key, "old")
    comm.Set_attr(key, "new")
    comm.Delete_attr(key)
    assert calls == [(comm, key, "old"), (comm, key, "new")]


@pytest.mark.spec("S7.1.1-1", "S7.1.1-2")
@pytest.mark.parametrize("size", [1, 3])
def test_predefined_attributes(size: int) -> None:
    """Predefined attributes are equal on all processes, and cannot be changed."""
    expected = {
        constants.TAG_UB: constants.TAG_UB,
        constants.HOST: constants.PROC_NULL,
        constants.IO: constants.ANY_SOURCE,
        constants.WTIME_IS_GLOBAL: 0,
        constants.UNIVERSE_SIZE: size,
    }
    for comm in aiompi.local_world(size):
        assert {key: comm.Get_attr(key) for key in expected} == expected
        for key in expected:
            for change in (lambda: comm.Set_attr(key, 5), lambda: comm.Delete_attr(key), lambda: comm.Free_keyval(key)):
                with pytest.raises(errors.InvalidKeyvalError, match="predefined"):
                    change()
            assert comm.Get_attr(key) == expected[key]


@pytest.mark.spec("S5.7.1-11", "S5.7.1-13")
def test_errors() -> None:
    (comm,) = aiompi.local_world(1)
    key = Intracomm.Create_keyval()
    for call in (comm.Get_attr, comm.Delete_attr, Intracomm.Free_keyval, lambda keyval: comm.Set_attr(keyval, 1)):
        with pytest.raises(errors.InvalidArgumentError, match="KEYVAL_INVALID"):
            call(constants.KEYVAL_INVALID)
    with pytest.raises(errors.InvalidKeyvalError, match=r"<MPI_COMM_WORLD: rank 0 of 1> has no attribute under key"):
        comm.Delete_attr(key)
    marker = object()
    assert comm.Get_attr(key, marker) is marker


@pytest.mark.spec("S5.7-2", "S5.7.1-2", "S5.7.1-3", "S6.3-1")
def test_only_duplicates_have_copies() -> None:
    """Only duplicates get attributes, and only if the key says so; other new communicators have none."""

    async def main() -> None:
        world = aiompi.local_world(2)
        calls: list[tuple[Any, ...]] = []

        def copy_fn(comm: Any, keyval: int, value: Any) -> Any:
            calls.append((comm, keyval, value))
            return f"copy of {value}"

        copied, shared, kept = (Intracomm.Create_keyval(copy) for copy in (copy_fn, True, None))
        for comm in world:
            for key in (copied, shared, kept):
                comm.Set_attr(key, comm.rank)
        for call in (
            lambda comm: comm.Split(0, 0),
            lambda comm: comm.Create(comm.group),
            lambda comm: comm.Create_cart([2]),
            lambda comm: comm.Create_graph([1, 2], [1, 0]),
        ):
            for comm in await everywhere(world, call):
                assert [comm.Get_attr(key) for key in (copied, shared, kept)] == [None] * 3
        assert calls == []
        for rank, comm in enumerate(await everywhere(world, lambda comm: comm.Dup())):
            assert [comm.Get_attr(key) for key in (copied, shared, kept)] == [f"copy of {rank}", rank, None]
        assert sorted(calls, key=lambda call: call[2]) == [(world[0], copied, 0), (world[1], copied, 1)]

    asyncio.run(main())


@pytest.mark.spec("S5.7.1-5", "S5.7.1-7")
def test_failing_callbacks_fail_the_call() -> None:
    """Only the process whose callback fails gets no duplicate, and the communicator can still be freed."""

    async def main() -> None:
        world = aiompi.local_world(2)

        def fail(comm: Any, keyval: int, value: Any) -> Any:
            if value == "fail":
                raise ValueError(value)
            return value

        key, other = Intracomm.Create_keyval(fail, None), Intracomm.Create_keyval(None, fail)
        for comm, value in zip(world, ("fail", "succeed"), strict=True):
            comm.Set_attr(key, value)
        failure, comm = await everywhere(world, lambda comm: comm.Dup())
        assert isinstance(failure, errors.OtherError)
        assert "copy callback" in str(failure)
        assert comm.Get_attr(key) == "succeed"
        world[0].Delete_attr(key)
        comms = await everywhere(world, lambda comm: comm.Dup())
        comms[0].Set_attr(other, "fail")
        with pytest.raises(errors.OtherError, match="delete callback"):
            comms[0].Free()
        assert comms[0].Get_attr(other) is None
        await everywhere(comms, lambda comm: comm.Free())
        assert not any(comms)

    asyncio.run(main())


@pytest.mark.spec("S5.7.1-6", "S5.7.1-14", "S5.4.3-1")
def test_freeing_a_communicator_deletes_its_attributes() -> None:
    async def main() -> None:
        world = aiompi.local_world(2)
        calls: list[tuple[int, Any]] = []
        keys = [
            Intracomm.Create_keyval(True, lambda comm, keyval, value: calls.append((keyval, value))) for _ in range(2)
        ]
        comms = await everywhere(world, lambda comm: comm.Dup())
        for key in keys:
            comms[0].Set_attr(key, "x")
        await everywhere(comms, lambda comm: comm.Free())
        assert calls == [(keys[1], "x"), (keys[0], "x")]
        for comm in await everywhere(world, lambda comm: comm.Dup()):
            assert [comm.Get_attr(key) for key in keys] == [None, None]
        with pytest.raises(errors.InvalidCommError):
            comms[0].Get_attr(keys[0])

    asyncio.run(main())


def test_reference_counted_cache() -> None:
    """The example of section 5.7.2: a library shares data on a communicator among its duplicates."""

    class Cache:
        users = 1

    def copy_fn(comm: Any, keyval: int, cache: Cache) -> Cache:
        cache.users += 1
        return cache

    def delete_fn(comm: Any, keyval: int, cache: Cache) -> None:
        cache.users -= 1

    async def main() -> None:
        (world,) = aiompi.local_world(1)
        key, cache = Intracomm.Create_keyval(copy_fn, delete_fn), Cache()
        first = await world.Dup()
        assert first.Get_attr(key) is None
        first.Set_attr(key, cache)
        second = await first.Dup()
        third = await second.Dup()
        assert second.Get_attr(key) is third.Get_attr(key) is cache
        counts = [cache.users]
        for comm in (second, first, third):
            await comm.Free()
            counts.append(cache.users)
        assert counts == [3, 2, 1, 0]

    asyncio.run(main())
