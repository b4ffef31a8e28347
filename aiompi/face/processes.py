"""Arguments of the calls that start processes, the same in both faces (MPI-2, section 5.3)."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any, TypeAlias

from aiompi.base.arguments import instance, integer
from aiompi.engine import Request
from aiompi.engine.processes import Program
from aiompi.errors import SUCCESS, SpawnError
from aiompi.info import Info

#: a command: name or path of an executable or of a Python program
Command: TypeAlias = str | os.PathLike[str]

#: names of this machine in the Info key `host`
_HERE = ("localhost", "127.0.0.1", "::1")


def one_program(command: Command, args: str | Sequence[str] | None, maxprocs: int, info: Info) -> list[Program]:
    """Return the program of `Spawn`.

    Raises:
        SpawnError: the info asks for something that is not possible.
    """
    given = dict(instance(info, Info, "info", "an Info").items())
    words = [args] if isinstance(args, str) else [*(args or ())]
    count = integer(maxprocs, "maxprocs")
    if count < 1:
        raise SpawnError(f"maxprocs is {count}: at least one process is started")
    name = os.fspath(command)
    if "path" in given:
        import shutil  # seldom needed

        name = shutil.which(name, path=given["path"]) or name
    if ":" in words:
        raise SpawnError("an argument of a spawned program cannot be a single colon")
    environ = {}
    for line in filter(None, given.get("env", "").splitlines()):
        variable, equals, value = line.partition("=")
        if not equals:
            raise SpawnError(f"the Info key env has the line {line!r}: expected NAME=VALUE")
        environ[variable] = value
    hosts = _hosts(given.get("host", ""), count)
    return [Program((name, *map(os.fspath, words)), count, given.get("wdir", given.get("wd", "")), environ, hosts)]


def _hosts(names: str, count: int) -> tuple[tuple[str, int], ...]:
    """Return the hosts of the Info key `host`, "a,b" or "a:1,b:2", each with its number of processes."""
    places = [name.strip() for name in names.split(",") if name.strip()]
    if all(name in (*_HERE, socket.gethostname()) for name in places):
        return ()
    found, left = [], count
    for at, place in enumerate(places):
        name, colon, slots = place.rpartition(":")
        if not (colon and slots.isdecimal()):
            name, slots = place, str(-(-left // (len(places) - at)))
        taken = min(left, int(slots))
        left -= taken
        found += [(name, taken)] if taken else []
    if left:
        raise SpawnError(f"the Info key host is {names!r}, which has no room for {left} of {count} processes")
    return tuple(found)


def reporting(
    request: Request[Any], errcodes: list[Any] | None, programs: Sequence[Program] | None = None
) -> Request[Any]:
    """Let a request that starts processes fill the list `errcodes`, if given, with one error code for each process.

    Args:
        programs: the programs of `Spawn_multiple`; each gets a list of its own in `errcodes`.
    """

    def done(_: Request[Any]) -> None:
        if errcodes is not None and request.exception() is None:
            started = request.result().remote_size
            codes = [[SUCCESS] * program.count for program in programs] if programs is not None else [SUCCESS] * started
            errcodes[:] = codes

    if not request.done():
        request.when_done(done)
    return request


def several_programs(
    command: Sequence[Command],
    args: Sequence[str | Sequence[str] | None] | None,
    maxprocs: int | Sequence[int] | None,
    info: Info | Sequence[Info],
) -> list[Program]:
    """Return the programs of `Spawn_multiple`.

    Raises:
        ValueError: the arguments have different lengths.
        SpawnError: see `one_program`.
    """
    if isinstance(command, str | os.PathLike):
        raise ValueError("command is a single one: expected a sequence of commands")
    if isinstance(args, str):
        raise ValueError("args is a string: expected a sequence of arguments for each command")
    count = len(command)
    columns = (
        [None] * count if args is None else [*args],
        [1 if maxprocs is None else maxprocs] * count if not isinstance(maxprocs, Sequence) else [*maxprocs],
        [info] * count if isinstance(info, Info) else [*info],
    )
    for name, column in zip(("args", "maxprocs", "info"), columns, strict=True):
        if len(column) != count:
            raise ValueError(f"{name} has {len(column)} items for {count} commands")
    return [program for row in zip(command, *columns, strict=True) for program in one_program(*row)]
