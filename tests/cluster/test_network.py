"""Jobs over a real network: which addresses are published and tried, and what is noticed of a host that is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest

from aiompi.wire import control
from support.limits import LIMIT
from support.machines import Machine, Machines
from support.middle import is_told_nothing, relay_words

KEY = {"AIOMPI_KEY": "ab" * 32}
IMPI = {"IMPI_AUTH_KEY": "77"}
LAUNCHER = (sys.executable, "-m", "aiompi_launcher")

#: joins, and says at which ports this process listens
JOIN = """
import asyncio, os, sys
import aiompi
async def main():
    async with aiompi.init(sys.argv[1]) as world:
        print(*await world.allgather(world.rank))
        own = {os.readlink("/proc/self/fd/" + fd)[8:-1] for fd in os.listdir("/proc/self/fd")
               if os.path.islink("/proc/self/fd/" + fd)}
        sockets = [line.split() for name in ("tcp", "tcp6") for line in open("/proc/net/" + name)]
        print(*(int(words[1].rpartition(":")[2], 16) for words in sockets if words[3] == "0A" and words[9] in own))
        await world.barrier()
asyncio.run(main())
"""
#: waits for a message that does not come; the others wait for it
WAIT = """
import asyncio, sys
import aiompi
async def main():
    async with aiompi.init(sys.argv[1]) as world:
        await world.barrier()
        print("up", flush=True)
        await world.recv(source=1 - world.rank)
asyncio.run(main())
"""


def start(machine: Machine, *options: str, env: Mapping[str, str]) -> tuple[subprocess.Popen[str], str]:
    """Start a launcher that prints its address; return both."""
    process = machine.popen(*LAUNCHER, *options, env=env)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def serve(machine: Machine, size: int, *options: str, **env: str) -> tuple[subprocess.Popen[str], str]:
    return start(machine, "--serve", str(size), *options, env=KEY | env)


def join(machines: Sequence[Machine], address: str, program: str, **env: str) -> list[subprocess.Popen[str]]:
    return [machine.popen(sys.executable, "-c", program, address, env=KEY | env) for machine in machines]


@pytest.mark.parametrize(
    "options",
    [
        ["--bind", "0.0.0.0"],
        ["--bind", "::"],
        ["--interface", "eth0", "--port-range", "30000-30009"],
        ["--interface", "nosuch0,10.0.0.0/8"],
    ],
    ids=" ".join,
)
def test_ranks_join_at_the_address_that_is_printed(machines: Machines, options: list[str]) -> None:
    """They publish the address that they use towards the agent, without any setting."""
    served, address = serve(machines[0], 3, *options)
    assert address.startswith(f"{machines[0].address}:")
    ranks = join(machines, address, JOIN)
    for rank in ranks:
        out, err = rank.communicate(timeout=LIMIT)
        assert (out.splitlines()[0], err) == ("0 1 2", "")
    assert served.communicate(timeout=LIMIT) == ("", "")


def test_a_rank_that_joins_by_loopback_is_reached_from_other_hosts(machines: Machines) -> None:
    served, address = serve(machines[0], 3, "--bind", "0.0.0.0")
    loopback = f"127.0.0.1:{address.rpartition(':')[2]}"
    ranks = join(machines[:1], loopback, JOIN) + join(machines[1:], address, JOIN)
    for rank in ranks:
        out, err = rank.communicate(timeout=LIMIT)
        assert (out.splitlines()[0], err) == ("0 1 2", "")
    assert served.communicate(timeout=LIMIT) == ("", "")


def test_all_that_listens_takes_a_port_of_the_range(machines: Machines) -> None:
    variables = {"AIOMPI_PORT_RANGE": "30000-30019", "AIOMPI_INTERFACE": "lo,eth0"}
    served, address = serve(machines[0], 2, "--bind", machines[0].address, **variables)
    assert address == f"{machines[0].address}:30000"
    for rank in join(machines[:2], address, JOIN, **variables):
        out, err = rank.communicate(timeout=LIMIT)
        assert (out.splitlines()[0], err) == ("0 1", "")  # although 127.0.0.1, which comes first, leads nowhere
        assert out.splitlines()[1] in map(str, range(30000, 30020))
    served.communicate(timeout=LIMIT)


#: prints on rank 0 where it and the agent listen
LISTENERS = """
import glob, os, socket
from aiompi import MPI
comm = MPI.COMM_WORLD
comm.allreduce(1)
if comm.rank == 0:
    own, inherited = set(), set()
    for directory in glob.glob("/proc/[0-9]*/"):
        agent = b"aiompi_launcher.engine" + b"_agent" in open(directory + "cmdline", "rb").read()
        kind = own if agent or directory == f"/proc/{os.getpid()}/" else inherited
        kind |= {os.readlink(path)[8:-1] for path in glob.glob(directory + "fd/*") if os.path.islink(path)}
    lines = [line.split() for line in open("/proc/net/tcp")]
    ends = [words[1].split(":") for words in lines if words[3] == "0A" and words[9] in own - inherited]
    print(*sorted(f"{socket.inet_ntoa(bytes.fromhex(address)[::-1])}:{int(port, 16)}" for address, port in ends))
