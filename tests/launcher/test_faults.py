"""Jobs that end badly: the cause is named, nobody hangs, and nothing is left behind.

That nothing is left of the directory is checked after every test by the fixture `launch`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiompi.errors import failure
from aiompi_launcher.job.rendezvous import ServerInMemory
from aiompi_launcher.job.supervisor import Supervisor
from aiompi_launcher.job.table import Job
from support.jobs import NEAREST
from support.limits import LIMIT

UP = ["join", "card", "cards"]


def test_exit_status_of_a_rank(launch, rank):
    """The last lines of stderr are not shown twice."""
    result = launch("-n", "2", rank, *UP, "1:err=ouch", "1:exit=3", "aborted")
    assert result.returncode == 3
    assert result.stderr.splitlines() == ["ouch", "aiompi-launch: rank 1 exited with status 3"]
    assert result.stdout in ("rank 0 was told: rank 1 exited with status 3\n", "")


def test_the_last_lines_of_stderr_are_repeated_when_others_wrote_in_between(launch):
    script = "test $AIOMPI_RANK = 0 && { echo first >&2; read _; exit 4; }; echo noise >&2; sleep 100"
    running = launch.start("-n", "2", "sh", "-c", script, stdin=-1)
    assert {running.error_line(), running.error_line()} == {"first", "noise"}
    result = running.end()
    assert result.returncode == 4
    lines = result.stderr.splitlines()
    assert lines[0] == "aiompi-launch: rank 0 exited with status 4"
    assert lines[1:] in ([], ["aiompi-launch: the last lines of stderr of rank 0:", "    first"])


def test_the_last_lines_of_stderr_come_from_the_file(launch, tmp_path: Path):
    script = "for i in $(seq 100); do echo line $i >&2; done; exit 1"
    result = launch("--output-dir", str(tmp_path), "sh", "-c", script)
    lines = result.stderr.splitlines()
    assert lines[:2] == [
        "aiompi-launch: rank 0 exited with status 1",
        "aiompi-launch: the last lines of stderr of rank 0:",
    ]
    assert lines[2:] == [f"    line {number}" for number in range(81, 101)]


def test_the_verdict_on_a_rank_that_cannot_join_names_the_cause(launch, rank, tmp_path: Path):
    joined = tmp_path / "joined"
    other = f"exec {sys.executable} {rank} join print=joined aborted >{joined}"
    for words, end in (
        ([], f"AIOMPI_CONTROL=unix:/nowhere exec {sys.executable} {rank} join"),
        (["--output-dir", str(tmp_path / "out")], "echo FileNotFoundError: >&2; exit 1"),
    ):
        joined.write_text("")
        script = f"until [ -s {joined} ]; do sleep 0.01; done; {end}"
        result = launch(*words, "sh", "-c", other, ":", "sh", "-c", script)
        assert result.returncode == 1
        verdict = "aiompi-launch: rank 1 exited with status 1 before it had joined the job: FileNotFoundError:"
        assert verdict in result.stderr


def test_the_verdict_on_an_exception_whose_text_is_odd(launch):
    result = launch(
        sys.executable, "-c", "from aiompi.MPI import COMM_WORLD\nCOMM_WORLD.rank\nraise ValueError('z' * 10**7)"
    )
    assert result.returncode == 1
    assert f"aiompi-launch: rank 0 failed: ValueError: {'z' * 4096}...\n" in result.stderr
    silent = type("Silent", (Exception,), {"__str__": lambda self: 5})
    assert failure(silent()) == "failed: Silent: <its text cannot be made>"


def test_the_verdict_on_a_rank_that_fails_while_it_joins(launch):
    script = "from aiompi.MPI import COMM_WORLD as comm; comm.rank"
    variables = {"AIOMPI_BIND": "256.1.1.1", "AIOMPI_TRANSPORTS": "tcp"}
    result = launch("-n", "2", sys.executable, "-c", script, env=variables)
    assert result.returncode == 1
    failure = r"rank \d failed: InvalidArgumentError: this rank cannot listen at '256.1.1.1' \(AIOMPI_BIND\)"
    assert re.search(f"aiompi-launch: {failure}", result.stderr)


def test_a_rank_that_closes_its_connection_and_lives_on(launch, rank):
    result = launch("-n", "2", rank, *UP, "1:hangup", "1:pause", "aborted")
    assert result.returncode == 1
    assert "rank 1 closed its connection to the launcher without calling Finalize" in result.stderr


def test_strangers_on_the_control_socket(launch, rank, home: Path):
    running = launch.start(rank, *UP, "print=up", "read", "finalize", "finalized", stdin=-1)
    assert running.line() == "up"
    (contact,) = home.glob("aiompi-*/control")
    with contextlib.ExitStack() as stack:
        for data in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 1_000_000, b"aiompi\0\1" + b"\xff" * 500):
            stranger = stack.enter_context(socket.socket(socket.AF_UNIX))
            stranger.settimeout(LIMIT)
            stranger.connect(str(contact))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                stranger.sendall(data)
                while data and stranger.recv(4096):
                    pass
        result = running.end()
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-n", "2", "no-such-program"), 127, "no-such-program: "),
        (("-n", "2", "no/such.py"), 127, "no/such.py: No such file or directory\n"),
        (("-n", "2", "/etc/passwd"), 126, "/etc/passwd: Permission denied\n"),
        (("--wdir", "/no/such", "true"), 127, " /no/such: No such file or directory\n"),
    ],
)
def test_a_program_that_cannot_be_started(launch, words: tuple[str, ...], code: int, said: str):
    result = launch("-n", "1", "sleep", "100", ":", *words)
    assert result.returncode == code
    assert result.stderr.startswith("aiompi-launch: rank 1 cannot be started: ")
    assert said in result.stderr


def test_an_output_directory_that_cannot_be_made(launch):
    result = launch("--output-dir", "/dev/null/x", "true")
    assert (result.returncode, result.stderr) == (1, "aiompi-launch: /dev/null/x: Not a directory\n")


def test_timeout(launch):
    result = launch("-n", "2", "--timeout", "0.2", "sleep", "100")
    assert result.returncode == 124
    assert "longer than 0.2 s" in result.stderr


def test_a_signal_is_passed_on(launch):
    script = f"trap 'echo caught; exit 0' {signal.SIGHUP}; echo up; sleep 100 & wait"
    running = launch.start("-n", "2", "sh", "-c", script)
    assert [running.line(), running.line()] == ["up", "up"]
    running.signal(signal.SIGHUP)
    result = running.end()
    assert (result.returncode, result.stdout) == (129, "caught\ncaught\n")
    assert "aiompi-launch" not in result.stderr


def test_signals_of_users_are_for_the_ranks_and_keep_their_order(launch):
    """The lower number first, as the system does. The event loop of the launcher gets them in any order."""
    program = """
