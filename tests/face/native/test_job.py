"""How an application gets its world, and gives it back: `run`, `init`, `join`, `local_world`, `finalize`, `Abort`."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import aiompi
from aiompi import AuthenticationError, InvalidArgumentError, JobAbortedError, Settings
from aiompi.net.interfaces import listen
from support.jobs import KEY, NEAREST, Site, in_face
from support.limits import LIMIT
from support.worlds import open_descriptors

pytestmark = pytest.mark.usefixtures("no_job")

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]

OTHER_KEY = bytes(range(1, 17)).hex()
#: for what no event loop handles in a way of its own
IN_ASYNCIO = pytest.mark.parametrize("run", ["asyncio"], indirect=True)


def test_run_without_launcher() -> None:
    """A job of one rank; what main returns is the result, what it raises comes out."""

    async def main(world: aiompi.World) -> tuple[int, int, list[str], str]:
        receive = world.irecv()
        await world.send("me", dest=0)
        return world.rank, world.size, await world.allgather("x"), await receive

    assert aiompi.run(main) == (0, 1, ["x"], "me")

    async def fails(world: aiompi.World) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        aiompi.run(fails)
    with pytest.raises(TypeError, match=r"aiompi\.run: .* is no `async def` function: it returned 1"):
        aiompi.run(lambda world: 1)  # type: ignore[arg-type, return-value]


@IN_ASYNCIO
@pytest.mark.parametrize("end", ["finalize", "leave"])
def test_attributes_of_comm_self_are_deleted_first(run: Run, end: str) -> None:
    """MPI-2, section 4.8: libraries clean up with communication still possible, the latest attribute first."""
    calls: list[Any] = []

    def delete(comm: aiompi.Intracomm, keyval: int, value: str) -> None:
        calls.append((comm, value, comm.isend(value, dest=0).done()))

    async def main() -> None:
        world = await aiompi.init()
        for value in ("first", "second"):
            world.COMM_SELF.Set_attr(aiompi.Intracomm.Create_keyval(delete_fn=delete), value)
        own = world.COMM_SELF
        await getattr(world, end)()
        assert calls == [(own, "second", True), (own, "first", True)]

    run(main())


@IN_ASYNCIO
def test_a_failing_callback_of_comm_self_ends_nothing(run: Run) -> None:
    async def main() -> None:
        world = await aiompi.init()
        world.COMM_SELF.Set_attr(aiompi.Intracomm.Create_keyval(delete_fn=lambda *_: 1 / 0), None)
        with pytest.raises(aiompi.MPI.OtherError, match="division by zero"):
            world.finalize()
        assert await world.COMM_SELF.sendrecv("still here", dest=0) == "still here"
        await world.finalize()

    run(main())


@pytest.mark.spec("S7.5-1", "S7.5-4")
def test_init_in_a_running_loop(run: Run) -> None:
    """Not `run`; several at once are several jobs."""

    async def main() -> None:
        before = open_descriptors()
        with pytest.raises(aiompi.BlockingCallError, match=r"use `async with aiompi.init\(\) as world`"):
            aiompi.run(lambda world: world.Barrier())
        async with aiompi.init(settings=Settings(eager_limit=100)) as world, aiompi.init() as other:
            lost = other.irecv()
            assert await world.sendrecv(b"x" * 1000, dest=0, source=0) == b"x" * 1000
            assert not lost.done()
            lost.cancel()
        with pytest.raises(aiompi.LocalProtocolError, match="has finalized"):
            await world.send("late", dest=0)
        with pytest.raises(aiompi.LocalProtocolError, match="Finalize was called before"):
            await world.finalize()
        world = await aiompi.init()
        await world.finalize()
        assert open_descriptors() == before

    run(main())


def test_a_program_joins_its_job_again_only_after_it_has_finalized(site: Site) -> None:
    """In an event loop of its own or of `run`. With a launcher; of its own a process may have any number of jobs."""
    program = site.program("""
import asyncio, os, subprocess, sys
import aiompi
from aiompi import MPI

again = sys.executable, __file__, "again"

