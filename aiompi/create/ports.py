"""Ports: how two groups of processes without a common communicator meet (MPI-2, section 5.4).

The name of a port contains the addresses of its process and a key. With these addresses and this key, the root of a
connecting group connects to the root of the accepting group. The two roots remain peers until both groups are
introduced to each other and have agreed on a context id. All messages of a port are in one context.
"""

from __future__ import annotations

import base64
import binascii
import functools
import itertools
import os
import stat
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import msgpack

from aiompi.base.arguments import text
from aiompi.comm import Channel, Communicator
from aiompi.constants import ANY_SOURCE, MAX_PORT_NAME
from aiompi.create.agreement import Agreement, construct
from aiompi.create.intercomm import connect as connect_groups
from aiompi.create.introduction import context_of
from aiompi.create.participants import TwoGroups
from aiompi.engine import Engine, Receive, Request
from aiompi.engine.processes import Name, Processes, Program
from aiompi.errors import InvalidArgumentError, InvalidCommError, InvalidPortError, MPIError, SpawnError
from aiompi.wire.control import BusinessCard
from aiompi.wire.frame import Payload
from aiompi.wire.hello import KEY_BYTES, NAMESPACE_BYTES, Namespace

_PREFIX: Final = "aiompi-port:"
#: the first message of a connecting root: its number in the namespace of the port, and the tag of all later messages
_CONNECT: Final = struct.Struct(">II")
_CONNECT_TAG: Final = 0
#: transports that the roots use before the introduction of their groups; the few messages need no faster ones
_TRANSPORTS: Final = ("unix", "tcp")
_next_tag: Final = itertools.count(1).__next__
#: starts processes that connect to a port; see `aiompi.engine.environment.Environment.start`
Start: TypeAlias = Callable[[Sequence[Program], str, Sequence[str]], Request[None]]


class PortNamespace(Namespace):
    """The namespace of an open port, through which even an unknown process can connect if it has the key.

    Args:
        processes: the processes that this process knows.
    """

    __slots__ = ("_processes",)

    def __init__(self, processes: Processes) -> None:
        new = Namespace.new(0)
        super().__init__(new.id, new.key, 0, open=True)
        self._processes = processes

    def number(self, index: int) -> int | None:
        number = self.members.get(index)
        return self._processes.meet(Name(self.id, index), {}, self, index) if number is None else number


class _Bridge:
    """The channel between the two roots, with the interface of `aiompi.comm.Channel`.

    Args:
        number: number of the other root.
        id: of the namespace of the port.
        source: the source in messages of this root.
        carried: the source in messages of the other root.
        tag: of all messages.
    """

    note = 0

    def __init__(self, engine: Engine, number: int, id: bytes, source: int, carried: int, tag: int) -> None:
        self._engine = engine
        self._number = number
        self._id, self._context = id, context_of(id)
        self._source = source
        self._carried = carried
        self._tag = tag
        self.where = "the other root"
        self.on_close: Callable[[], object] = lambda: None

    def isend(self, payload: Payload, nbytes: int, dest: int) -> Request[None]:
        peer = self._engine.peer(self._number)
        return peer.send(payload, nbytes, self._context, self._source, self._tag)

    def irecv(self, memory: memoryview | None, source: int) -> Receive:
        matcher = self._engine.matcher(self._context)
        receive = Receive(self._engine, matcher, memory, self._carried, self._tag, self._number)
        self._engine.receive(receive)
        return receive

    def close(self) -> None:
        """Forget the other root, unless it has been introduced to this process."""
        self.on_close()
        processes = self._engine.processes
        processes.release([self._number])
        if self._id not in processes.namespaces:
            self._engine.contexts.pop(self._context, None)