import signal, time
came = []
for each in signal.SIGUSR1, signal.SIGUSR2:
    signal.signal(each, lambda number, frame: came.append(number))
print("up", flush=True)
for _ in range(5):
    while len(came) < 2:
        time.sleep(0.001)
    both = came[:]
    came.clear()  # before the next two may come
    print(*both, flush=True)
"""
    running = launch.start("-n", "1", sys.executable, "-c", program)
    assert running.line() == "up"
    for _ in range(5):
        for signum in signal.SIGSTOP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT:
            running.signal(signum)
        assert running.line() == f"{int(signal.SIGUSR1)} {int(signal.SIGUSR2)}"
    assert running.end().returncode == 0


def test_a_second_signal_kills(launch):
    running = launch.start("-n", "2", "sh", "-c", "trap 'echo caught' INT; echo up; while :; do sleep 9 & wait; done")
    assert [running.line(), running.line()] == ["up", "up"]
    running.signal(signal.SIGINT)
    assert [running.line(), running.line()] == ["caught", "caught"]
    running.signal(signal.SIGINT)
    assert running.end().returncode == 130


def test_ranks_tidy_up_after_an_interrupt(launch):
    program = """
import time
from aiompi import MPI
comm = MPI.COMM_WORLD
try:
    comm.Barrier()
    print("up", flush=True)
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    pass
finally:
    time.sleep(0.3 * comm.rank)
    print("saved", comm.rank, flush=True)
