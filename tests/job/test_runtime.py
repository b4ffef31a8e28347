"""One rank and its agent, which the test replaces: start, end, and all that the agent may do in between."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeAlias

import pytest

import aiompi
from aiompi import JobAbortedError, ProcessFailedError, Settings
from aiompi.driver.aio import AsyncioDriver
from aiompi.engine import Engine
from aiompi.impi.label import ClientPart, HostPart, ProcPart
from aiompi.impi.local import SoloJob
from aiompi.job.agent import Contact
from aiompi.job.local import local_runtimes
from aiompi.job.runtime import Runtime
from aiompi.job.start import share_cores
from aiompi.wire import control, hello
from support.jobs import FACES, KEY, Site, in_face
from support.worlds import open_descriptors

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


#: the agents of these tests are plain streams
IN_CLEAR = Settings(tls="off")


class Agent:
    """The agent's end of the connection of one rank."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = control.Decoder()
        self._heard: list[control.Message] = []

    async def shake_hands(self, key: str = KEY) -> None:
        handshake = hello.Acceptor.alone(
            bytes.fromhex(key), role=hello.ROLE_CONTROL, rank=hello.RANK_AGENT, channel=hello.Protection.PLAIN
        )
        while not handshake.done:
            handshake.receive_data(await self._reader.readexactly(handshake.needed))
            self._writer.write(handshake.data_to_send())

    async def hear(self, kind: type[Any]) -> Any:
        """Return the next message of the rank, which must be of this kind."""
        while not self._heard:
            data = await self._reader.read(2**16)
            assert data, f"the rank has hung up, without {kind.__name__}"
            self._heard += self._decoder.receive_data(data)
        message = self._heard.pop(0)
        assert isinstance(message, kind)
        return message

    def say(self, *messages: control.Message | bytes) -> None:
        for message in messages:
            self._writer.write(message if isinstance(message, bytes) else control.encode(message))

    async def start(self, size: int = 1, **more: Any) -> None:
        """Bring the rank, number 0, through its start; the others of the job are not there."""
        await self.hear(control.Join)
        self.say(control.Welcome(0, size, "", hello.pair_keys(b"k", 0, range(size)), **more))
        card = (await self.hear(control.Card)).card
        self.say(control.Cards([card] * size))

    async def end(self) -> None:
        """Wait until the rank has hung up, and hang up."""
        assert await self._reader.read() == b""
        await self.close()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def agency() -> AsyncIterator[tuple[str, asyncio.Queue[Agent]]]:
    """Where ranks join: the address, and the agents of those that do."""
    agents: asyncio.Queue[Agent] = asyncio.Queue()
    server = await asyncio.start_server(lambda reader, writer: agents.put_nowait(Agent(reader, writer)), "127.0.0.1")
    async with server:
        yield "{}:{}".format(*server.sockets[0].getsockname()), agents


Stage: TypeAlias = Callable[[Agent], Coroutine[Any, Any, None]]


async def _nothing(agent: Agent) -> None:
    pass


async def _join(agent: Agent) -> None:
    await agent.shake_hands()
    await agent.hear(control.Join)


async def _card(agent: Agent) -> None:
    await _join(agent)
    agent.say(control.Welcome(0, 2, "", hello.pair_keys(b"k", 0, range(2))))
    await agent.hear(control.Card)