async def of_init():
    async with aiompi.init() as world:
        assert (world.rank, world.size) == (int(os.environ.get("AIOMPI_RANK", 0)), int(sys.argv[1]))
        return await world.allreduce(world.rank + 1)

async def of_run(world, *words):
    if world.rank == 0:
        world.isend(words, dest=world.size - 1)  # it arrives, although it is not awaited before its sender has ended
        if world.size > 1:
            return "sender"
    return await world.recv(source=0)

async def starts(world):
    if world.rank == 0 and world.size > 1:
        print(subprocess.run(again, capture_output=True, text=True).stderr, end="")

if sys.argv[1] == "again":
    aiompi.run(starts)
print(asyncio.run(of_init()))
print(aiompi.run(of_run, "a", 2))
aiompi.run(starts)
MPI.COMM_WORLD.Get_rank()
try:
    print(aiompi.run(of_run, "alone"))
except aiompi.JobAbortedError as error:
    print(error)
MPI.COMM_WORLD.Barrier()
""")
    job = site.launch("-n", "2", program, "2").finish()
    assert (job.code, job.err) == (0, "")
    refused = [line for line in job.lines if "already" in line]
    assert [line for line in job.lines if "already" not in line] == ["('a', 2)", "3", "3", "sender"]
    assert sum("this process is rank" in line and "a program joins its job by" in line for line in refused) == 2
    assert sum(line.startswith("aiompi: rank 0 has joined already; a pro") for line in refused) == 1
    alone = site.start(sys.executable, program, "1").finish()
    assert (alone.code, alone.out, alone.err) == (0, "1\n('a', 2)\n('alone',)\n", "")


def test_a_server_that_reloads_its_worker(site: Site) -> None:
    """As `uvicorn --reload` does: a process that is no rank itself starts one rank after the other in its place."""
    program = """
import subprocess, sys, aiompi

async def main(world):
    print(await world.allreduce(1), flush=True)

if len(sys.argv) > 1:
    aiompi.run(main)
else:
    for _ in range(2):
        subprocess.run([sys.executable, __file__, "worker"], check=True)
"""
    assert site.ok(2, program).lines == ["2"] * 4


def test_finalize_with_a_time_limit_leaves_without_the_others(site: Site) -> None:
    """Whatever it waits for: for nothing but the others, for a message of its own, or for a collective."""
    job, address = site.serve(4)
    limits = [0.1, 0.2, 0.3]

    async def leaves(number: int) -> tuple[bool, bool]:
        world = await aiompi.init(address, KEY, rank=number)
        if number == 0:
            world.ibarrier()
        elif number == 1:
            world.isend(bytes(10_000_000), dest=3)
        begun = time.monotonic()
        together = await world.finalize(timeout=limits[number])
        with pytest.raises(aiompi.LocalProtocolError):
            await world.send(1, dest=3)
        return together, time.monotonic() - begun > 0.75 * limits[number]

    async def main() -> None:
        stays = asyncio.ensure_future(_join(address, 3))
        left = await asyncio.gather(*map(leaves, range(3)))
        assert await (await stays).finalize(timeout=LIMIT)
        assert left == [(False, True)] * 3

    asyncio.run(main())
    assert job.finish().code == 0


@IN_ASYNCIO
def test_local_world(run: Run) -> None:
    """It has settings, too. Abort ends a rank with an exception, which tasks that wait get as well."""
    with pytest.raises(InvalidArgumentError, match="at least one"):
        aiompi.local_world(0)

    class Unknown:
        pass

    async def main() -> None:
        worlds = [aiompi.local_world(size, settings=Settings(pickle=False)) for size in (1, 2, 9)]
        for world in worlds:
            size = len(world)
            assert await asyncio.gather(*(comm.allreduce(1) for comm in world)) == [size] * size
        world = worlds[1]
        with pytest.raises(aiompi.MPI.InvalidTypeError):
            world[0].isend(Unknown(), dest=1)
        waiting = world[0].irecv()
        with pytest.raises(JobAbortedError, match=r"rank 0 called MPI_Abort\(4\)"):
            world[0].Abort(4)
        with pytest.raises(JobAbortedError):
            await waiting

    run(main())


# Joining.


def test_ranks_in_the_order_of_arrival_or_as_wanted(run: Run, site: Site) -> None:
    """Several ranks in one process and loop, over all transports; nothing stays open."""
    job, address = site.serve(4)
    before = open_descriptors()

    async def rank(wanted: int | None) -> tuple[int, list[int | None]]:
        async with aiompi.init(address, bytes.fromhex(KEY), rank=wanted) as world:
            return world.rank, await world.allgather(wanted)

    async def main() -> list[Any]:
        return await asyncio.gather(*map(rank, (2, None, 3, None)))

    results = run(main())
    assert [number for number, _ in results][::2] == [2, 3]
    assert sorted(number for number, _ in results) == [0, 1, 2, 3]
    assert {str(gathered) for _, gathered in results} == {"[None, None, 2, 3]"}
    result = job.finish()
    assert (result.code, result.err) == (0, "")
    assert open_descriptors() <= before


def test_key_from_the_environment_or_a_file(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the address by number or by name."""
    job, address = site.serve(2)
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")

    async def main() -> list[int]:
        monkeypatch.setenv("AIOMPI_KEY_FILE", str(path))
        first = aiompi.init(address)
        monkeypatch.setenv("AIOMPI_KEY_FILE", "/nonexistent")
        monkeypatch.setenv("AIOMPI_KEY", KEY)
        worlds = await asyncio.gather(first, aiompi.init(address.replace("127.0.0.1", "localhost")))
        await asyncio.gather(*(world.finalize() for world in worlds))
        return [world.size for world in worlds]

    assert asyncio.run(main()) == [2, 2]
    assert job.finish().code == 0