raise SystemExit(1)
"""
    running = launch.start("-n", "2", sys.executable, "-c", program)
    assert [running.line(), running.line()] == ["up", "up"]
    running.signal(signal.SIGINT)
    result = running.end()
    assert (result.returncode, sorted(result.stdout.splitlines())) == (130, ["saved 0", "saved 1"])


def test_an_ignored_hangup_stays_ignored(launch):
    script = "import signal as s, sys; s.signal(s.SIGHUP, s.SIG_IGN); from aiompi_launcher.cli import main; main()"
    running = launch.start("sh", "-c", "echo up; read _; echo down", program=f"-c {script}", stdin=-1)
    assert running.line() == "up"
    running.signal(signal.SIGHUP)
    assert running.end().stdout == "down\n"


def test_grandchildren_die_with_a_failed_rank(launch, is_gone, wait_until):
    running = launch.start("sh", "-c", "read _; exit 1", ":", "sh", "-c", "sleep 1000 & echo $!; wait", stdin=-1)
    pid = int(running.line())
    assert running.end().returncode == 1
    wait_until(lambda: is_gone(pid), "the process of the other rank has ended")


def test_a_signal_to_a_failed_job_kills_what_ignores_sigterm(launch):
    stubborn = "trap 'echo ignored' TERM; echo up; while :; do sleep 9 & wait; done"
    running = launch.start("--stdin", "1", "sh", "-c", stubborn, ":", "sh", "-c", "read _; exit 5", stdin=-1)
    assert running.line() == "up"
    running.process.stdin.write("\n")
    running.process.stdin.flush()
    assert running.line() == "ignored"
    running.signal(signal.SIGINT)
    assert running.end().returncode == 5


def test_a_launcher_that_is_killed_with_its_process_group_leaves_nothing_behind(
    launch, home: Path, is_gone, wait_until
):
    running = launch.start("-n", "2", "sh", "-c", "echo $$; sleep 100 & echo $!; exec sleep 100", process_group=0)
    pids = [int(running.line()) for _ in range(4)]
    os.killpg(running.process.pid, signal.SIGKILL)
    running.process.wait(LIMIT)
    wait_until(lambda: all(map(is_gone, pids)), "all processes of the job have ended")
    wait_until(lambda: not list(home.iterdir()), "the directory is gone")


@pytest.fixture
def odd(home: Path) -> Iterator[str]:
    """A runtime directory whose name is not UTF-8."""
    path = os.path.join(os.fsencode(home), b"\xff")
    os.mkdir(path)
    yield os.fsdecode(path)
    os.rmdir(path)


JOIN = """
import asyncio, os, aiompi
async def main():
    async with aiompi.init(os.environ["ADDRESS"]) as comm:
        print(comm.size)
