"""Hosts to measure a network with: those of `--hosts`, or namespaces of this machine that one switch connects.

A namespace has a hostname, process ids, an address and a directory for sockets of its own, so that its ranks share
memory with each other and reach those of other namespaces by TCP only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from aiompi.bench.contender import LAUNCHER, BenchError, Contender

_NETWORK: Final = "10.213.77"
_HOLD: Final = """
hostname {name} && mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs tmpfs {place} || exit
ip link set lo up && echo ready && exec sleep infinity
"""
#: of a limited rate: a whole segment of TCP passes at once, and what would wait for longer is lost
_QUEUE: Final = "burst 128kb latency 50ms"
_HIDDEN: Final = ("unshare", "--mount", "--uts", "--net", "--pid", "--ipc", "--fork", "--kill-child")
#: takes the place of ssh: options, a host, a command
_SSH: Final = """#!/bin/sh
while case $1 in -*) true;; *) false;; esac; do shift; done
read -r pid address < "$(dirname "$0")/$1" && shift || exit
export SSH_CONNECTION="$address 1 $address 22"
exec nsenter -t $pid -m -u -n -p -i sh -c "$*"
"""


@contextlib.contextmanager
def several(count: int, given: Sequence[str] = (), rate: str = "") -> Iterator[tuple[str, ...]]:
    """Return a context with hosts: the words before `aiompi-launch` and its options that start a job on them.

    Args:
        count: number of hosts.
        given: names of hosts that ssh reaches; none for namespaces.
        rate: limit of each direction between a namespace and the switch, as `tc` takes it; empty for none.

    Raises:
        BenchError: there are fewer hosts, or namespaces cannot be made.
    """
    if given:
        if len(given) < count:
            raise BenchError(f"{count} hosts are needed, not {len(given)}")
        yield (*LAUNCHER, "--hosts", ",".join(given[:count]))
        return
    missing = [program for program in ("ip", "tc", "unshare", "nsenter") if not shutil.which(program)]
    if os.geteuid() or missing:
        raise BenchError(f"without --hosts this needs root{''.join(f' and {program}' for program in missing)}")
    with tempfile.TemporaryDirectory(prefix="aiompi-hosts-") as place, contextlib.ExitStack() as stack:
        own = Path(place, "own")  # differs between the namespaces
        own.mkdir()
        switch = _start(stack, ("unshare", "--net"), "ip link add switch type bridge && ip link set switch up && "
                        "echo ready && exec sleep infinity")  # fmt: skip
        names = [f"host{number}" for number in range(1, count + 1)]
        for number, name in enumerate(names, 1):
            outer = _start(stack, _HIDDEN, _HOLD.format(name=name, place=own))
            pid = Path(f"/proc/{outer}/task/{outer}/children").read_text().strip()
            Path(place, name).write_text(f"{pid} {_NETWORK}.{number}\n")
            _run(switch, f"ip link add port{number} type veth peer name eth0 netns {pid}")
            _run(switch, f"ip link set port{number} master switch up")
            _run(pid, f"ip addr add {_NETWORK}.{number}/24 dev eth0")
            _run(pid, "ip link set eth0 up")
            if rate:
                _run(pid, f"tc qdisc add dev eth0 root tbf rate {rate} {_QUEUE}")
                _run(switch, f"tc qdisc add dev port{number} root tbf rate {rate} {_QUEUE}")
        ssh = Path(place, "ssh")
        ssh.write_text(_SSH)
        ssh.chmod(0o700)
        yield ("env", f"TMPDIR={own}", "XDG_RUNTIME_DIR=", *LAUNCHER, "--hosts", ",".join(names), "--starter", str(ssh))


def _start(stack: contextlib.ExitStack, around: Sequence[str], script: str) -> int:
    process = subprocess.Popen([*around, "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    with process.stdout as out:
        if out.readline() != b"ready\n":
            raise BenchError("namespaces cannot be made here")
    return process.pid


def _run(pid: int | str, command: str) -> None:
    subprocess.run(["nsenter", "-t", str(pid), "-n", *command.split()], check=True)


def job(words: Sequence[str], per_host: int, *variables: str) -> Contender:
    """Return a job of aiompi on hosts.

    Args:
        words: that `several` has returned.
        per_host: ranks of each host.
        variables: environment variables of the ranks, as NAME=VALUE.
    """
    options = ("--ppn", str(per_host), "-m", "aiompi.bench.measure.blocking")
    return Contender(" ".join(("on hosts", *variables)), ("env", *variables, *words, *options))