def test_a_key_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    monkeypatch.setenv("AIOMPI_KEY_FILE", str(path))
    with pytest.raises(AuthenticationError, match=f"AIOMPI_KEY_FILE={path} has no key .*: No such file or directory"):
        aiompi.init("127.0.0.1:1")
    path.write_bytes(b"\xff")
    with pytest.raises(AuthenticationError, match="it is no text"):
        aiompi.init("127.0.0.1:1")


@pytest.mark.parametrize("key", [None, "12", "not hexadecimal, although long enough", b"short"])
def test_key_that_is_none(key: str | bytes | None) -> None:
    with pytest.raises(AuthenticationError, match="key") as caught:
        aiompi.init("127.0.0.1:1", key)
    assert "hexadecimal, although" not in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:", "127.0.0.1:http", ""])
def test_address_or_rank_that_is_none(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^'{address}' is no address of a job: expected HOST:PORT"):
        asyncio.run(_join(address, 0))
    with pytest.raises(InvalidArgumentError, match="rank -1"):
        aiompi.init("127.0.0.1:1", KEY, rank=-1)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[Any]], threading.Event]]:
    """Install a resolver that answers when the event is set; what numbers mean the system tells."""
    asked = socket.getaddrinfo
    answer = threading.Event()

    def install(found: list[Any]) -> threading.Event:
        def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> list[Any]:
            if kwargs.get("flags", 0) & socket.AI_NUMERICHOST:
                return asked(host, port, *args, **kwargs)
            assert answer.wait(LIMIT)
            return [(family, socket.SOCK_STREAM, 6, "", (name, port)) for family, name in found]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return answer

    yield install
    answer.set()


