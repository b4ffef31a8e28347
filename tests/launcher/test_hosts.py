"""Jobs on several hosts: lists of hosts, placement, the tree of agents, and jobs on hosts that are all this machine."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import struct
import sys
from pathlib import Path

import pytest

from aiompi.base import release
from aiompi.errors import InvalidArgumentError
from aiompi.wire import version
from aiompi_launcher.cli import parse
from aiompi_launcher.hosts import agent as agents
from aiompi_launcher.hosts import channel, hostlist, messages, starters
from aiompi_launcher.hosts.hostlist import Host, parse_hosts, place, read_hostfile, slurm_allocation
from aiompi_launcher.hosts.messages import Part
from aiompi_launcher.spec import WIDTH, RunSpec
from aiompi_launcher.start.binding import cpus_of
from support.limits import LIMIT, expires
from support.terminal import Screen

FULL = ("join", "card", "cards", "finalize", "finalized")
LOCAL = ("--starter", "local", "--hosts")


def test_hosts() -> None:
    assert parse_hosts("a:4,b,me@c.example:2,[::1]:3,fe80::1,me@[fe80::2],a") == [
        Host("a", 5), Host("b"), Host("me@c.example", 2), Host("::1", 3), Host("fe80::1"), Host("me@fe80::2"),
    ]  # fmt: skip
    assert parse_hosts("n[1-2,05]:3,m[7]") == [Host("n1", 3), Host("n2", 3), Host("n05", 3), Host("m7")]


@pytest.mark.parametrize(
    "text",
    ["-oProxyCommand=x", "a:0", "a:x", ":3", "a b", "a;b", "$(x)", "", ",", "a[1-", "a[x]", "a]", "a[1-2];b", "a[]"],
)
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"name of a host|no number of slots|names no host|no range|no list"):
        parse_hosts(text)


def test_hostfiles_of_mpich_and_open_mpi(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(
        "# comment\nnode1:2  # MPICH\nnode2 slots=3 max_slots=4\n\nnode3\nnode1:1 binding=x\nnode4:2 user=me\n"
        "node5 slots = 2 count-max=3\nnode6 user-name=me cpu=4\nnode[7-8]\n"
    )
    expected = [Host("node1", 3), Host("node2", 3), Host("node3"), Host("me@node4", 2)]
    expected += [Host("node5", 2), Host("me@node6", 4), Host("node7"), Host("node8")]
    assert read_hostfile(str(path)) == expected
    for word in ("cores=3", "user=-oProxyCommand", "user=a;b", "slots=x", "slots", "port=22"):
        path.write_text(f"node1\nnode2 {word}\n")
        with pytest.raises(InvalidArgumentError, match=rf"hosts, line 2: {word!r}( is none|: name ports)"):
            read_hostfile(str(path))
    path.write_bytes(b"node1  # Z\xfcrich\n")
    assert read_hostfile(str(path)) == [Host("node1")]
    path.write_bytes(b"node1\nZ\xfcrich\n")
    with pytest.raises(InvalidArgumentError, match=r"hosts, line 2: 'Z.udcfcrich' cannot be the name of a host"):
        read_hostfile(str(path))
    path.write_text("\n")
    with pytest.raises(InvalidArgumentError, match="names no host"):
        read_hostfile(str(path))


def test_allocations_of_slurm() -> None:
    given = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_CPUS_PER_NODE": "4(x2),8"}
    assert slurm_allocation(given) == [Host("n1", 4), Host("n2", 4), Host("n3", 8)]
    given |= {"SLURM_NTASKS": "5", "SLURM_TASKS_PER_NODE": "2(x2),1"}
    assert slurm_allocation(given) == [Host("n1", 2), Host("n2", 2), Host("n3", 1)]
    assert slurm_allocation(given | {"SLURM_STEP_NUM_TASKS": "5"}) == []
    assert slurm_allocation({}) == []


def test_placement() -> None:
    hosts = [Host("a", 2), Host("b", 1), Host("c", 3)]
    assert place(hosts, 6, hostlist.BY_SLOT) == [[0, 1], [2], [3, 4, 5]]
    assert place(hosts, 6, hostlist.BY_NODE) == [[0, 3], [1], [2, 4, 5]]
    assert place(hosts, 2, hostlist.BY_SLOT) == [[0, 1], [], []]
    assert place(hosts, 8, hostlist.BY_SLOT) == [[0, 1, 6, 7], [2], [3, 4, 5]]
    assert place(hosts, 5, hostlist.BY_SLOT, ppn=2) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("width", [2, WIDTH])
@pytest.mark.parametrize("count", [1, 31, 33, 5000])
def test_many_hosts_are_reached_in_few_steps_over_few_connections(count: int, width: int) -> None:
    """A simulation: each process starts at most `width` agents, and all start at once what they have to."""
    parts = [Part(host=index, name=f"node{index}", ranks=[index], programs=[0]) for index in range(count)]
    reached, waves = [], [parts]
    steps = 0
    while waves:
        groups = [starters.divide(wave, width) for wave in waves]
        assert all(len(group) <= width for group in groups)
        agents = [branch for group in groups for branch in group]
        reached += [branch[0].host for branch in agents]
        waves = [branch[1:] for branch in agents if len(branch) > 1]
        steps += 1
    assert sorted(reached) == list(range(count))
    assert steps <= math.ceil(math.log(count + 1, width)) + 1


def test_binding(tmp_path: Path) -> None:
    """Two sockets of two cores with two threads each, of which a cpuset leaves six CPUs."""
    for cpu in range(8):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{cpu // 2 % 2}\n")
        (topology / "core_cpus_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    allowed = {0, 1, 2, 4, 6, 7}
    assert [cpus_of(rank, "core", allowed, tmp_path) for rank in range(5)] == [{0, 4}, {1}, {2, 6}, {7}, {0, 4}]
    assert [cpus_of(rank, "socket", allowed, tmp_path) for rank in range(3)] == [{0, 1, 4}, {2, 6, 7}, {0, 1, 4}]
    assert [cpus_of(rank, "core", {3, 5}, tmp_path / "none") for rank in range(3)] == [{3}, {5}, {3}]


@pytest.mark.parametrize("options", [(), (*LOCAL, "a,b")], ids=["launcher", "agents"])
def test_ranks_are_bound(launch, options: tuple[str, ...]) -> None:
    local = [0, 0] if LOCAL[0] in options else [0, 1]
    expected = [cpus_of(rank, "core", os.sched_getaffinity(0)) for rank in local]
    code = (
        f"import os, time; end = time.monotonic() + {LIMIT}; rank = int(os.environ['AIOMPI_RANK'])\n"
        f"while os.sched_getaffinity(0) != {expected}[rank] and time.monotonic() < end: time.sleep(0.01)\n"
        "print(rank, os.sched_getaffinity(0))"
    )
    result = launch(*options, "-n", "2", "--bind-to", "core", sys.executable, "-c", code)
    assert sorted(result.stdout.splitlines()) == [f"{rank} {cpus}" for rank, cpus in enumerate(expected)]


def run(line: str) -> RunSpec:
    spec = parse(line.split(), "aiompi-launch")
    assert isinstance(spec, RunSpec)
    return spec


def test_command_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hosts = run("--hosts a:2,b:2 x").hosts
    assert hosts is not None
    assert (hosts.names, hosts.ranks, hosts.starter) == (("a", "b"), ((0, 1), (2, 3)), ("ssh",))
    spec = run("--hosts a:2,b:2 --map-by node --ppn 3 -n 3 --starter srun x : -n 2 y")
    assert spec.hosts is not None
    assert (spec.hosts.ranks, spec.hosts.starter) == (((0, 2, 4), (1, 3)), ("srun",))
    assert run("--hosts localhost:3 x") == run("-n 3 --universe-size 3 x")
    for name, value in (("JOB_NODELIST", "n[1-2]"), ("JOB_CPUS_PER_NODE", "2(x2)"), ("JOB_ID", "7")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("PATH", str(tmp_path))
    spec = run("x")
    assert spec.hosts is not None
    assert (spec.size, spec.hosts.names, spec.hosts.starter) == (4, ("n1", "n2"), ("ssh",))
    (tmp_path / "srun").touch(0o700)
    assert run("-n 1 x").hosts is not None
    assert run("-n 1 x").hosts == run("-n 1 --starter srun x").hosts


def test_commands_of_starters(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"PYTHONPATH": "/a b", "LANG": "C", "HOME": "/root"}  # the home of the host may be another
    monkeypatch.setattr("os.environ", variables)
    *ssh, host, words = starters.command(("ssh", "-p", "2222"), "me@node1", 7.0, forks=True)
    assert ssh[:3] == ["ssh", "-p", "2222"]
    assert {"-oBatchMode=yes", "-oConnectTimeout=7"} < set(ssh)
    assert (host, words) == (
        "me@node1",
        f"exec env 'PYTHONPATH=/a b' LANG=C {sys.executable} -m aiompi_launcher.hosts.agent ssh fork",
    )
    srun = starters.command(("srun",), "node1", 7.0)
    assert srun[0] == "srun"
    assert "-wnode1" in srun
    assert starters.command(("ssh",), "localhost", 7.0)[0] == sys.executable


#: prints how many sockets a rank, and the processes above it up to the launcher, have, and how many listen at ports
LISTENERS = """
import os, re
from aiompi import MPI
world = MPI.COMM_WORLD
world.sendrecv(1, 1 - world.rank)
tables = "".join(open(f"/proc/net/{name}").read() for name in ("tcp", "tcp6"))
listening = {line.split()[9] for line in tables.splitlines() if line.split()[3] == "0A"}
found, pid = set(), os.getpid()
while "pytest" not in open(f"/proc/{pid}/cmdline").read():
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found |= set(re.findall(r"socket:.(\\d+)", os.readlink(f"/proc/{pid}/fd/{name}")))
        except OSError:
            pass
    pid = int(re.findall(r"PPid:\\s+(\\d+)", open(f"/proc/{pid}/status").read())[0])
