"""Two processes, connected by a socket, that run the measurements of a module of this folder.

`python -m aiompi.bench.measure.pair MODULE` is the leader, which starts the follower. A work is a function
`work(sock, rank, **arguments)` of the module's WORKS; both processes run it at the same time, as ranks 0 and 1.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from aiompi.bench.measure import turns

Works: TypeAlias = dict[str, Callable[..., Any]]


def main(module: str, *inherited: str) -> None:
    """Run one of the two processes.

    Args:
        module: full name of a module with works.
        inherited: in the follower, the descriptors of the data socket and of the control socket; empty in the leader.
    """
    works: Works = {"bind": _bind, **importlib.import_module(module).WORKS}
    if inherited:
        data, control = (socket.socket(fileno=int(descriptor)) for descriptor in inherited)
        with data, control, control.makefile("rw") as leader:
            _follow(works, data, leader)
    else:
        with contextlib.ExitStack() as processes:
            _lead(module, works, processes)


def _lead(module: str, works: Works, processes: contextlib.ExitStack) -> None:
    data, its_data = socket.socketpair()
    control, its_control = socket.socketpair()
    inherited = [sock.fileno() for sock in (its_data, its_control)]
    command = [sys.executable, "-m", "aiompi.bench.measure.pair", module, *map(str, inherited)]
    processes.enter_context(subprocess.Popen(command, pass_fds=inherited, stdin=subprocess.DEVNULL))
    its_data.close()
    its_control.close()
    with data, control, control.makefile("rw") as follower:
        while work := turns.next_work():
            _write(follower, work)
            own = _do(works, work, data, 0)
            turns.answer([own, json.loads(follower.readline())])


def _follow(works: Works, data: socket.socket, leader: IO[str]) -> None:
    for line in leader:
        _write(leader, _do(works, json.loads(line), data, 1))


def _do(works: Works, work: turns.Work, data: socket.socket, rank: int) -> Any:
    arguments = dict(work)
    return works[arguments.pop("work")](data, rank, **arguments)


def _bind(_: socket.socket, rank: int, cores: list[int]) -> None:
    turns.bind(rank, cores)


def _write(stream: IO[str], message: Any) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