@IN_ASYNCIO
def test_every_address_of_a_name_is_tried(
    run: Run, site: Site, resolver: Callable[[list[Any]], threading.Event]
) -> None:
    job, address = site.serve(1)
    refusing = (socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.2")
    resolver([*refusing, (socket.AF_INET, "127.0.0.1")]).set()

    async def main() -> list[str]:
        async with aiompi.init(address.replace("127.0.0.1", "name"), KEY) as world:
            return await world.allgather("x")

    assert run(main()) == ["x"]
    assert job.finish().code == 0
    with pytest.raises(
        JobAbortedError,
        match=r"the job at name:1 cannot be joined: cannot connect to it at \[::1\]:1: .*127\.0\.0\.2:1: \w+",
    ):
        run(_joined("name:1"))


@IN_ASYNCIO
def test_an_address_that_does_not_answer_does_not_keep_the_others_waiting(
    run: Run, resolver: Callable[[list[Any]], threading.Event]
) -> None:
    """The connection request at an address whose backlog is full is not answered, as that to a dead machine."""

    async def main() -> None:
        async with aiompi.serve() as job:
            resolver([(socket.AF_INET, "127.0.0.2"), (socket.AF_INET, "127.0.0.1")]).set()
            port = int(job.address.rpartition(":")[2])
            silent = listen(socket.AF_INET, ("127.0.0.2",), [port])
            silent.listen(0)
            with silent, socket.create_connection(("127.0.0.2", port)):
                async with asyncio.timeout(LIMIT), aiompi.join(f"name:{port}", job.key) as member:
                    assert member.id == 1

    run(main())


async def _joined(address: str, **settings: Any) -> None:
    async with asyncio.timeout(LIMIT):
        await aiompi.init(address, KEY, settings=Settings(**settings))


@IN_ASYNCIO
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("127.0.0.1", r"cannot connect to it at 127\.0\.0\.1:1: .* refused"),
        ("nosuch.invalid", "the name 'nosuch.invalid' cannot be resolved: Name or service not known"),
        ("a" * 70 + ".invalid", r"no host name: .*label"),
    ],
)
def test_where_nobody_serves(run: Run, name: str, cause: str) -> None:
    """It is an error at once."""
    before = open_descriptors()
    with pytest.raises(JobAbortedError, match=f"{name}:1 cannot be joined: .*{cause}"):
        run(_joined(f"{name}:1", connect_timeout=600.0))
    assert open_descriptors() == before