class _Meeting(TwoGroups):
    """Two groups whose roots are connected by a bridge. An error at a root is raised in its whole group.

    Args:
        channel, crossing, root: the first three arguments of `TwoGroups`.
        gone: class of the error if the other group has ended.
    """

    def __init__(self, channel: Channel, crossing: Channel, root: int, gone: type[MPIError]) -> None:
        super().__init__(channel, crossing, root)
        self.gone = gone

    async def exchange(self, data: bytes, kept: int = 0) -> bytes:
        outcome = answer = b""
        if self.leads:
            try:
                answer = await self._swap(data)
                outcome = b"\0" + answer[kept:]
            except MPIError as error:
                outcome = b"\1" + str(error).encode()
        outcome = await self.share(outcome)
        if outcome[:1] == b"\1":
            raise self.gone(f"{self.local.where}: the other group is gone: {outcome[1:].decode()}")
        return answer[:kept] + outcome[1:]


# The calls.


async def open_port(engine: Engine) -> str:
    """Open a port at which this process can accept other groups; return its name.

    The name contains a key. Any process that knows the name can connect.
    """
    processes = engine.processes
    await engine.environment.admit()
    namespace = PortNamespace(processes)
    processes.namespaces[namespace.id] = namespace
    offered = processes.cards[engine.rank]["transports"]
    reach = {name: offered[name] for name in (*_TRANSPORTS, *offered) if offered.get(name) and name != "loopback"}
    few = {name: reach[name] for name in _TRANSPORTS if name in reach} or reach
    data = msgpack.packb([namespace.id, namespace.key, few], unicode_errors="surrogatepass")
    name = _PREFIX + base64.urlsafe_b64encode(data).decode()
    processes.ports[name] = namespace
    engine.matcher(context_of(namespace.id))
    return name


def close_port(engine: Engine, name: str) -> None:
    """Close a port (MPI_Close_port): no process can connect to it any more.

    Raises:
        InvalidPortError: this process has not opened the port.
    """
    processes = engine.processes
    namespace = processes.ports.pop(_checked(name), None)
    if namespace is None:
        raise InvalidPortError("Close_port: this process has no such open port")
    processes.namespaces.pop(namespace.id, None)
    for number in [*namespace.members.values()]:
        processes.forget_unused(number)  # waiting processes notice the end of their connection
    engine.contexts.pop(context_of(namespace.id), None)


def accept(comm: Communicator, port: str | None, root: int, stop: Request[None] | None = None) -> Request[Communicator]:
    """Wait for a connecting group, and make an intercommunicator with it (MPI_Comm_accept).

    Args:
        comm: communicator of the accepting group; all its members call this.
        port: name of a port that the root has opened; other processes may give None.
        root: rank of the process that has opened the port.
        stop: request whose completion at the root ends the wait with a SpawnError.

    Raises:
        InvalidCommError: an intercommunicator; awaiting the request: the groups have processes in common.
        InvalidRootError: the root is no rank of the communicator.
        InvalidPortError: awaiting the request: the root has no such open port, or the other group is gone.
        TypeError: the name is no string.
    """
    name = _checked(port)
    return meet(comm, lambda: _await_connect(comm.engine, name, stop), root, "Accept")


def connect(comm: Communicator, port: str | None, root: int) -> Request[Communicator]:
    """Connect to a group that accepts, and make an intercommunicator with it (MPI_Comm_connect); see `accept`.

    Raises:
        InvalidPortError: awaiting the request: there is no such port, or it cannot be reached.
    """
    name = _checked(port)
    return meet(comm, lambda: _send_connect(comm.engine, name), root, "Connect")


def meet(
    comm: Communicator,
    bridge: Callable[[], Awaitable[_Bridge]],
    root: int,
    operation: str,
    gone: type[MPIError] = InvalidPortError,
    spawns: bool = False,
) -> Request[Communicator]:
    """Make an intercommunicator with the group of another root.

    Args:
        bridge: called at the root only; makes the channel to the other root. All processes raise its errors.
        gone: class of the error if the other group fails before the intercommunicator is made.
        spawns: True if the root starts the processes of the other group.
    """
    where = comm.where(operation)
    root = comm.checked_root(root, operation)
    if comm.remote is not None:
        raise InvalidCommError(f"{where}: the local communicator must be an intracommunicator")

    async def run(channel: Channel, agreement: Agreement) -> Communicator:
        crossing, error = None, None
        if comm.rank == root:
            comm.engine.processes.expecting.add(channel)
            try:
                crossing = await bridge()
            except (MPIError, NotImplementedError) as reason:
                error = reason
            finally:
                comm.engine.processes.expecting.discard(channel)
        try:
            groups = _Meeting(channel, cast(Channel, crossing), root, gone)
            await _agree_on_failure(groups, error)
            made = await connect_groups(where, comm, groups, agreement)
            processes, starter = comm.engine.processes, comm.engine.processes.name(comm.group.members[root])
            if spawns and made.remote is not None and starter.job == processes.job:
                job = processes.name(made.remote.members[0]).job
                processes.obituaries.starters[job] = starter.process
            return made
        finally:
            if crossing is not None:
                crossing.close()

    return construct(comm, run, f"Comm_{operation.lower()}")