comm.Barrier()
"""


@pytest.mark.parametrize("engine", ["indexed", "hydra"])
def test_the_agent_of_rank_0_takes_the_interface_and_a_port_of_the_range(
    machines: Machines, request: pytest.FixtureRequest, engine: str
) -> None:
    env = {"AIOMPI_INTERFACE": "eth0", "AIOMPI_PORT_RANGE": "31000-31019"}
    words = [sys.executable, "-c", LISTENERS]
    if engine == "hydra":
        words = [request.getfixturevalue("hydra"), "-hosts", "node1,node2", "-ppn", "1", "-n", "2", *words]
        started = [machines[0].popen(*words, env=env)]
    else:
        env |= KEY | {"WORLD_SIZE": "2", "MASTER_ADDR": "node1"}
        started = [machine.popen(*words, env=env | {"RANK": str(rank)}) for rank, machine in enumerate(machines[:2])]
    outputs = [process.communicate(timeout=LIMIT) for process in started]
    assert {err for _, err in outputs} == {""}
    assert outputs[0][0].split() == [f"{machines[0].address}:{port}" for port in (31000, 31001)]


def test_clients_meet_at_a_server_on_all_interfaces(machines: Machines) -> None:
    server, address = start(machines[0], "--server", "3", "--bind", "0.0.0.0", env=IMPI)
    assert address.startswith(f"{machines[0].address}:")
    program = "from aiompi import MPI; print(*MPI.COMM_WORLD.allgather(MPI.COMM_WORLD.rank))"
    clients = [
        machine.popen(
            *LAUNCHER,
            "--client",
            str(number),
            address,
            "-n",
            "2",
            "--interface",
            "eth0",
            sys.executable,
            "-c",
            program,
            env=IMPI,
        )
        for number, machine in enumerate(machines)
    ]
    for client in clients:
        assert client.communicate(timeout=LIMIT) == ("0 1 2 3 4 5\n" * 2, "")
    assert server.communicate(timeout=LIMIT) == ("", "")


def test_a_cut_cable_is_reported_at_both_ends(machines: Machines) -> None:
    """Long before TCP does: by agent, ranks, IMPI server and clients, also while ranks report what they wait for."""
    program = (
        "from aiompi import MPI; w = MPI.COMM_WORLD; w.Barrier(); print('up', flush=True); w.recv(source=1 - w.rank)"
    )
    server, address = start(machines[0], "--server", "2", "--bind", "0.0.0.0", env=IMPI)
    ends = {"server": server}
    up = []
    for number, machine in enumerate(machines[:2]):
        words = ("--client", str(number), address, sys.executable, "-c", program)
        ends[f"client {number}"] = machine.popen(*LAUNCHER, *words, env=IMPI)
        up.append(ends[f"client {number}"])
    for debug in ("0", "1"):
        ends[f"agent {debug}"], address = serve(machines[0], 2, "--bind", "0.0.0.0", AIOMPI_DEBUG=debug)
        ranks = join(machines[:2], address, WAIT, AIOMPI_DEBUG=debug)
        ends.update((f"rank {number} {debug}", rank) for number, rank in enumerate(ranks))
        up += ranks
    for process in up:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
    machines[1].cut()
    errors = {name: process.communicate(timeout=LIMIT)[1] for name, process in ends.items()}
    assert {name: process.returncode for name, process in ends.items()} == dict.fromkeys(ends, 1)
    for name, error in errors.items():
        assert "answer" in error or (name == "server" and "the connection ended before FINI" in error), (name, error)


#: joins, and says what its connections are
SOCKETS = """
import asyncio, sys
import aiompi
async def main():
    async with aiompi.init(sys.argv[1]) as world:
        await world.allgather(world.rank)
        runtime = world._runtime
        links = [link for transport in runtime.wiring.transports if transport.name == "tcp" for link in transport.links]
        print(*{type(each._socket).__name__ for each in (runtime.agent, *links) if each._socket is not None})
        await world.barrier()