@pytest.mark.parametrize(
    ("stage", "last_words", "cause"),
    [
        (_nothing, [], "it closed the connection during the hello"),
        (_nothing, [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9], "does not speak aiompi's protocol"),
        (lambda agent: agent.shake_hands("11" * 16), [], "could not prove the key"),
        (_join, [], "the launcher is gone"),
        (_join, [control.Abort(3, "nobody is welcome")], "nobody is welcome"),
        (_join, [b"\xff" * 9], "control message of 4294967295 bytes"),
        (_join, [control.Join(1)], "the agent sent Join, which is not for ranks"),
        (_card, [], "the launcher is gone"),
        (_card, [control.Abort(3, "rank 1 never came")], "rank 1 never came"),
    ],
    ids=["no hello", "another protocol", "wrong key", "no Welcome", "Abort at once", "garbage", "nonsense", "no Cards",
         "Abort at last"],
)  # fmt: skip
def test_start_that_fails(run: Run, stage: Stage, last_words: list[Any], cause: str) -> None:
    """If the agent does anything but the next step, the rank reports why and leaves nothing open."""

    async def main() -> None:
        async with agency() as (address, agents):
            before = open_descriptors()
            joining = asyncio.ensure_future(_join_world(address, tls="off"))
            agent = await agents.get()
            with contextlib.suppress(asyncio.IncompleteReadError, aiompi.RemoteProtocolError):
                await stage(agent)
            agent.say(*last_words)
            if cause != "could not prove the key":
                agent._writer.write_eof()
            with pytest.raises(JobAbortedError, match=cause):
                await joining
            await agent.close()
            assert open_descriptors() == before

    run(main())


async def _join_world(address: str, **settings: Any) -> aiompi.World:
    return await aiompi.init(address, KEY, settings=Settings(**settings))


def test_whole_conversation(run: Run) -> None:
    async def main() -> None:
        async with agency() as (address, agents):
            before = open_descriptors()
            joining = asyncio.ensure_future(_join_world(address, tls="off"))
            agent = await agents.get()
            await agent.shake_hands()
            await agent.start()
            world = await joining
            assert await world.sendrecv("me", dest=0, source=0) == "me"
            ending = asyncio.ensure_future(_finalize(world))
            await agent.hear(control.Finalize)
            assert not ending.done()
            agent.say(control.Finalized())
            await agent.end()
            await ending
            assert open_descriptors() == before

    run(main())


def test_the_engine_knows_the_universe(run: Run) -> None:
    identifier = bytes(16)
    universe = SoloJob(ClientPart((HostPart(identifier, 1, (ProcPart(identifier, 7),)),), tagub=40000)).universe

    async def main() -> None:
        async with agency() as (address, agents):
            runtime = Runtime(
                AsyncioDriver(), Contact(f"tcp:{address}", bytes.fromhex(KEY), 0, launched=False), IN_CLEAR
            )
            starting = runtime.start()
            agent = await agents.get()
            await agent.shake_hands()
            await agent.start(universe=universe.pack())
            await starting
            assert runtime.engine.universe == universe
            runtime.close()
            await agent.end()

    run(main())


async def _finalize(world: aiompi.World) -> None:
    await world.finalize()


@pytest.mark.parametrize("message", [control.Abort(9, "rank 1 failed"), None], ids=["Abort", "end"])
def test_job_that_ends_early(run: Run, message: control.Message | None) -> None:
    """Pending and later operations fail with the cause, and the process gets the exit status."""
    cause = "rank 1 failed" if message else "the job ended: the launcher is gone"

    async def main() -> None:
        async with agency() as (address, agents):
            runtime = Runtime(
                AsyncioDriver(), Contact(f"tcp:{address}", bytes.fromhex(KEY), 0, launched=False), IN_CLEAR
            )
            codes: list[int] = []
            runtime.on_end = codes.append
            starting = runtime.start()
            agent = await agents.get()
            await agent.shake_hands()
            await agent.start(size=2)
            await starting
            world = aiompi.World(runtime, runtime.world)
            pending = [world.irecv(source=1), world.irecv(tag=5), world.barrier(), world.isend(bytes(10**6), dest=0)]
            agent.say(*([message] if message else []))
            await agent.close()
            for request in pending:
                with pytest.raises(JobAbortedError, match=cause):
                    await request
            for call in (lambda: world.isend("x", dest=0), lambda: world.irecv(tag=5), world.finalize):
                with pytest.raises(JobAbortedError, match=cause):
                    await call()
            assert codes == [9 if message else 1]

    run(main())


def test_messages_to_the_agent_leave_at_once(run: Run, site: Site) -> None:
    """Also those that follow another one, which TCP would keep until that was acknowledged, for 40 ms."""
    job, address = site.serve(1)

    async def main() -> None:
        world = await _join_world(address)
        assert world._runtime.agent._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await world.finalize()

    run(main())
    assert job.finish().code == 0