print(len(found) > 2, len(found & listening))
world.barrier()
"""


def test_neither_agents_nor_ranks_of_one_machine_open_a_port(launch) -> None:
    """Agents speak over standard input and output, and ranks over Unix sockets."""
    result = launch(*LOCAL, "a,b", sys.executable, "-c", LISTENERS)
    assert (result.returncode, result.stdout) == (0, "True 0\n" * 2)


def test_many_agents_start_each_other(launch, rank) -> None:
    steps = ("3:print=last", "1:err=error")
    result = launch("--width", "2", *LOCAL, "a:2,b,c", "--tag-output", rank, *FULL, *steps)
    assert (result.returncode, result.stdout, result.stderr) == (0, "[3@c] last\n", "[1@a:err] error\n")


def test_environment_of_programs_of_several_hosts(launch) -> None:
    script = "$AIOMPI_RANK $AIOMPI_APPNUM $AIOMPI_SIZE $MPI_LOCALRANKID $MPI_LOCALNRANKS $GIVEN $PASSED"
    x, y = (("sh", "-c", f"echo {name} {script}") for name in "xy")
    result = launch(*LOCAL, "a:2,b", "--env", "GIVEN=g", *x, ":", "-n", "2", *y, env={"PASSED": "p"})
    assert sorted(result.stdout.splitlines()) == ["x 0 0 3 0 2 g p", "y 1 1 3 1 2 p", "y 2 1 3 0 1 p"]


def test_much_output_and_input(launch, tmp_path: Path) -> None:
    """More than may be on its way: the credit of output and of input comes back."""
    script = "if [ $AIOMPI_RANK = 1 ]; then wc -c; else head -c 3000000 /dev/zero | tr '\\0' x; echo; fi"
    result = launch(*LOCAL, "a,b", "--stdin", "1", "sh", "-c", script, input="y" * 1_000_000)
    assert sorted(map(len, result.stdout.splitlines())) == [7, 3_000_000]
    assert "1000000" in result.stdout
    launch(*LOCAL, "a,b", "--output-dir", str(tmp_path / "out"), "sh", "-c", script, input="y" * 1000)
    assert (tmp_path / "out" / "rank.0.out").stat().st_size == 3_000_001
    assert (tmp_path / "out" / "rank.1.out").read_text().strip() == "0"


@pytest.mark.parametrize(
    ("steps", "code", "said"),
    [
        (("0:join", "1:exit=7", "pause"), 7, "rank 1 on b exited with status 7"),
        ((*FULL[:3], "1:kill=9", "pause"), 137, "rank 1 on b was killed by signal 9 (SIGKILL)"),
        ((*FULL[:3], "1:abort=3,enough", "pause"), 3, "enough"),
    ],
)
def test_failures(launch, rank, steps: tuple[str, ...], code: int, said: str) -> None:
    result = launch(*LOCAL, "a,b", rank, *steps)
    assert result.returncode == code
    assert said in result.stderr


def test_a_program_that_is_missing(launch) -> None:
    result = launch(*LOCAL, "a,b", "missing.py")
    assert result.returncode == 127
    assert result.stderr.startswith("aiompi-launch: host ")
    assert "missing.py: No such file or directory" in result.stderr


def test_timeout_ends_all_hosts(launch) -> None:
    result = launch(*LOCAL, "a,b", "--timeout", "1", "sleep", "1000")
    assert result.returncode == 124


def test_a_starter_that_is_missing_or_never_answers(launch, tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\necho Welcome; exec sleep 1000\n")
    (tmp_path / "ssh").chmod(0o700)

    def prints(seconds: float) -> bool:
        limit = ("--start-timeout", str(seconds))
        result = launch("--hosts", "a,b", "--starter", str(tmp_path / "ssh"), *limit, "true")
        said = f"cannot be used: it did not answer within {seconds:g} s (--start-timeout)"
        assert (result.returncode, said in result.stderr) == (1, True)
        return f"{said}; it printed 'Welcome'" in result.stderr

    assert expires(prints)
    result = launch("--hosts", "a,b", "--starter", "/nowhere/ssh", "true")
    assert result.returncode == 1
    assert "/nowhere/ssh: No such file or directory" in result.stderr


def test_a_starter_that_does_not_say_where_hosts_are(launch, tmp_path: Path, rank) -> None:
    (tmp_path / "ssh").write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    (tmp_path / "ssh").chmod(0o700)
    result = launch("--starter", str(tmp_path / "ssh"), "--hosts", "a,b", rank, *FULL)
    assert result.returncode == 1
    assert "addresses hosts reach each other is unknown" in result.stderr
    assert "sets no SSH_CONNECTION" in result.stderr


def test_progress_on_a_terminal(launch, tmp_path: Path) -> None:
    """While hosts start, a terminal shows how many have; a message takes the place of that."""
    (tmp_path / "ssh").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "ssh").chmod(0o700)
    words = ("--hosts", "localhost,b", "--starter", str(tmp_path / "ssh"), "sleep", "60")

    def one_starts(seconds: float) -> bool:
        ours, theirs = os.openpty()
        result = launch("--start-timeout", str(seconds), *words, stderr=theirs)
        os.close(theirs)
        shown = os.read(ours, 2**16).decode()
        os.close(ours)
        assert result.returncode == 1
        said = f"host b cannot be used: it did not answer within {seconds:g} s (--start-timeout)"
        screen = Screen(200, 24)
        screen.feed(shown)
        return screen.text == f"aiompi-launch: {said}\n" and "aiompi-launch: 1 of 2 hosts have started" in shown

    assert expires(one_starts)


@pytest.mark.parametrize("state", ["silent", "starting", "unlimited", "known to be cut off", "paused"])
def test_a_silent_channel(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """The other end is given up once it has started, and before if the kernel says why it is silent.

    An end that has said that it will be stopped, as by Ctrl-Z, is not, until it speaks again.
    """
    monkeypatch.setattr(channel, "BEAT", 0.05)
    monkeypatch.setattr(channel, "DOUBT", 0.1)
    reader, other = os.pipe()
    ended: list[str] = []
    got: list[object] = []
    asked: list[object] = []

    async def wait_for(events: list[object], count: int = 1) -> None:
        async with asyncio.timeout(LIMIT):
            while len(events) < count:
                await asyncio.sleep(0.02)

    def why_lost() -> str:
        asked.append(ended)
        return "it is cut off" if state == "known to be cut off" else ""

    async def listen() -> None:
        silence = 0.0 if state == "unlimited" else 0.2
        one = channel.Channel((reader, os.open(os.devnull, os.O_WRONLY)), got.append, ended.append, silence, why_lost)
        os.write(other, b"Welcome\n" + messages.banner()[:7])
        await asyncio.sleep(0.5)
        assert not asked  # it has not begun
        os.write(other, messages.banner()[7:])
        os.write(other, messages.encode(messages.Pause() if state == "paused" else messages.Ping()))
        one.watched = state not in ("starting", "known to be cut off")
        if state == "paused":
            await asyncio.sleep(0.5)
            assert not asked
            assert not ended
            os.write(other, messages.encode(messages.RankExited(1, 2)))
        if state in ("starting", "unlimited"):
            await wait_for(asked, 10)
        else:
            await wait_for(ended)
        one.close()

    asyncio.run(listen())
    os.close(other)
    silent = ["nothing has come from it for 0.2 s (AIOMPI_SILENCE)"]
    given_up = {"silent": silent, "paused": silent, "known to be cut off": ["it is cut off"]}
    assert ended == given_up.get(state, [])
    assert got == ([messages.RankExited(1, 2)] if state == "paused" else [])


def test_a_channel_to_another_version() -> None:
    reader, other = os.pipe()
    ended: list[str] = []

    async def listen() -> None:
        channel.Channel((reader, os.open(os.devnull, os.O_WRONLY)), print, ended.append)
        os.write(other, b"Welcome\n" + version.MAGIC + struct.pack("!I20s", 7, b"0.7.1") + b"\n\0\0\0\0")
        async with asyncio.timeout(LIMIT):
            while not ended:
                await asyncio.sleep(0.01)

    asyncio.run(listen())
    os.close(other)
    own = f"aiompi {release.VERSION} (protocol {release.PROTOCOL})"
    assert ended[0].startswith(f"it is aiompi 0.7.1 (protocol 7), and this process is {own}: ")


def test_no_more_is_read_for_the_launcher_than_it_reads() -> None:
    """The agent of a host holds what sends more than the channel to the launcher takes."""

    async def relay() -> None:
        (up, launcher), (source, sink), (silent, end) = os.pipe(), os.pipe(), os.pipe()
        relayed: list[int] = []
        agent = agents.Agent.__new__(agents.Agent)
        agent._channel = channel.Channel((silent, launcher), print, print, decoder=messages.decoder())

        def pass_on(message: messages.Message) -> None:
            relayed.append(1)
            agent._channel.send(message)
            agent._curb(branch)

        decoder = messages.decoder()
        branch = channel.Channel((source, os.open(os.devnull, os.O_WRONLY)), pass_on, print, decoder=decoder)
        said = messages.encode(messages.Said(1, b"x" * 60_000))
        for descriptor in (up, sink):
            os.set_blocking(descriptor, False)
        sent = blocked = 0
        while blocked < 100:
            try:
                sent += os.write(sink, said[sent % len(said) :])
                blocked = 0
            except BlockingIOError:
                blocked += 1
                await asyncio.sleep(0)
        assert sent < 4 * 2**20
        held = len(relayed)
        while len(relayed) < sent // len(said):
            with contextlib.suppress(BlockingIOError):
                os.read(up, 2**16)
            await asyncio.sleep(0)
        assert len(relayed) > held
        for each in (agent._channel, branch):
            each.close()
        for descriptor in (up, sink, end):
            os.close(descriptor)

    asyncio.run(relay())
