"""Two processes connected by a socket, in which the bare floors run.

`python -m aiompi.bench.measure.pair MODULE [WAY]` is the leader, which starts the follower. A work is a function
`work(sock, rank, **arguments)` of the module's WORKS; both processes run it at the same time, as ranks 0 and 1.
The way between them is one of WAYS: a Unix socket, TCP, or TCP between two relays with a Unix socket each.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any, Final, TypeAlias

from aiompi.bench.measure import turns

Works: TypeAlias = dict[str, Callable[..., Any]]
Ends: TypeAlias = tuple[socket.socket, socket.socket]


def main(module: str, way: str = "unix", *inherited: str) -> None:
    """Run one of the two processes.

    Args:
        module: full name of a module with works.
        way: what is between the processes, one of WAYS.
        inherited: of the follower, the descriptors of its data and its control socket.
    """
    works: Works = {"bind": _bind, **importlib.import_module(module).WORKS}
    if inherited:
        data, control = (socket.socket(fileno=int(descriptor)) for descriptor in inherited)
        with data, control:
            _follow(works, data, control.makefile("rw"))
    else:
        with contextlib.ExitStack() as processes:
            _lead(module, works, processes, *WAYS[way](processes))


def _lead(
    module: str, works: Works, processes: contextlib.ExitStack, data: socket.socket, its_data: socket.socket
) -> None:
    control, its_control = socket.socketpair()
    _start(processes, "aiompi.bench.measure.pair", [module, "inherited"], its_data, its_control)
    with data, control, control.makefile("rw") as follower:
        while work := turns.next_work():
            _write(follower, work)
            own = _do(works, work, data, 0)
            turns.answer([own, json.loads(follower.readline())])


def _start(processes: contextlib.ExitStack, module: str, arguments: list[str], *given: socket.socket) -> None:
    """Return a context with a process that inherits sockets; wait for it at the end."""
    descriptors = [sock.fileno() for sock in given]
    command = [sys.executable, "-m", module, *arguments, *map(str, descriptors)]
    processes.enter_context(subprocess.Popen(command, pass_fds=descriptors, stdin=subprocess.DEVNULL))
    for sock in given:
        sock.close()


def _unix(_: contextlib.ExitStack) -> Ends:
    return socket.socketpair()


def _tcp(_: contextlib.ExitStack) -> Ends:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _address = listener.accept()
    for sock in (one, other):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


def _relays(processes: contextlib.ExitStack) -> Ends:
    channel = _tcp(processes)
    ends = []
    for far in channel:
        near, end = socket.socketpair()
        _start(processes, "aiompi.bench.measure.relay", [], near, far)
        ends.append(end)
    return ends[0], ends[1]


#: name of a way -> function that returns its two ends
WAYS: Final[dict[str, Callable[[contextlib.ExitStack], Ends]]] = {"unix": _unix, "tcp": _tcp, "relays": _relays}


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