asyncio.run(main())
"""
RING = """
from aiompi.MPI import COMM_WORLD as comm
print(comm.sendrecv(comm.rank, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size))
"""


@pytest.mark.skipif(os.system("unshare -n true 2>/dev/null") != 0, reason="network namespaces are not allowed")
def test_an_interface_that_is_down_is_named_at_once(launch):
    """Each rank is in a network of its own, whose loopback interface is down."""
    env = {"AIOMPI_TRANSPORTS": "tcp,loopback"}
    result = launch("-n", "2", "--timeout", str(LIMIT), "unshare", "-n", sys.executable, "-c", RING, env=env)
    assert result.returncode == 1
    assert ": Network is unreachable: is the network interface up?" in result.stderr


def test_a_temporary_directory_whose_name_is_not_utf8(launch, odd: str, tmp_path: Path):
    program = tmp_path / "ring.py"
    program.write_text(RING)
    env = {"XDG_RUNTIME_DIR": odd, "AIOMPI_TRANSPORTS": f"{NEAREST},loopback"}
    result = launch("-n", "2", "--timeout", str(LIMIT), str(program), env=env)
    assert (result.returncode, result.stderr, sorted(result.stdout)) == (0, "", ["\n", "\n", "0", "1"])


def test_served_ranks_find_a_key_in_a_directory_whose_name_is_not_utf8(launch, odd: str):
    served = launch.start("--serve", "1", env={"XDG_RUNTIME_DIR": odd}, errors="surrogateescape")
    variable, _, path = served.error_line().partition(": ")[2].partition("=")
    rank = launch.start(program=f"-c {JOIN}", env={variable: path, "ADDRESS": served.line()}).end()
    assert (rank.returncode, rank.stdout, rank.stderr) == (0, "1\n", "")
    assert served.end().returncode == 0


@pytest.mark.parametrize("native", ["0", "1"])
def test_clients_in_directories_whose_names_are_not_utf8(launch, odd: str, native: str):
    env = {"IMPI_AUTH_KEY": "1", "AIOMPI_IMPI_NATIVE": native, "XDG_RUNTIME_DIR": odd}
    env["AIOMPI_TRANSPORTS"] = "unix,loopback"
    server = launch.start("--server", "2", env=env)
    address = server.line()
    words = (sys.executable, "-c", RING)
    clients = [
        launch.start("--client", str(rank), address, "--bind", f"127.0.0.{rank + 1}", *words, env=env)
        for rank in range(2)
    ]
    for client, received in zip(clients, ("1\n", "0\n"), strict=True):
        result = client.end()
        assert (result.returncode, result.stderr, result.stdout) == (0, "", received)
    assert server.end().returncode == 0


@pytest.mark.parametrize(
    "place",
    [
        "aiompi.impi.server.ServerConnection.receive_data",
        "aiompi.impi.client.Client.receive_data",
        "aiompi_launcher.impi.host.HostAgent._open_link",
        "aiompi_launcher.impi.hosts.ImpiHosts.connect",
    ],
)
def test_an_exception_in_a_task_of_a_launcher_ends_the_job_with_that_cause(launch, place: str):
    module, cls, name = place.rsplit(".", 2)
    script = f"import {module} as m; m.{cls}.{name} = lambda *args: 1 // 0; from aiompi_launcher.cli import main"
    broken = {"program": f"-c {script}; raise SystemExit(main())"}
    env = {"IMPI_AUTH_KEY": "1", "AIOMPI_IMPI_NATIVE": "0"}
    at_server = ".server." in place
    server = launch.start("--server", "2", env=env, **(broken if at_server else {}))
    client = ("--client", "0", server.line())
    words = (sys.executable, "-c", RING) if ".host." in place else ("sleep", "100")
    running = [server, launch.start(*client, *words, env=env, **({} if at_server else broken))]
    if ".client." in place:
        running[1].process.wait(LIMIT)
        server.signal(signal.SIGTERM)  # it waits for a client in place of the one that has not joined
    elif not at_server:
        running.append(launch.start("--client", "1", client[2], "sleep", "100", env=env))
    ends = [each.end() for each in running]
    said = ends[0 if at_server else 1].stderr
    assert "internal error of the" in said
    assert "ZeroDivisionError('integer division or modulo by zero')" in said
    assert ends[0].returncode == 1 or not at_server
    assert {end.returncode for end in ends[1:]} == {1}


def test_an_exception_in_a_callback_of_the_supervisor_ends_the_job():
    async def main() -> int:
        supervisor = Supervisor(Job(1, directory="", spawned=True), "test")
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        assert await supervisor.meet(ServerInMemory(1))
        return await asyncio.wait_for(supervisor.finish(), LIMIT)

    assert asyncio.run(main()) == 1


def test_no_rank_is_started_once_the_job_has_ended():
    """The process that has spawned this job is gone before the first rank is started."""

    async def main() -> int:
        supervisor = Supervisor(Job(1, directory="", spawned=True), "test")
        assert await supervisor.meet(ServerInMemory(1))
        lifeline, theirs = socket.socketpair()
        lifeline.close()
        supervisor.answer_to(theirs, only=True)
        await asyncio.sleep(0.01)
        await supervisor.start(1 // 0 for _ in range(1))
        return await asyncio.wait_for(supervisor.finish(), LIMIT)

    assert asyncio.run(main()) == 128 + signal.SIGTERM


def test_a_launched_rank_waits_for_a_launcher_that_is_slow(launch):
    program = "from aiompi import MPI; print(MPI.COMM_WORLD.size)"
    script = f'kill -STOP $PPID; (sleep 3; kill -CONT $PPID) & exec {sys.executable} -c "{program}"'
    result = launch("-n", "1", "sh", "-c", script, env={"AIOMPI_CONNECT_TIMEOUT": "0.2"})
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")


SERVICE = """
import aiompi
async def app(scope, receive, send):
    await receive()
    try:
        async with aiompi.init() as world:
            print("rank", world.rank, flush=True)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
    except aiompi.MPIError as error:
        await send({"type": "lifespan.startup.failed", "message": str(error)})
"""
ADVICE = "let each be a member of a job that is open: aiompi-launch --serve, and aiompi.join"


def test_uvicorn_that_starts_another_worker(launch, tmp_path: Path, wait_until):
    """One beside the rank is told what to do."""
    (tmp_path / "service.py").write_text(SERVICE)
    errors, output = tmp_path / "errors", tmp_path / "output"
    words = ("-m", "uvicorn", "--port", "0", "--workers", "2", "service:app")
    with errors.open("w") as stderr, output.open("w") as stdout:
        running = launch.start(
            "-n", "1", "--timeout", str(LIMIT), "--wdir", str(tmp_path), *words, stderr=stderr, stdout=stdout
        )
    wait_until(lambda: "rank 0" in output.read_text(), "a worker has started")
    wait_until(lambda: ADVICE in errors.read_text(), "a second worker has been told what to do")
    running.signal(signal.SIGTERM)
    running.end()
    assert "Traceback" not in errors.read_text()