@IN_ASYNCIO
def test_a_resolver_that_does_not_answer(run: Run, resolver: Callable[[list[Any]], threading.Event]) -> None:
    """The loop goes on, the time limit holds, and the end of the loop waits for nothing."""
    before = open_descriptors()
    answer = resolver([])

    async def main() -> None:
        with pytest.raises(JobAbortedError, match="name:1 cannot be joined: no name server has answered in time"):
            await _joined("name:1", connect_timeout=0.1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await aiompi.init("name:1", KEY)

    run(main())
    assert not answer.is_set()
    answer.set()
    for thread in threading.enumerate():
        if thread.name == "aiompi-resolver":
            thread.join()
    assert open_descriptors() == before


def test_ranks_listen_at_the_address_of_a_name(site: Site) -> None:
    program = "print(await comm.sendrecv(comm.rank, 1 - comm.rank))"
    env = {"AIOMPI_TRANSPORTS": "tcp", "AIOMPI_BIND": "localhost"}
    assert site.ok(2, in_face("native", program), env=env).lines == ["0", "1"]
    result = site.run(2, in_face("blocking", program), env={**env, "AIOMPI_BIND": "nosuch.invalid"})
    assert result.code == 1
    cause = "this rank cannot listen at 'nosuch.invalid' (AIOMPI_BIND): the name 'nosuch.invalid' cannot be resolved"
    assert cause in result.err


@pytest.mark.parametrize(
    ("ending", "code", "told"),
    [
        ("sys.exit(True)", 1, "rank 0 exited with status 1"),
        ("raise KeyboardInterrupt", 130, "rank 0 was ended by KeyboardInterrupt (SIGINT)"),
    ],
)
def test_a_task_that_ends_the_program(site: Site, ending: str, code: int, told: str) -> None:
    """Of which the block of the rank hears as a cancellation."""
    program = f"""
import asyncio, sys
import aiompi

async def main(world):
    async def end():
        if world.rank == 0:
            {ending}

    task = asyncio.ensure_future(end())
    await asyncio.sleep(3600)

aiompi.run(main)
"""
    result = site.run(2, program)
    assert result.code == code
    assert told in result.err
    assert "Cancelled" not in result.err


def test_exit_with_status_zero_leaves_in_good_order(site: Site) -> None:
    """Inside `main` and in a callback of the loop, of which `main` hears as a cancellation."""
    program = """
import asyncio, sys, aiompi

async def main(world):
    if world.rank == 1:
        await world.send("last words", dest=0)
        sys.exit()
    print(await world.recv(source=1), flush=True)
    asyncio.get_running_loop().call_soon(sys.exit, 0)
    await asyncio.sleep(3600)

aiompi.run(main)
"""
    assert site.ok(2, program).out == "last words\n"


def test_an_interrupt_of_a_collective_is_seen_by_what_awaits_it_or_ends_the_program(site: Site) -> None:
    program = """
import asyncio
import aiompi

async def main(world):
    def refuse(a, b):
        raise SystemExit(5)

    try:
        await world.allreduce([1], op=refuse)
    except SystemExit as error:
        print(error, flush=True)
    await world.barrier()
    unseen = world.iallreduce([1], op=refuse)
    await asyncio.sleep(3600)
    print("goes on")

aiompi.run(main)
"""
    result = site.run(2, program)
    assert (result.code, result.lines) == (5, ["5", "5"])
    assert "exited with status 5" in result.err
    assert "Cancelled" not in result.err


FORKED = """
import asyncio, os, pathlib, signal, sys, time
import aiompi, uvloop

async def main(address, directory):
    loop = asyncio.get_running_loop()
    async with aiompi.init(address) as world:
        pending = world.irecv(source=1 - world.rank, tag=1)
        await world.sendrecv(bytes(300_000), 1 - world.rank, source=1 - world.rank)
        if world.rank:
            if not os.fork():
                errors = [pending.exception(), world.isend("from the child", dest=0, tag=1).exception()]
                # The loop of uvloop cannot go on in a copy of its process, nor can asyncio's from Python 3.14 on.
                if sys.argv[3] == "asyncio" and sys.version_info < (3, 14):
                    later = loop.create_future()
                    loop.call_later(0.3, later.set_result, None)
                    await later
                (directory / "child").write_text("\\n".join(map(str, errors)))
                while not (directory / "end").exists():
                    time.sleep(0.01)
                os._exit(0)
            await world.send("from the parent", dest=0, tag=1)
            for number in range(100):
                assert await world.recv(source=0, tag=2) == number
            os.kill(os.getpid(), signal.SIGKILL)
        print(await pending)
        for number in range(100):
            await world.send(number, dest=1, tag=2)
            await asyncio.sleep(0.005)
        await world.recv(source=1)

factory = uvloop.new_event_loop if sys.argv[3] == "uvloop" else None
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(main(sys.argv[1], pathlib.Path(sys.argv[2])))
"""


@pytest.mark.parametrize(("loop", "transport"), [("asyncio", "tcp"), ("uvloop", NEAREST)])
def test_a_fork_of_a_rank_is_none_and_does_not_hide_its_end(
    site: Site, tmp_path: Path, loop: str, transport: str
) -> None:
    job, address = site.serve(2, "--on-failure=abort")
    env = {"AIOMPI_KEY": KEY, "AIOMPI_TRANSPORTS": transport}
    words = [sys.executable, site.program(FORKED), address, str(tmp_path), loop]
    ranks = [site.start(*words, env=env) for _ in range(2)]
    assert job.finish().code == 1
    assert len(site.processes()) >= 1, "the copy goes on"
    (tmp_path / "end").touch()
    survivor, killed = sorted((rank.finish() for rank in ranks), key=lambda result: -result.code)
    assert (survivor.code, killed.code) == (1, -signal.SIGKILL)
    assert survivor.lines == ["from the parent"]
    assert "rank 1 closed its connection to the launcher without calling Finalize" in survivor.err
    told = (tmp_path / "child").read_text().splitlines()
    assert len(told) == 2
    assert all(line.startswith("this process was forked from rank 1 and is no rank itself") for line in told)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the copy of a loop cannot go on from Python 3.14 on")
def test_the_loop_of_a_fork_takes_no_message_of_its_parent(site: Site) -> None:
    program = """
import asyncio, os, time
import aiompi

async def main():
    async with aiompi.init() as world:
        loop = asyncio.get_running_loop()
        for number in range(5):
            if world.rank == 0:
                await asyncio.sleep(0.05)  # rank 1 sleeps by now
                await world.send(number, dest=1)
            else:
                assert await world.recv(source=0) == number
                if not os.fork():
                    time.sleep(0.01)  # the parent sleeps by now, and the copy must not say that it is awake
                    later = loop.create_future()
                    loop.call_later(0.05, later.set_result, None)
                    await later
                    os._exit(0)

asyncio.run(main())
print("whole")
"""
    assert site.ok(2, program).lines == ["whole", "whole"]


def test_a_fork_in_a_thread_beside_a_loop_in_debug_mode(site: Site) -> None:
    """The copy has the loop, and no thread of its own for it."""
    program = """
import asyncio, os, threading, warnings
import aiompi

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork beside threads

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60.0
    async with aiompi.init() as world:
        requests = [world.irecv(0, tag) for tag in range(2)]
        tasks = [asyncio.ensure_future(asyncio.wait([request])) for request in requests]
        await asyncio.sleep(0)

        def fork():
            child = os.fork()
            if not child:
                print(*("no rank itself" in str(request.exception()) for request in requests), flush=True)
                os._exit(0)
            os.waitpid(child, 0)

        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        for tag in range(2):
            await world.send(tag, 0, tag)
        print(*[await request for request in requests])

asyncio.run(main(), debug=True)
"""
    assert site.ok(1, program).lines == ["0 1", "True True"]


def test_a_fork_before_the_start_of_a_session(site: Site) -> None:
    program = """
import asyncio, os
import aiompi

session = aiompi.init()

async def main():
    async with session as world:
        print(await world.allreduce(world.rank + 1), flush=True)

child = os.fork()
if not child:
    asyncio.run(main())
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert site.ok(2, program).lines == ["3", "3"]


@IN_ASYNCIO
def test_impatient_joiner(run: Run, site: Site) -> None:
    """A process that has a rank and gives up waiting for the others ends the job, and leaves nothing behind."""
    job, address = site.serve(3)

    async def main() -> None:
        before = open_descriptors()
        other = asyncio.ensure_future(_join(address, 0))
        impatient = aiompi.init(address, KEY, rank=1)
        joining = asyncio.ensure_future(impatient.__aenter__())
        while impatient._scope._runtime.label != "rank 1":
            await asyncio.sleep(0)
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        with pytest.raises(JobAbortedError, match="rank 1 gave up while the job was starting"):
            await other
        assert open_descriptors() == before

    run(main())
    result = job.finish()
    assert result.code == 1
    assert "rank 1 gave up while the job was starting" in result.err


def test_one_that_does_not_join_leaves_its_place_to_another(run: Run, site: Site) -> None:
    """Neither one that gives up before it has a rank nor one with a wrong key ends the job, nor one too many."""
    job, address = site.serve(1)

    async def main() -> None:
        with pytest.raises(JobAbortedError, match="key"):
            await aiompi.init(address, OTHER_KEY)
        await asyncio.to_thread(job.expect, "dropped a connection from 127.0.0.1:")
        before = open_descriptors()
        impatient = aiompi.init(address, KEY)
        joining = asyncio.ensure_future(impatient.__aenter__())
        await asyncio.sleep(0)
        assert impatient._scope._runtime.label == "a process that was about to become a rank"
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        assert open_descriptors() == before
        async with aiompi.init(address, KEY) as world:
            complaints = {
                0: "rank 0 has joined already", 5: "there is no rank 5 in this job", None: "the job is complete",
            }  # fmt: skip
            for rank, complaint in complaints.items():
                with pytest.raises(JobAbortedError, match=complaint):
                    await aiompi.init(address, KEY, rank=rank)
            assert await world.allgather("x") == ["x"]

    run(main())
    assert job.finish().code == 0


async def _join(address: str, rank: int) -> aiompi.World:
    return await aiompi.init(address, KEY, rank=rank)


@IN_ASYNCIO
@pytest.mark.parametrize(
    ("end", "told", "code"),
    [
        ("exception", "rank 1 failed: KeyError: 'lost'", 1),
        ("Abort", "rank 1 called MPI_Abort(9)", 9),
        ("server", "the launcher is gone", -signal.SIGKILL),
    ],
)
def test_end_of_one_service_ends_the_others(run: Run, site: Site, end: str, told: str, code: int) -> None:
    """Of which they are told the cause. They have other things to do: their processes do not end."""
    job, address = site.serve(3, "--on-failure=abort")

    async def rank(number: int) -> None:
        async with aiompi.init(address, KEY, rank=number) as world:
            if number == 1:
                await world.recv(source=0)
                if end == "exception":
                    raise KeyError("lost")
                if end == "Abort":
                    world.Abort(9)
                job.signal(signal.SIGKILL)
            if number == 0:
                await world.send(None, dest=1)
            await world.barrier()

    async def main() -> list[BaseException | None]:
        return await asyncio.gather(*map(rank, range(3)), return_exceptions=True)

    before = open_descriptors()
    errors = run(main())
    if end == "exception":
        assert isinstance(errors.pop(1), KeyError)
    for error in errors:
        assert isinstance(error, JobAbortedError)
        assert str(error).removeprefix("the job ended: ") == told
    result = job.finish()
    assert result.code == code
    assert (told in result.err) is (end != "server")
    assert open_descriptors() <= before


JOINER = """
import asyncio, sys, aiompi

async def main():
    async with aiompi.init(sys.argv[1], rank=1) as world:
        await world.barrier()
        print("ready", flush=True)
        await world.recv()

asyncio.run(main())
"""


@IN_ASYNCIO
def test_killed_joiner(run: Run, site: Site) -> None:
    """The service that waits for it hears of it, and lives on."""
    job, address = site.serve(2, "--on-failure=abort")
    joiner = site.start(sys.executable, site.program(JOINER), address, env={"AIOMPI_KEY": KEY})

    async def main() -> None:
        with pytest.raises(JobAbortedError, match="rank 1 closed its connection to the launcher"):
            async with aiompi.init(address, KEY, rank=0) as world:
                await world.barrier()
                await asyncio.to_thread(joiner.expect, "ready")  # the loop must go on: own messages may not have left
                joiner.signal(signal.SIGKILL)
                await world.recv(source=1)

    run(main())
    result = job.finish()
    assert result.code == 1
    assert "rank 1 closed its connection to the launcher without calling Finalize" in result.err


DEAF_JOINER = """
import asyncio, signal, sys, aiompi

async def main():
    world = await aiompi.init(sys.argv[1], rank=1, settings=aiompi.Settings(eager_window=2**30))
    await world.probe()
    print("ready", flush=True)
    signal.pause()

asyncio.run(main())
"""


@IN_ASYNCIO
def test_end_of_the_job_while_finalize_delivers(run: Run, site: Site) -> None:
    """Finalize waits until everything has left this process; that wait ends, too."""
    job, address = site.serve(2)
    joiner = site.start(sys.executable, site.program(DEAF_JOINER), address, env={"AIOMPI_KEY": KEY})
    settings = Settings(eager_limit=2**20)

    async def main() -> None:
        world = await aiompi.init(address, KEY, rank=0, settings=settings)
        for _ in range(64):
            world.Isend(bytes(2**20 - 1), dest=1)
        finalizing = asyncio.ensure_future(_finalize(world))
        await asyncio.to_thread(joiner.expect, "ready")
        assert not finalizing.done()
        job.signal(signal.SIGKILL)
        with pytest.raises(JobAbortedError, match="the launcher is gone"):
            await finalizing
        joiner.signal(signal.SIGKILL)

    run(main())
    job.finish()


async def _finalize(world: aiompi.World) -> None:
    await world.finalize()
