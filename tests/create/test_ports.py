"""Processes that meet at run time: ranks of jobs of their own, in one process, over real sockets."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import aiompi
from aiompi import create
from aiompi.comm import Communicator
from aiompi.create import intercomm, ports
from aiompi.create.introduction import Strangers
from aiompi.engine.processes import Name
from aiompi.errors import InvalidCommError
from aiompi.net import interfaces
from aiompi.transport.dial import Greeting
from aiompi.transport.sockets import _identity
from aiompi.transport.stream import StreamTransport
from aiompi.wire.control import BusinessCard
from aiompi.wire.frame import REVOKE
from aiompi.wire.hello import Acceptor, Namespace
from support.limits import LIMIT
from support.meetings import jobs


async def both(one: Awaitable[Any], other: Awaitable[Any]) -> list[Any]:
    return await asyncio.gather(one, other)


async def pair(one: aiompi.World, other: aiompi.World) -> list[aiompi.Intercomm]:
    """Return the ends of an intercommunicator of two jobs."""
    port = await one.Open_port()
    ends = await both(one.Accept(port), other.Connect(port))
    await one.Close_port(port)
    return ends


def left(world: aiompi.World) -> list[int]:
    """Return the lengths of everything in which another process could be left."""
    engine = world._runtime.engine
    processes = engine.processes
    tables = (processes._names, processes._numbers, processes._references, processes._addresses, processes.namespaces)
    links, *imports = (
        sum(len(getattr(transport, name, ())) for transport in world._runtime.wiring.transports)
        for name in ("links", "peer_slots")
    )
    return [*map(len, tables), len(engine.contexts), len(engine.peers()), links, len(processes.expecting), *imports]


@pytest.mark.asyncio
@pytest.mark.parametrize("transports", [(), ("unix",), ("tcp",)])
async def test_two_jobs_meet_talk_and_part(transports: tuple[str, ...]) -> None:
    async with jobs(2, transports=transports) as worlds:
        one, other = await pair(*worlds)
        assert [(comm.size, comm.remote_size) for comm in (one, other)] == [(1, 1)] * 2
        assert await both(one.sendrecv({"a": 1}, 0, source=0), other.sendrecv("b", 0, source=0)) == ["b", {"a": 1}]
        big = bytearray(os.urandom(2**20)), bytearray(2**20)
        await both(one.Send(big[0], 0), other.Recv(big[1], 0))
        assert big[0] == big[1]
        merged = await both(one.Merge(), other.Merge(high=True))
        assert [comm.rank for comm in merged] == [0, 1]
        assert await both(*(comm.allreduce(comm.rank + 1) for comm in merged)) == [3, 3]
        for comms in (merged, (one, other)):
            await both(*(comm.Disconnect() for comm in comms))
        assert not one


@pytest.mark.asyncio
@pytest.mark.parametrize("transports", [(), ("unix",), ("tcp",)])
@pytest.mark.parametrize("nbytes", [1, 10**7])
async def test_what_has_begun_on_a_freed_communicator_completes(transports: tuple[str, ...], nbytes: int) -> None:
    """Neither process forgets the other one before, whichever frees first."""
    async with jobs(2, transports=transports) as worlds:
        before = [left(world) for world in worlds]
        for frees_first in range(2):
            ends = await pair(*worlds)
            sending = ends[0].issend(bytes(nbytes), 0)
            receiving = ends[1].irecv(source=0) if frees_first else None
            for _ in range(3):
                await asyncio.sleep(0)
            await ends[frees_first].Free()
            receiving = receiving or ends[1].irecv(source=0)
            assert len(await asyncio.wait_for(receiving, LIMIT)) == nbytes
            await asyncio.wait_for(sending, LIMIT)
            await ends[not frees_first].Free()
        while [left(world)[5:9] for world in worlds] != [tables[5:9] for tables in before]:
            await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_nothing_is_left_of_many_meetings() -> None:
    async with jobs(2) as worlds:
        for round in range(30):
            one, other = await pair(*worlds)
            assert len((await both(one.send(bytes(2**19), 0), other.recv()))[1]) == 2**19
            await both(one.Disconnect(), other.Disconnect())
            while any(left(world)[7] for world in worlds):
                await asyncio.sleep(0.001)
            if round == 0:
                first = [left(world) for world in worlds]
        assert [left(world) for world in worlds] == first


@pytest.mark.asyncio
async def test_three_jobs_make_one_world() -> None:
    """The third meets the merged world of the first two, in which each of them knows the other otherwise."""
    async with jobs(3) as worlds:
        ends = await pair(*worlds[:2])
        duo = await both(ends[0].Merge(), ends[1].Merge(high=True))
        port = await worlds[1].Open_port()
        third = worlds[2].Connect(port)
        accepting = await both(duo[0].Accept(None, root=1), duo[1].Accept(port, root=1))
        everybody = [*accepting, await third]
        trio = await asyncio.gather(*(comm.Merge(high=n == 2) for n, comm in enumerate(everybody)))
        assert await asyncio.gather(*(comm.allgather(n) for n, comm in enumerate(trio))) == [[0, 1, 2]] * 3
        parts = await asyncio.gather(*(comm.Split(n % 2) for n, comm in enumerate(trio)))
        assert await asyncio.gather(*(comm.allgather(n) for n, comm in enumerate(parts))) == [[0, 2], [1], [0, 2]]
        again = await both(parts[0].Create(parts[0].group), parts[2].Create(parts[2].group))
        assert await both(again[0].sendrecv("x", 1, source=1), again[1].sendrecv("y", 0, source=0)) == ["y", "x"]
        assert [comm.group.Translate_ranks([0, 1]) for comm in again] == [[0, -32766], [-32766, 0]]


@pytest.mark.asyncio
async def test_intercommunicator_through_a_leader_that_knows_both_sides() -> None:
    """Intercomm_create introduces processes that have never met."""
    async with jobs(3) as worlds:
        first, second = await pair(worlds[0], worlds[1]), await pair(worlds[1], worlds[2])
        middle = await both(first[0].Merge(), first[1].Merge(high=True))
        made = await asyncio.gather(
            middle[0].Create_intercomm(1, middle[0], 0, tag=5),
            middle[1].Create_intercomm(1, second[0], 0, tag=5),
            worlds[2].COMM_SELF.Create_intercomm(0, second[1], 0, tag=5),
        )
        assert [comm.remote_size for comm in made] == [1, 1, 2]
        got = await asyncio.gather(made[0].recv(0), made[1].recv(0), made[2].send("a", 0), made[2].send("b", 1))
        assert got[:2] == ["a", "b"]


@pytest.mark.asyncio
async def test_several_groups_at_one_port_are_taken_one_after_the_other() -> None:
    async with jobs(3) as worlds:
        port = await worlds[0].Open_port()
        connecting = [worlds[n].Connect(port) for n in (1, 2)]
        accepted = [await worlds[0].Accept(port) for _ in connecting]
        ends = await asyncio.gather(*connecting)
        await asyncio.gather(*(comm.send(n, 0) for n, comm in enumerate(ends)))
        assert sorted([await comm.recv() for comm in accepted]) == [0, 1]


@pytest.mark.asyncio
async def test_port_that_was_closed_cannot_be_reached() -> None:
    async with jobs(2, connect_timeout=0.3) as (one, other):
        port = await one.Open_port()
        await one.Close_port(port)
        with pytest.raises(aiompi.MPI.InvalidPortError, match="cannot be reached"):
            await other.Connect(port)
        with pytest.raises(aiompi.MPI.InvalidPortError, match="no such open port"):
            await one.Accept(port)
        with pytest.raises(aiompi.MPI.InvalidPortError, match="no such open port"):
            await one.Close_port(port)
        assert aiompi.MPI.InvalidPortError.error_class == aiompi.MPI.ERR_PORT


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["", "nonsense", "aiompi-port:", "aiompi-port:AAAA", "aiompi-port:kwEC"])
async def test_name_that_is_none_of_a_port(name: str) -> None:
    async with jobs(1) as (one,):
        with pytest.raises(aiompi.MPI.InvalidPortError, match="is no name of a port"):
            await one.Connect(name)


@pytest.mark.asyncio
async def test_port_of_this_process_and_of_one_that_has_ended() -> None:
    async with jobs(2) as (one, other):
        port = await one.Open_port()
        with pytest.raises(aiompi.MPI.InvalidPortError, match="another one has to connect"):
            await one.Connect(port)
        async with jobs(1) as (gone,):
            port = await gone.Open_port()
        with pytest.raises(aiompi.MPI.InvalidPortError, match="cannot be reached"):
            await other.Connect(port)


@pytest.mark.asyncio
async def test_process_of_another_job_that_dies_is_noticed_by_its_links() -> None:
    async with jobs(1) as (one,):
        other = await aiompi.init()
        ends = await pair(one, other)
        receive = ends[0].irecv(source=0)
        other._runtime.close()  # as when it is killed: no word of it
        with pytest.raises(aiompi.ProcessFailedError, match=r"process 0 of job [0-9a-f]{8} is gone"):
            await receive
        with pytest.raises(aiompi.ProcessFailedError):
            await ends[0].send("more", 0)
        parting = ends[0].Disconnect()
        with pytest.raises(aiompi.ProcessFailedError):
            await parting
        with pytest.raises(InvalidCommError, match="has been freed"):
            ends[0].Free()


@pytest.mark.asyncio
@pytest.mark.parametrize("transports", [(), ("unix",), ("tcp",)])
async def test_processes_of_other_jobs_learn_why_one_has_failed(transports: tuple[str, ...]) -> None:
    settings = aiompi.settings.Settings(transports=transports)
    async with jobs(2, transports=transports) as worlds:
        before = [left(world) for world in worlds]
        fails = await aiompi.init(settings=settings)
        comms = await merged([*worlds, fails])
        waiting = [comms[0].irecv(source=2), comms[1].barrier()]
        fails._runtime.fail(ValueError("bad luck"))
        for request in waiting:
            with pytest.raises(aiompi.ProcessFailedError, match="is gone: rank 0 failed: ValueError: bad luck"):
                await request
        for comm in comms[:2]:
            await comm.Free()
        while [left(world)[5:9] for world in worlds] != [tables[5:9] for tables in before]:
            await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_process_of_another_job_that_finalizes_has_left() -> None:
    async with jobs(1) as (one,):
        async with aiompi.init() as other:
            ends = await pair(one, other)
            await ends[1].send("last", 0)
        assert await ends[0].recv() == "last"
        with pytest.raises(aiompi.ProcessFailedError, match="has finalized"):
            await ends[0].recv(0)


# Failures on communicators that several jobs share.


async def merged(worlds: list[aiompi.World]) -> list[aiompi.Intracomm]:
    """Return one communicator of several jobs."""
    port = await worlds[0].Open_port()
    comms: list[aiompi.Intracomm] = [worlds[0].COMM_SELF]
    for world in worlds[1:]:
        ends = await asyncio.gather(*(comm.Accept(port) for comm in comms), world.Connect(port))
        old = [*ends, *(comm for comm in comms if comm.size > 1)]
        comms = list(await asyncio.gather(*(comm.Merge(high=n == len(comms)) for n, comm in enumerate(ends))))
        await asyncio.gather(*(comm.Free() for comm in old))
    await worlds[0].Close_port(port)
    return comms


@pytest.mark.asyncio
async def test_agreement_of_several_jobs() -> None:
    async with jobs(3) as worlds:
        comms = await merged(worlds)
        for round in range(3):
            assert await asyncio.gather(*(comm.Agree(~(1 << n)) for n, comm in enumerate(comms))) == [~7] * 3, round
        early = [comm.Agree(n) for n in (4, 6) for comm in comms[1:]]
        late = [comms[0].Agree(n) for n in (5, 2)]
        assert await asyncio.gather(*early, *late) == [4, 4, 2, 2, 4, 2]
        copies = await asyncio.gather(*(comm.Shrink() for comm in comms))
        assert [comm.rank for comm in copies] == [0, 1, 2]
        assert await asyncio.gather(*(comm.allreduce(1) for comm in copies)) == [3] * 3
        before = [left(world) for world in worlds]
        await asyncio.gather(*(comm.Disconnect() for comm in copies))
        assert [tables[5] for tables in map(left, worlds)] == [tables[5] - 3 for tables in before]


@pytest.mark.asyncio
async def test_agreement_on_an_intercommunicator_of_two_jobs() -> None:
    async with jobs(2) as worlds:
        ends = await pair(*worlds)
        assert await both(*(comm.Agree(flag) for comm, flag in zip(ends, (6, 3), strict=True))) == [2, 2]
        small = await both(*(comm.Shrink() for comm in ends))
        assert await both(small[0].sendrecv("x", 0, source=0), small[1].sendrecv("y", 0, source=0)) == ["y", "x"]


@pytest.mark.asyncio
async def test_members_of_several_jobs_go_on_without_one_that_dies() -> None:
    async with jobs(2) as worlds:
        lost = await aiompi.init()
        comms = await merged([worlds[0], lost, worlds[1]])
        waiting = [comms[n].allreduce(1) for n in (0, 2)]
        begun = comms[0].Agree(3)
        lost._runtime.close()  # as when it is killed
        for request in waiting:
            with pytest.raises(aiompi.ProcessFailedError):
                await request
        with pytest.raises(aiompi.ProcessFailedError) as raised:
            await both(begun, comms[2].Agree(5))
        assert raised.value.flag == 1
        for n in (0, 2):
            assert comms[n].Ack_failed() == 1
            assert [*comms[n].Get_failed().Translate_ranks([0], comms[n].group)] == [1]
        assert await both(comms[0].Agree(7), comms[2].Agree(5)) == [5, 5]
        small = await both(comms[0].Shrink(), comms[2].Shrink())
        assert [(comm.rank, comm.size) for comm in small] == [(0, 2), (1, 2)]
        assert await both(*(comm.allreduce(comm.rank) for comm in small)) == [1, 1]


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(8))
async def test_agreement_is_uniform_whenever_members_die(seed: int) -> None:
    chance = random.Random(seed)
    worlds = [await aiompi.init() for _ in range(5)]
    comms = await merged(worlds)
    requests: list[Any] = [None] * 5
    dead = chance.sample(range(5), 3)
    acts = [("agree", n) for n in range(5)] + [("die", n) for n in dead]
    for act, n in chance.sample(acts, len(acts)):
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        if act == "die":
            worlds[n]._runtime.close()
        elif requests[n] is None:
            requests[n] = comms[n].Iagree(~(1 << n))
    results = set()
    for n in range(5):
        if n not in dead:
            try:
                results.add(("flag", await requests[n]))
            except aiompi.ProcessFailedError as error:
                results.add(("error", error.flag))
    assert len(results) == 1
    small = await both(*(comms[n].Shrink() for n in range(5) if n not in dead))
    assert [comm.size for comm in small] == [2, 2]
    assert await both(*(comm.allreduce(1) for comm in small)) == [2, 2]
    for n in set(range(5)) - set(dead):
        worlds[n]._runtime.close()


@pytest.mark.asyncio
async def test_revocation_reaches_other_jobs_also_if_its_caller_dies() -> None:
    async with jobs(2) as worlds:
        lost = await aiompi.init()
        comms = await merged([worlds[0], worlds[1], lost])
        waiting = [comm.irecv(source=1 - n) for n, comm in enumerate(comms[:2])]
        real = lost._runtime.engine.peer(comms[2].group.members[0])
        real.emit(REVOKE, context=comms[2]._core.context_id)  # to one of them only
        await asyncio.sleep(0)
        lost._runtime.close()
        for request in waiting:
            with pytest.raises(aiompi.RevokedError):
                await request
        assert [comm.Is_revoked() for comm in comms[:2]] == [True, True]
        small = await both(comms[0].Shrink(), comms[1].Shrink())
        assert [comm.size for comm in small] == [2, 2]


@pytest.mark.asyncio
async def test_revocation_that_frees_the_communicator_reaches_other_jobs() -> None:
    """A rank parts from the others meanwhile, and forgets them when its Disconnect fails."""
    async with jobs(2) as worlds:
        lost = await aiompi.init()
        comms = await merged([*worlds, lost])
        waiting, parting = comms[0].irecv(source=1), comms[1].Disconnect()
        lost._runtime.engine.peer(comms[2].group.members[1]).emit(REVOKE, context=comms[2]._core.context_id)
        for request in (parting, waiting):
            with pytest.raises(aiompi.RevokedError):
                await asyncio.wait_for(request, LIMIT)
        assert not worlds[1]._runtime.engine.processes.has_met
        lost._runtime.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("agreed", [True, False])
async def test_process_that_ends_while_an_intercommunicator_with_it_is_made(
    agreed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with jobs(2) as (one, other):
        port, before = await one.Open_port(), left(one)
        processes, connect = one._runtime.engine.processes, intercomm._connect_all

        async def interrupted(where: str, comm: Communicator, *more: Any) -> None:
            await connect(where, comm, *more)
            if comm.engine is one._runtime.engine:
                met = [number for number in processes._names if processes.name(number).process == 0]
                for number in met if agreed else ():
                    one._runtime.engine.peer(number).mark_failed("a test")
                if not agreed:
                    raise aiompi.ProcessFailedError("a test")

        monkeypatch.setattr(intercomm, "_connect_all", interrupted)
        ends = await asyncio.gather(one.Accept(port), other.Connect(port), return_exceptions=True)
        if agreed:
            with pytest.raises(aiompi.ProcessFailedError, match="is gone: a test"):
                await ends[0].send(1, 0)
            await ends[0].Free()
        else:
            assert isinstance(ends[0], aiompi.ProcessFailedError)
        while left(one) != before:
            await asyncio.sleep(0.01)


Connection = tuple[StreamTransport, Greeting, str | None]


@contextmanager
def connections_held() -> Iterator[list[Connection]]:
    """Do not accept the connections of processes that were introduced, before the end; yield them."""
    accepted, held = StreamTransport._accepted, []

    def hold(self: StreamTransport, greeting: Greeting, cause: str | None) -> None:
        assert isinstance(greeting.handshake, Acceptor)
        if isinstance(greeting.handshake.namespace, ports.PortNamespace):
            accepted(self, greeting, cause)
        else:
            held.append((self, greeting, cause))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamTransport, "_accepted", hold)
        yield held
    for transport, greeting, cause in held:
        if greeting in transport._greetings:  # otherwise it has ended
            transport._accepted(greeting, cause)


async def arrival(held: list[Connection]) -> None:
    """Wait until there is a connection, and all goes on that can go on."""
    while not held:
        await asyncio.sleep(0.001)
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.asyncio
@pytest.mark.parametrize("transports", [(), ("unix",), ("tcp",)])
async def test_no_group_has_met_before_its_connections_are_there(transports: tuple[str, ...]) -> None:
    """So a process that ends at once is noticed, which nothing but the end of its connection tells."""
    async with jobs(1, transports=transports) as (one,):
        other = await aiompi.init(settings=aiompi.settings.Settings(transports=transports))
        with connections_held() as held:
            task = asyncio.create_task(pair(one, other))
            await arrival(held)
            assert not task.done()
        ends = await task
        other._runtime.close()  # as when it is killed
        with pytest.raises(aiompi.ProcessFailedError, match="is gone"):
            await ends[0].recv(0)


@pytest.mark.asyncio
async def test_groups_that_do_not_reach_each_other_learn_so_together() -> None:
    async with jobs(2) as worlds:
        before = [left(world) for world in worlds]
        port = await worlds[0].Open_port()
        calls = worlds[0].Accept(port), worlds[1].Connect(port)
        with connections_held() as held:
            await arrival(held)
            held[0] = (*held[0][:2], "a test")
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, aiompi.MPI.InvalidPortError)
            assert "not all processes of the two groups reach each other" in str(error)
        await worlds[0].Close_port(port)
        while [left(world)[5:9] for world in worlds] != [tables[5:9] for tables in before]:
            await asyncio.sleep(0.01)


@pytest.mark.asyncio
@pytest.mark.parametrize("dies", [1, 3])
async def test_groups_do_not_wait_for_answers_when_a_process_has_died(
    dies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds = [await aiompi.init() for _ in range(4)]
    groups = [await merged(worlds[:2]), await merged(worlds[2:])]
    meet = Strangers._meet

    async def without_answer(self: Strangers, number: int, connects: bool) -> None:
        if connects:
            await meet(self, number, connects)

    monkeypatch.setattr(Strangers, "_meet", without_answer)
    port = await worlds[0].Open_port()
    calls = [comm.Accept(port) for comm in groups[0]] + [comm.Connect(port) for comm in groups[1]]
    while any(left(world)[7] < links for world, links in zip(worlds, (4, 3, 4, 3), strict=True)):
        await asyncio.sleep(0.001)
    worlds[dies]._runtime.close()  # as when it is killed
    calls.pop(dies).close()
    for end in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), LIMIT):
        assert isinstance(end, aiompi.MPI.InvalidPortError | aiompi.ProcessFailedError)
    for world in worlds:
        world._runtime.close()


@pytest.mark.asyncio
async def test_ranks_of_a_local_world_cannot_be_connected() -> None:
    world = aiompi.local_world(2)
    with pytest.raises(NotImplementedError, match="local_world"):
        await world[0].Accept("any")
    with pytest.raises(aiompi.MPI.InvalidRootError):
        world[0].Accept(None, root=2)


# Sockets and names.


@pytest.mark.asyncio
async def test_join_over_a_socket() -> None:
    async with jobs(2) as (one, other):
        sockets = socket.socketpair()
        with sockets[0], sockets[1]:
            ends = await both(one.Join(sockets[0].fileno()), other.Join(sockets[1].fileno()))
            assert await both(ends[0].sendrecv(1, 0, source=0), ends[1].sendrecv(2, 0, source=0)) == [2, 1]
            sockets[0].send(b"x")
            assert sockets[1].recv(9) == b"x", "the socket is still of use, and blocks as before"


@pytest.mark.asyncio
async def test_join_over_a_socket_that_ends() -> None:
    async with jobs(1) as (one,):
        here, there = socket.socketpair()
        there.close()
        with here, pytest.raises(aiompi.MPI.InvalidPortError, match="Join"):
            await one.Join(here.fileno())


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fd", "words"),
    [(-1, "Join: -1 is no descriptor"), (2**40, "is no descriptor"), (None, r"descriptor \d+ is not of a socket")],
)
async def test_join_over_no_socket(fd: int | None, words: str, tmp_path: Path) -> None:
    async with jobs(1) as (one,):
        with open(tmp_path / "file", "w") as file, pytest.raises(aiompi.InvalidArgumentError, match=words):
            await one.Join(file.fileno() if fd is None else fd)


# Processes that are started. The launcher is a process of its own.

WORKER = """
import os, sys
from aiompi import MPI
parent = MPI.Comm.Get_parent()
world = MPI.COMM_WORLD
place = sys.argv[1:], os.getcwd(), os.environ.get("MARK"), world.Get_attr(MPI.APPNUM)
parent.gather((world.rank, world.size, *place), root=0)
parent.Disconnect()
assert not MPI.Comm.Get_parent()
"""


@pytest.fixture
def worker(tmp_path: Path) -> str:
    (tmp_path / "worker.py").write_text(WORKER)
    return str(tmp_path / "worker.py")


@pytest.mark.asyncio
async def test_spawned_processes_and_their_surroundings(worker: str, tmp_path: Path) -> None:
    async with jobs(1) as (one,):
        codes: list[int] = []
        info = aiompi.Info.Create({"wdir": str(tmp_path), "env": "MARK=set\n", "path": str(tmp_path)})
        children = await one.Spawn("worker.py", ["a", "b c"], 2, info, errcodes=codes)
        assert (children.size, children.remote_size, codes) == (1, 2, [0, 0])
        got = await children.gather(None, root=aiompi.ROOT)
        assert got == [(rank, 2, ["a", "b c"], str(tmp_path), "set", 0) for rank in range(2)]
        await children.Disconnect()


@pytest.mark.asyncio
async def test_processes_that_cannot_be_started_have_no_error_codes() -> None:
    async with jobs(1) as (one,):
        codes: list[Any] = []
        with pytest.raises(aiompi.SpawnError):
            await one.Spawn("/nowhere/program", errcodes=codes)
        with pytest.raises(aiompi.SpawnError):
            await one.Spawn_multiple(["/nowhere/program"], errcodes=codes)
        assert codes == []


@pytest.mark.asyncio
async def test_connection_to_a_process_that_is_forgotten_meanwhile(tmp_path: Path) -> None:
    """The next attempt says hello like the first one; otherwise Finalize would wait for it forever."""
    async with jobs(1, transports=("unix",)) as (one,):
        await one.Open_port()
        loop, engine, path = asyncio.get_running_loop(), one._runtime.engine, str(tmp_path / "other")
        with interfaces.listen_unix(path) as listener:
            listener.setblocking(False)
            card = BusinessCard(window=0, transports={"unix": [path, _identity(path, os.geteuid())]})
            number = engine.processes.meet(Name(b"another job 1234", 0), card, Namespace.new(0), 1)
            engine.processes.retain([number])
            engine.peer(number).connect()
            hellos = []
            for _ in range(2):
                connection, _ = await loop.sock_accept(listener)
                with connection:
                    hellos.append(await asyncio.wait_for(loop.sock_recv(connection, 4096), LIMIT))
                if len(hellos) == 1:
                    engine.processes.release([number])
                    assert engine.known_peer(number) is None
        assert len(hellos[0]) == len(hellos[1]) > 0


@pytest.mark.asyncio
async def test_what_ends_the_wait_at_a_port_does_not_remember_groups_that_have_come() -> None:
    async with jobs(2) as (one, other):
        engine = one._runtime.engine
        stop: aiompi.Request[None] = aiompi.Request(engine)
        port = await one.Open_port()
        for _ in range(3):
            accepting = ports.accept(one._core, port, 0, stop)
            core, met = await both(accepting, other.Connect(port))
            await both(create.disconnect(core), met.Disconnect())
        assert not stop._callbacks
        await one.Close_port(port)


@pytest.mark.asyncio
async def test_spawned_programs_of_one_world(worker: str) -> None:
    async with jobs(1) as (one,):
        codes: list[list[int]] = []
        children = await one.Spawn_multiple([worker, worker], [["a"], []], [1, 2], errcodes=codes)
        assert codes == [[0], [0, 0]]
        got = await children.gather(None, root=aiompi.ROOT)
        assert [(rank, size, args, app) for rank, size, args, _, _, app in got] == [
            (0, 3, ["a"], 0),
            (1, 3, [], 1),
            (2, 3, [], 1),
        ]
        await children.Disconnect()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("command", "info", "what"),
    [
        ("/nowhere/command", {}, "/nowhere/command: No such file or directory"),
        ("false", {}, "rank 0 exited with status 1"),
        ("true", {}, "without joining"),
        ("x.py", {"wdir": "/nowhere"}, "/nowhere: No such file or directory"),
        pytest.param(
            "true",
            {"host": "another.example"},
            "another.example",
            marks=pytest.mark.skipif(not shutil.which("ssh"), reason="there is no ssh"),
        ),
        ("true", {"env": "MARK"}, "expected NAME=VALUE"),
    ],
)
async def test_processes_that_cannot_be_started(command: str, info: dict[str, str], what: str) -> None:
    async with jobs(1) as (one,):
        with pytest.raises(aiompi.SpawnError, match=what) as caught:
            await one.Spawn(command, info=aiompi.Info.Create(info))
        assert caught.value.error_class == aiompi.MPI.ERR_SPAWN
        assert await one.allreduce(1) == 1, "the rank goes on"


@pytest.mark.asyncio
async def test_spawned_process_that_dies(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("from aiompi import MPI\nMPI.Comm.Get_parent().recv()\nimport os; os._exit(3)\n")
    async with jobs(1) as (one,):
        children = await one.Spawn(str(tmp_path / "dies.py"))
        await children.send("now", 0)
        with pytest.raises(aiompi.ProcessFailedError, match="is gone"):
            await children.recv(0)


@pytest.mark.asyncio
async def test_spawned_processes_end_with_the_process_that_has_spawned_them(tmp_path: Path) -> None:
    body = (
        "from aiompi import MPI\nimport os\nMPI.Comm.Get_parent().send(os.getpid(), 0)\nMPI.Comm.Get_parent().recv()\n"
    )
    (tmp_path / "waits.py").write_text(body)
    one = await aiompi.init()
    children = await one.Spawn(str(tmp_path / "waits.py"))
    pid = await children.recv()
    one._runtime.close()  # as when it is killed
    deadline = time.monotonic() + LIMIT
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


class BrokenBridge:
    """A bridge to a root that fails while the groups meet."""

    def isend(self, payload: object, nbytes: int, dest: int) -> aiompi.Request[None]:
        raise aiompi.ProcessFailedError("it was killed")

    def irecv(self, memory: object, source: int) -> aiompi.Request[None]:
        raise aiompi.ProcessFailedError("it was killed")

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda core: ports.spawn(core, [], 0), aiompi.SpawnError),
        (lambda core: ports.accept(core, "", 0), aiompi.MPI.InvalidPortError),
    ],
)
def test_group_that_is_lost_while_it_is_met(
    call: Callable[[Any], aiompi.Request[Any]], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bridge(*_: Any) -> Any:
        return BrokenBridge()

    monkeypatch.setattr(ports, "_start", bridge)
    monkeypatch.setattr(ports, "_await_connect", bridge)

    async def main() -> None:
        (world,) = aiompi.local_world(1)
        with pytest.raises(error, match="the other group is gone: it was killed"):
            await call(world._core)

    asyncio.run(main())


CONNECT = ports._CONNECT


class Connects:
    """The struct of the first message at a port, with the message of a hostile process."""

    def __init__(self, said: bytes) -> None:
        self._said = said

    def __getattr__(self, name: str) -> Any:
        return getattr(CONNECT, name)

    def pack(self, *_: int) -> bytes:
        return self._said


@pytest.mark.asyncio
@pytest.mark.parametrize("said", [b"!", b"no number!", bytes(1000)])
async def test_wrong_first_message_at_a_port_is_ignored(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    async with jobs(3) as worlds:
        port = await worlds[0].Open_port()
        space = worlds[0]._runtime.engine.processes.ports[port]
        accepted = asyncio.ensure_future(worlds[0].Accept(port))
        with monkeypatch.context() as hostile:
            hostile.setattr(ports, "_CONNECT", Connects(said))
            refused = asyncio.ensure_future(worlds[1].Connect(port))
            while not space.members:
                await asyncio.sleep(0.001)
        end, _ = await both(accepted, worlds[2].Connect(port))
        assert end.remote_size == 1
        await worlds[0].finalize()  # what the hostile one has said to it then ends as well
        refused.cancel()
        await asyncio.wait([refused])


def names(world: aiompi.World, *processes: int) -> bytes:
    """Return processes of the job of a rank, as the leader of a group names its members."""
    job = world._runtime.engine.processes.job
    return b"".join(job + process.to_bytes(8) for process in processes)


#: what the leader of another group sends, and in which of its messages: made of what it should send
LIES: dict[str, tuple[int, Callable[[bytes, aiompi.World], bytes]]] = {
    "no names": (1, lambda right, victim: b""),
    "half a name": (1, lambda right, victim: right[:-1]),
    "the world of the others": (1, lambda right, victim: names(victim, 0, 1)),
    "that world, and an impossible process": (1, lambda right, victim: names(victim, 0, 2**64 - 1)),
    "a process of the job of the others": (1, lambda right, victim: right[:24] + names(victim, 7)),
    "themselves": (1, lambda right, victim: right[:24] + names(victim, 0)),
    "no cards": (2, lambda right, victim: right[:32]),
    "other cards": (2, lambda right, victim: right[:32] + b"\x91\x81\xa1a\x01"),
    "cards that are nested deeply": (2, lambda right, victim: right[:32] + b"\x91" * 10**5),
    "no numbers": (3, lambda right, victim: b""),
    "a number too many": (3, lambda right, victim: right + bytes(8)),
    "the last context identifier": (3, lambda right, victim: b"\xff" * len(right)),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("lie", LIES)
async def test_a_leader_that_lies_gets_an_error_of_mpi(monkeypatch: pytest.MonkeyPatch, lie: str) -> None:
    """The error is of this call only: another group meets the victim then."""
    message, make = LIES[lie]
    swap, said = ports._Meeting._swap, 0
    async with jobs(3) as worlds:

        async def lying(meeting: Any, data: bytes) -> bytes:
            nonlocal said
            if meeting._bridge._engine is worlds[1]._runtime.engine:
                said += 1
                data = make(data, worlds[0]) if said == message else data
            return await swap(meeting, data)

        port = await worlds[0].Open_port()
        with monkeypatch.context() as hostile:
            hostile.setattr(ports._Meeting, "_swap", lying)
            other = asyncio.ensure_future(worlds[1].Connect(port))
            with pytest.raises(aiompi.MPIError):
                await worlds[0].Accept(port)
        end, _ = await both(worlds[0].Accept(port), worlds[2].Connect(port))
        assert end.remote_size == 1
        await worlds[0].finalize()
        other.cancel()
        await asyncio.wait([other])