async def _agree_on_failure(groups: TwoGroups, error: BaseException | None) -> None:
    """Raise the error of the root in all processes of its group."""
    kind = 0 if error is None else getattr(error, "error_class", -1)
    kind, what = msgpack.unpackb(await groups.share(msgpack.packb([kind, "" if error is None else str(error)])))
    if error is not None:
        raise error
    if kind:
        raise NotImplementedError(what) if kind < 0 else error_of(kind, what)


def error_of(kind: int, what: str) -> MPIError:
    """Return the exception of an error class with this message."""
    return type(MPIError(kind))(what)


def spawn(
    comm: Communicator,
    programs: Sequence[Program],
    root: int,
    options: Sequence[str] = (),
    start: Start | None = None,
) -> Request[Communicator]:
    """Start processes, and make an intercommunicator with their world (MPI_Comm_spawn_multiple, MPI-2).

    Args:
        comm: communicator; all its processes call this.
        programs: the programs to start; only the argument of the root counts.
        root: rank of the process that starts the programs.
        options: more options of the launcher.
        start: function that starts the programs; by default `start` of the engine's environment.

    Raises:
        SpawnError: awaiting the request: the processes cannot be started, or have ended before they joined their job.
    """
    begin = start or comm.engine.environment.start
    return meet(
        comm,
        lambda: _start(comm.engine, lambda port: begin(programs, port, options)),
        root,
        "Spawn",
        SpawnError,
        spawns=True,
    )


# The roots.


async def _start(engine: Engine, launch: Callable[[str], Request[None]]) -> _Bridge:
    port = await open_port(engine)
    try:
        bridge = await _await_connect(engine, port, launch(port))
    except BaseException:
        close_port(engine, port)
        raise
    bridge.on_close = lambda: close_port(engine, port)
    return bridge


async def _await_connect(engine: Engine, port: str, failure: Request[None] | None = None) -> _Bridge:
    """Wait for the root of another group.

    Args:
        failure: request whose completion means that no group will connect.
    """
    await engine.environment.admit()
    namespace = engine.processes.ports.get(port)
    if namespace is None:
        raise InvalidPortError("Accept: the root has no such open port; a process accepts at a port that it has opened")
    context = context_of(namespace.id)
    while True:
        matcher = engine.matcher(context)
        receive = Receive(engine, matcher, None, ANY_SOURCE, _CONNECT_TAG, ANY_SOURCE)
        engine.receive(receive)
        give_up = functools.partial(_give_up, receive)
        if failure is not None and failure.done():
            give_up(failure)
        elif failure is not None:
            failure.when_done(give_up)
        try:
            await receive
        finally:
            if failure is not None:
                failure.forget(give_up)
        first = receive.data or b""
        if len(first) != _CONNECT.size:
            continue  # not a valid first message
        token, tag = _CONNECT.unpack(first)
        number = namespace.members.get(token)
        if number is not None:  # otherwise the other root has ended
            engine.processes.retain([number])
            return _Bridge(engine, number, namespace.id, 0, token, tag)


def _give_up(receive: Receive, failed: Request[Any]) -> None:
    if receive.matcher.withdraw(receive):
        error = SpawnError("the processes have ended without joining their job")
        receive.fail(failed.exception() or error)