def test_connection_that_breaks_while_both_ranks_live(run: Run, site: Site) -> None:
    """One of them is expelled, so that all see the same; it is told, and can speak no more."""
    job, address = site.serve(3)

    async def main() -> None:
        joining = (_join_world(address, transports=("tcp",)) for _ in range(3))
        first, second, third = sorted(await asyncio.gather(*joining), key=lambda world: world.rank)
        await asyncio.gather(first.send("connects", dest=1), second.recv())
        waiting, waiting_for_anybody = first.irecv(source=1), first.irecv()
        (link,) = (link for transport in second._runtime.wiring.transports for link in getattr(transport, "links", ()))
        link._socket.shutdown(socket.SHUT_RDWR)
        for receive in (waiting, waiting_for_anybody):
            with pytest.raises(ProcessFailedError, match="rank 1 is gone: has lost its link to rank 0: its connection"):
                await receive
        with pytest.raises(ProcessFailedError, match="rank 1 is gone"):
            await third.recv(source=1)
        for sender in (first, third):
            with pytest.raises(ProcessFailedError, match="rank 1 is gone"):
                await sender.recv(source=1)  # until this rank has heard of it, too
            with pytest.raises(ProcessFailedError, match="rank 1 is gone"):
                await sender.send("more", dest=1)
        for call in (second.barrier, lambda: second.send("more", dest=2), lambda: second.recv(2)):
            with pytest.raises(JobAbortedError, match="rank 1 was expelled from the job because it has lost its link"):
                await call()
        smaller = await asyncio.gather(first.Shrink(), third.Shrink())
        assert await asyncio.gather(*(comm.allgather(comm.rank) for comm in smaller)) == [[0, 1]] * 2
        await asyncio.gather(first.finalize(), third.finalize())

    run(main())
    assert job.finish().code == 0


def test_connection_that_breaks_ends_a_job_that_does_not_survive(run: Run, site: Site) -> None:
    job, address = site.serve(2, "--on-failure=abort")

    async def main() -> None:
        worlds = await asyncio.gather(*(_join_world(address, transports=("tcp",)) for _ in range(2)))
        first, second = sorted(worlds, key=lambda world: world.rank)
        await asyncio.gather(first.send("connects", dest=1), second.recv())
        (link,) = (link for transport in second._runtime.wiring.transports for link in getattr(transport, "links", ()))
        link._socket.shutdown(socket.SHUT_RDWR)
        for world in worlds:
            with pytest.raises(JobAbortedError, match="has lost its link to rank 0: its connection"):
                await world.barrier()

    run(main())
    result = job.finish()
    assert (result.code, result.err[:57]) == (1, "aiompi-launch: rank 1 has lost its link to rank 0: its co")


