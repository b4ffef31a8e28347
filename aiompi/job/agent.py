"""The connection of a rank to the launcher's agent: `Contact` has the agent's address, `AgentConnection` connects."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from aiompi.engine import Engine, Request, Timer
from aiompi.engine.blame import cause_of
from aiompi.errors import InvalidArgumentError, JobAbortedError
from aiompi.job import bootstrap
from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi.transport.dial import Dialling, Limits, describe
from aiompi.transport.resolve import Address, Resolving, resolve
from aiompi.wire import control, liveness
from aiompi.wire.hello import RANK_AGENT, RANK_ANY, ROLE_CONTROL, Connector, parse_key
from aiompi.wire.variables import ENV_APPNUM, ENV_CONTROL, ENV_KEY, ENV_RANK

if TYPE_CHECKING:
    from aiompi.job.bootstrap.manager import Place
    from aiompi.job.companion import Companion

T = TypeVar("T")

#: seconds for which a rank tries to connect to a busy launcher. If the launcher dies, its watchdog ends the rank.
_LAUNCHED = 7 * 86400.0
#: most seconds that an aborting rank waits until the agent has printed the reason. Then the rank asks the process
#: manager to kill the processes
_REPORT = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Contact:
    """How a rank finds its job.

    Attributes:
        address: address of the agent, "unix:PATH" or "tcp:HOST:PORT".
        key: key of the job.
        rank: rank that this process asks for, RANK_ANY for any.
        launched: True if a launcher or another process manager has started this process and will end it.
        engine: name of the process manager whose processes must agree on the key and the address first, by `met`; empty
            for no process manager.
        place: process manager, key and connection to the agent, once the processes of a process manager have met; None
            otherwise.
        appnum: number of this rank's section of the launcher's command line; None without a command line.
        world: generation of the world in an open job; 0 in any other job.
    """

    address: str
    key: bytes = dataclasses.field(repr=False)
    rank: int
    launched: bool
    engine: str = ""
    place: Place | None = None
    appnum: int | None = None
    world: int = 0

    @classmethod
    def from_environ(cls, settings: Settings, environ: Mapping[str, str] = os.environ) -> Contact | None:
        """Return the contact of the job for which this process was started; None if it runs alone.

        Raises:
            AuthenticationError: there is no key for the job, or it is too short.
            InvalidArgumentError: another variable of the launcher is not a number.
        """
        address = environ.get(ENV_CONTROL)
        if address is None:
            engine = settings.engine or bootstrap.find(environ)
            alone = engine in ("", bootstrap.NONE)
            return None if alone else cls("", b"", RANK_ANY, launched=True, engine=engine)
        rank, appnum = (_number(environ, name) for name in (ENV_RANK, ENV_APPNUM))
        key = parse_key(environ.get(ENV_KEY, ""))
        return cls(address, key, RANK_ANY if rank is None else rank, launched=True, appnum=appnum)

    async def met(self, engine: Engine) -> Contact | None:
        """Let the processes of the process manager agree on the key; return the contact, None if this process is alone.

        A thread does this, because libraries and sockets of process managers block.

        Raises:
            JobAbortedError: the process manager cannot be used, or the others cannot be reached.
            InvalidArgumentError: there is no process manager with the name of the setting `engine`.
            AuthenticationError: there is no key for the job, or it is too short.
        """
        if not self.engine:
            return self
        place = await in_thread(engine, partial(bootstrap.join, self.engine, os.environ, engine.settings))
        if place is None:
            return None
        return dataclasses.replace(self, key=place.key, rank=place.manager.rank, engine="", place=place)

    @property
    def local(self) -> bool:
        """True if the agent, and so every rank, is on this machine."""
        return self.address.startswith("unix:")

    def target(self) -> str | tuple[str, int]:
        """Return the address to connect to: the path of a Unix socket, or a host and a port.

        Raises:
            InvalidArgumentError: the address cannot be read.
        """
        kind, _, rest = self.address.partition(":")
        if kind == "unix":
            return rest
        host, _, port = rest.rpartition(":")
        host = host.strip("[]")
        if kind != "tcp" or not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 2**16:
            raise InvalidArgumentError(f"{rest!r} is no address of a job: expected HOST:PORT")
        return host, int(port)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise InvalidArgumentError(f"{name}={text!r} is no number, as a launcher sets it") from None


def in_thread(engine: Engine, call: Callable[[], T]) -> Request[T]:
    """Make a blocking call in a thread; return a request for its result.

    If no code waits any more, the thread ends with the process.
    """
    request: Request[T] = Request(engine)
    ours, theirs = socket.socketpair()
    outcome: list[Callable[[], None]] = []

    def run() -> None:
        with theirs:  # its end wakes any driver
            try:
                result = call()
            except Exception as error:
                outcome.append(partial(request.fail, error))
            else:
                outcome.append(partial(request.complete, result))

    def ended() -> None:
        engine.driver.remove_reader(ours.fileno())
        ours.close()
        if not request.done():
            outcome[0]()

    engine.driver.add_reader(ours.fileno(), ended)
    threading.Thread(target=run, name="aiompi-meeting", daemon=True).start()
    return request


class AgentConnection:
    """Exchanges control messages with the agent.

    Args:
        on_message: called with each message of the agent.
        on_lost: called with the cause if the connection ends before `finish`.

    Attributes:
        connected: request that is complete when the connection is made.
        closed: request that is complete when the connection has ended.
    """

    def __init__(
        self,
        engine: Engine,
        contact: Contact,
        on_message: Callable[[control.Message], object],
        on_lost: Callable[[str], object],
    ) -> None:
        self._driver = engine.driver
        self._decoder = control.Decoder()
        self._queue: deque[bytes] = deque()
        self._socket: socket.socket | None = None
        self._writing = False
        self._on_message = on_message
        self._on_lost = on_lost
        self._finishing = False
        self._watchdog: Timer | None = None
        self._companion: Companion | None = None  # of a rank that is connected over TCP
        self._heartbeat = 0.0  # 0: none, or not over TCP
        self.connected: Request[None] = Request(engine)
        self.closed: Request[None] = Request(engine)
        self._contact = contact
        self._settings = engine.settings
        self._timeout = _LAUNCHED if contact.launched else engine.settings.connect_timeout
        self._starting: Dialling | Resolving | None = None
        if contact.place is not None:
            self._connected(contact.place.connection)
            return
        target = contact.target()
        if isinstance(target, str):
            self._dial([(socket.AF_UNIX, target)])
        else:
            self._starting = (
                resolve(self._driver, target[0], engine.settings.connect_timeout, self._resolved, target[1])
                or self._starting
            )

    def _resolved(self, addresses: list[Address], cause: str | None) -> None:
        self._starting = None
        if cause is not None:
            self._failed(cause)
            return
        try:
            self._dial(addresses)
        except OSError as error:
            self._failed(describe(error))

    def _dial(self, addresses: list[Address]) -> None:
        contact = self._contact
        self._starting = Dialling(
            self._driver,
            addresses,
            lambda channel: Connector(
                contact.key, role=ROLE_CONTROL, rank=contact.rank, target=RANK_AGENT, channel=channel
            ),
            self._settings,
            Limits(self._timeout, wait_for_hello=contact.launched),
            self._dialled,
        )

    def _dialled(self, dialling: Dialling, cause: str | None) -> None:
        self._starting = None
        if cause is not None:
            self._failed(cause)
            return
        self._connected(dialling.socket)

    def _connected(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        self._socket = sock
        if sock.family != socket.AF_UNIX:
            liveness.end_if_silent(sock, liveness.LONG_SILENCE)  # until `watch` is called
            from aiompi.job.companion import Companion  # the launcher does its work on the agent's machine

            self._companion = Companion(sock, ends=self._contact.launched)
        self._driver.add_reader(sock.fileno(), self._readable)
        self._writable()
        self.connected.complete()

    def _failed(self, cause: str) -> None:
        address = self._contact.address.partition(":")[2]
        self.connected.fail(JobAbortedError(f"the job at {address} cannot be joined: {cause}"))

    @property
    def local_host(self) -> str:
        """Address of this machine in the connection to the agent, empty if the agent is on this machine."""
        if self._socket is None or self._socket.family == socket.AF_UNIX:
            return ""
        host: str = self._socket.getsockname()[0]
        return host

    @property
    def process(self) -> int:
        """Id of the process of the agent, 0 if it is on another machine or in another pid namespace."""
        sock = self._socket
        return 0 if sock is None or sock.family != socket.AF_UNIX else interfaces.credentials(sock)[0]

    def watch(self, heartbeat: float, namespace: str) -> None:
        """Treat the job as lost if the machine of the agent does not answer for `heartbeat` seconds.

        Args:
            namespace: see `aiompi.wire.control.Welcome`.
        """
        if self._socket is None or self._socket.family == socket.AF_UNIX:
            return
        self._heartbeat = heartbeat
        if self._watchdog is None:
            liveness.keep_alive(self._socket, heartbeat, end=True)  # for the companion
            if self._companion is not None and namespace and namespace != liveness.namespace():
                self._companion.report_stops(heartbeat)
        elif liveness.is_cut_off(self._socket, heartbeat):
            self._lost(f"its machine did not answer for {heartbeat:g} s (AIOMPI_HEARTBEAT)")
            return
        self._watchdog = self._driver.call_later(heartbeat / liveness.LOOKS, lambda: self.watch(heartbeat, namespace))

    def send(self, message: control.Message) -> None:
        """Send a message, or queue it until the connection is made."""
        self._queue.append(control.encode(message))
        if self._socket is not None:
            self._writable()

    def _writable(self) -> None:
        sock = self._socket
        while self._queue and sock is not None:
            try:
                sent = sock.send(self._queue[0])
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                    self._lost(describe(error))
                # Messages that the agent sent before its end can still be read.
                self._queue.clear()
                break
            if sent == len(self._queue[0]):
                self._queue.popleft()
            else:
                self._queue[0] = self._queue[0][sent:]
        self._watch(bool(self._queue))
        if self._finishing and not self._queue and sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)

    def abort(self, code: int, reason: str) -> None:
        """End the job, with this exit status and reason."""
        self.send(control.Abort(code, reason))
        if self._contact.place is None or self._socket is None:
            return
        self._socket.settimeout(_REPORT)
        with contextlib.suppress(OSError):
            self._socket.recv(1, socket.MSG_PEEK)  # the agent has printed the reason when it answers
        self._socket.settimeout(0)
        self._contact.place.manager.abort(code, reason)

    def finish(self) -> Request[None]:
        """Send the queued messages and no more. The request is complete when the agent has closed the connection."""
        self._finishing = True
        if self._socket is None:
            self.close()
        else:
            self._writable()
        return self.closed

    def _watch(self, writing: bool) -> None:
        if self._socket is None or writing == self._writing:
            return
        self._writing = writing
        if writing:
            self._driver.add_writer(self._socket.fileno(), self._writable)
        else:
            self._driver.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(2**16)
            messages = self._decoder.receive_data(data)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(describe(error))
            return
        except Exception as error:
            self._lost(cause_of(error))
            return
        for message in messages:
            if self._socket is not None:
                try:
                    self._on_message(message)
                except Exception as error:
                    self._lost(cause_of(error))
        if not data:
            self._lost(self._end())

    def _end(self) -> str:
        """Return why the connection has ended.

        The last system call may not have reported the error of the socket, or TLS may hide the error. So check how long
        the agent's machine has been silent.
        """
        silent = 0 < self._heartbeat <= (0.0 if self._socket is None else liveness.silence(self._socket))
        return liveness.CUT_OFF if silent else "the launcher is gone"

    def _lost(self, cause: str) -> None:
        if self._socket is not None:
            self.close()
            if not self._finishing:
                self._on_lost(cause)

    def close(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._starting is not None:
            self._starting.close()
            self._starting = None
        if self._companion is not None:
            self._companion.close()
        sock, self._socket = self._socket, None
        if sock is not None:
            self._driver.remove_reader(sock.fileno())
            if self._writing:
                self._driver.remove_writer(sock.fileno())
            sock.close()
        if not self.closed.done():
            if self._finishing and self._contact.place is not None:
                self._contact.place.manager.finalize()
            self.closed.complete()