async def _send_connect(engine: Engine, port: str) -> _Bridge:
    id, key, offered = _parse(port)
    processes = engine.processes
    if isinstance(processes.namespaces.get(id), PortNamespace):
        raise InvalidPortError("Connect: this process has opened the port itself; another one has to connect")
    await engine.environment.admit()
    own = processes.namespaces.get(id) or Namespace(id, key, 1 + int.from_bytes(os.urandom(3)))
    number = processes.meet(Name(id, 0), BusinessCard(window=0, transports=offered), own, 0)
    processes.retain([number])
    tag = _next_tag() % 2**30 or 1
    try:
        first = _CONNECT.pack(own.own, tag)
        await engine.peer(number).send((first,), len(first), context_of(id), own.own, _CONNECT_TAG)
    except MPIError as error:
        processes.release([number])
        raise InvalidPortError(f"Connect: the port cannot be reached: {error}") from None
    return _Bridge(engine, number, id, own.own, 0, tag)


def _checked(port: str | None) -> str:
    return text(port or "", "port_name")


def _parse(port: str) -> tuple[bytes, bytes, dict[str, object]]:
    """Return id, key and addresses of a port.

    Raises:
        InvalidPortError: it is no name of a port.
    """
    try:
        if not port.startswith(_PREFIX):
            raise ValueError
        data = base64.urlsafe_b64decode(port.removeprefix(_PREFIX))
        id, key, offered = msgpack.unpackb(data, unicode_errors="surrogatepass")
        if (len(id), len(key)) != (NAMESPACE_BYTES, KEY_BYTES) or type(offered) is not dict:
            raise ValueError
    except (ValueError, TypeError, binascii.Error, msgpack.UnpackException):
        raise InvalidPortError(f"Connect: {port[:60]!r} is no name of a port, as Open_port returns it") from None
    return id, key, offered


def join(alone: Communicator, fd: int) -> Request[Communicator]:
    """Make an intercommunicator with the process at the other end of a socket (MPI_Comm_join).

    Both processes exchange names of ports over the socket. The socket must carry no other data during the call.

    Args:
        alone: COMM_SELF.
        fd: descriptor of a connected stream socket.

    Raises:
        InvalidArgumentError: `fd` is no descriptor of a socket.
        InvalidPortError: awaiting the request: the socket ended, or the other process speaks another protocol.
    """
    engine = alone.engine
    try:
        is_socket = stat.S_ISSOCK(os.fstat(fd).st_mode)
    except (OSError, OverflowError) as error:
        raise InvalidArgumentError(f"Join: {fd} is no descriptor: {error}") from None
    if not is_socket:
        raise InvalidArgumentError(f"Join: descriptor {fd} is not of a socket")

    async def run() -> Communicator:
        port = await open_port(engine)
        try:
            other = await _swap_lines(engine, fd, port)
            if other == port:
                raise InvalidPortError("Join: the socket leads to this process itself")
            return await (accept(alone, port, 0) if port < other else connect(alone, other, 0))
        finally:
            close_port(engine, port)

    return alone.run(run())


async def _swap_lines(engine: Engine, fd: int, line: str) -> str:
    """Exchange one line over a socket; read no byte beyond the line."""
    driver, out, answer = engine.driver, line.encode() + b"\n", bytearray()
    blocking, done = os.get_blocking(fd), Request[None](engine)
    os.set_blocking(fd, False)

    def turn() -> None:
        nonlocal out
        try:
            while out:
                out = out[os.write(fd, out) :]
            while not answer.endswith(b"\n"):
                byte = os.read(fd, 1)
                if not byte or len(answer) > MAX_PORT_NAME:
                    raise InvalidPortError("Join: the other process has sent no name of a port over the socket")
                answer.extend(byte)
        except BlockingIOError:
            return
        except (OSError, InvalidPortError) as error:
            done.fail(error if isinstance(error, MPIError) else InvalidPortError(f"Join: the socket failed: {error}"))
        else:
            done.complete()

    engine.processes.expecting.add(done)
    driver.add_reader(fd, turn)
    try:
        turn()
        await done
    finally:
        engine.processes.expecting.discard(done)
        driver.remove_reader(fd)
        os.set_blocking(fd, blocking)
    return answer[:-1].decode(errors="replace")