def test_a_rank_whose_job_has_ended_is_let_go_of(run: Run, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by the timer of a link that broke, in a service whose event loop goes on."""
    monkeypatch.setattr("aiompi.job.failure_detector._SUSPECT", 30.0)
    job, address = site.serve(2)

    def engines() -> int:
        return sum(type(each) is Engine for each in gc.get_objects())

    gc.collect()
    before = engines()

    async def main() -> None:
        worlds = await asyncio.gather(*(_join_world(address, transports=("tcp",)) for _ in range(2)))
        first, second = sorted(worlds, key=lambda world: world.rank)
        await asyncio.gather(first.send("connects", dest=1), second.recv())
        (link,) = (link for transport in second._runtime.wiring.transports for link in getattr(transport, "links", ()))
        link._socket.shutdown(socket.SHUT_RDWR)
        while not first._runtime.wiring.detector.verdicts:
            await asyncio.sleep(0.01)
        with contextlib.suppress(JobAbortedError):
            second.Abort(4)
        with contextlib.suppress(JobAbortedError):
            await first.irecv(source=1)
        assert engines() == before + 2
        del worlds, first, second, link
        await asyncio.sleep(0)
        gc.collect()
        assert engines() == before

    run(main())
    assert job.finish().code == 4


@pytest.mark.parametrize("face", FACES)
def test_collectives_of_ranks_without_access_to_the_installation(site: Site, face: str) -> None:
    """By chroot, or because it was removed: these read nothing any more."""
    body = """
    def refuse(event, args):
        if event in ("open", "import") and started:
            os._exit(5)
    sys.addaudithook(refuse)
    started = False
    await comm.sendrecv(None, 1 - comm.rank, source=1 - comm.rank)
    started = True
    await comm.Barrier()
    total = await comm.allreduce(comm.rank)
    started = False
    print(total)
    """
    assert site.ok(2, in_face(face, body)).lines == ["1", "1"]


def test_ranks_of_a_local_world_share_nothing_but_the_hub() -> None:
    runtimes = local_runtimes(3, AsyncioDriver(), Settings(eager_limit=7))
    assert [runtime.engine.rank for runtime in runtimes] == [0, 1, 2]
    assert {runtime.engine.size for runtime in runtimes} == {3}
    assert {runtime.settings.eager_limit for runtime in runtimes} == {7}
    assert not any(runtime.launched for runtime in runtimes)
    assert [runtime.self_comm.size for runtime in runtimes] == [1, 1, 1]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"AIOMPI_KEY": KEY, "AIOMPI_RANK": "3"}, None),
        (
            {"AIOMPI_CONTROL": "unix:/run/job/control", "AIOMPI_KEY": KEY, "AIOMPI_RANK": "3"},
            Contact("unix:/run/job/control", bytes.fromhex(KEY), 3, launched=True),
        ),
        (
            {"AIOMPI_CONTROL": "tcp:[::1]:77", "AIOMPI_KEY": KEY},
            Contact("tcp:[::1]:77", bytes.fromhex(KEY), hello.RANK_ANY, launched=True),
        ),
    ],
    ids=["none", "no address", "launched", "any rank"],
)
def test_contact_from_the_environment(environ: dict[str, str], expected: Contact | None) -> None:
    contact = Contact.from_environ(Settings(), environ)
    assert contact == expected
    assert contact is None or KEY not in repr(contact)
    if contact is not None:
        assert contact.local == contact.address.startswith("unix:")


def test_targets() -> None:
    key = bytes.fromhex(KEY)
    assert Contact("unix:/a:b", key, 0, launched=True).target() == "/a:b"
    assert Contact("tcp:host:77", key, 0, launched=True).target() == ("host", 77)
    assert Contact("tcp:[::1]:77", key, 0, launched=True).target() == ("::1", 77)
    for address in (
        "tcp:host",
        "udp:host:77",
        "",
        "tcp:host:x",
        "tcp::77",
        "tcp:host:0",
        "tcp:host:65536",
        "tcp:host:²",
    ):
        with pytest.raises(aiompi.InvalidArgumentError, match="expected HOST:PORT"):
            Contact(address, key, 0, launched=True).target()


# Spinning.


@pytest.mark.parametrize(
    ("spin", "hosts", "cores", "throttled", "seconds", "uncrowded"),
    [
        (None, ["here"], 1, False, 500e-6, True),
        (None, ["here", "there", "here"], 2, True, 500e-6, True),
        (None, ["here", "there", "here"], 1, False, 500e-6, False),
        (None, ["here", "there", "here"], 1, True, 0.0, False),
        (None, ["here"] * 8, 2, False, 500e-6, False),
        (0.0, ["here"], 8, False, 0.0, True),
        (1e-3, ["here"] * 8, 2, True, 1e-3, False),
    ],
)
def test_ranks_spin_unless_their_time_is_missing_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
    spin: float | None,
    hosts: list[str],
    cores: int,
    throttled: bool,
    seconds: float,
    uncrowded: bool,
) -> None:
    monkeypatch.setattr("aiompi.job.start.cores", lambda: cores)
    monkeypatch.setattr("aiompi.job.start.throttled", lambda: throttled)
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    driver = AsyncioDriver()
    runtime = Runtime(driver, settings=Settings(spin=spin))
    cards: list[Any] = [{"window": 1, "host": host, "transports": {}} for host in hosts]
    share_cores(runtime, cards)
    assert (driver._spin.seconds, driver._spin.yields_core) == (seconds, not uncrowded)