asyncio.run(main())
"""


@pytest.mark.parametrize(("setting", "kind"), [("auto", "SecureSocket"), ("off", "socket")])
def test_what_leaves_a_host_is_encrypted(machines: Machines, setting: str, kind: str) -> None:
    served, address = serve(machines[0], 2, "--bind", "0.0.0.0", "--tls", setting)
    ranks = join(machines[1:], address, SOCKETS, AIOMPI_TLS=setting)
    assert [rank.communicate(timeout=LIMIT) for rank in ranks] == [(f"{kind}\n", "")] * 2
    assert served.communicate(timeout=LIMIT) == ("", "")


@pytest.mark.parametrize("place", ["beside the agent", "on the way", "beside the rank"])
def test_a_relay_of_another_user_gets_nothing(machines: Machines, place: str) -> None:
    """To the agent it has an address of the agent's own machine, or of the machine of the rank."""
    agent, way, other = machines
    on = {"beside the agent": agent, "on the way": way, "beside the rank": other}[place]
    served, address = serve(agent, 2, "--bind", agent.address)
    said = control.encode(control.Join(1))
    words = relay_words(address.split(":"), said, on.address)
    relay = on.popen("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/env", "python3", *words)
    assert relay.stdout is not None
    port = relay.stdout.readline().strip()
    (victim,) = join([other], f"{on.address}:{port}", JOIN)
    assert "cannot be joined" in victim.communicate(timeout=LIMIT)[1]
    assert is_told_nothing(relay.communicate(timeout=LIMIT)[0])
    ranks = join([agent, other], address, JOIN)
    assert [rank.communicate(timeout=LIMIT)[0].splitlines()[0] for rank in ranks] == ["0 1"] * 2
    assert served.communicate(timeout=LIMIT)[0] == ""


#: prints which of its arguments the frames that pass eth0 contain, until a frame has the last of them
SNIFF = """
import socket, sys
words = [word.encode() for word in sys.argv[1:]]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sock:
    sock.bind(("eth0", 0))
    print("ready", flush=True)
    seen = set()
    while words[-1] not in seen:
        frame = sock.recv(1 << 17)
        seen |= {word for word in words if word in frame}
print(*sorted(word.decode() for word in seen))
"""
#: a message of one packet to another client
SAY = """
from aiompi import MPI
world = MPI.COMM_WORLD
text = bytearray(20)
world.Sendrecv(b"attack at dawn" + bytes(6), 1 - world.rank, recvbuf=text, source=1 - world.rank)
print(text[:14].decode())
"""


@pytest.mark.parametrize(
    ("env", "clear"),
    [
        ({}, []),
        ({"AIOMPI_IMPI_NATIVE": "0"}, []),
        ({"AIOMPI_IMPI_NATIVE": "0", "AIOMPI_TLS": "off"}, ["COLL", "attack at dawn"]),
    ],
    ids=["native", "IMPI", "off"],
)
def test_what_a_listener_sees_of_clients(machines: Machines, env: dict[str, str], clear: list[str]) -> None:
    """Nothing of the labels, nor of the packets between their hosts, unless encryption is switched off."""
    listening = machines[1].popen(sys.executable, "-c", SNIFF, "COLL", "attack at dawn", "that is all")
    assert listening.stdout is not None
    assert listening.stdout.readline() == "ready\n"
    server, address = start(machines[0], "--server", "2", "--bind", "0.0.0.0", env=IMPI | env)
    clients = [
        machine.popen(*LAUNCHER, "--client", str(number), address, sys.executable, "-c", SAY, env=IMPI | env)
        for number, machine in enumerate(machines[:2])
    ]
    assert [client.communicate(timeout=LIMIT) for client in clients] == [("attack at dawn\n", "")] * 2
    assert server.communicate(timeout=LIMIT) == ("", "")
    end = "import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(b'that is all', (sys.argv[1], 9))"
    machines[0].python("-c", end, machines[1].address)
    assert listening.communicate(timeout=LIMIT)[0].split("\n")[0] == " ".join([*clear, "that is all"])
