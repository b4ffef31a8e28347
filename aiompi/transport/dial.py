"""Making connections within a time limit: `Dialling` connects a socket, `Greeting` then exchanges the hello.

The accepting side uses `Greeting` alone.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aiompi.engine import Driver, Timer
from aiompi.engine.blame import cause_of
from aiompi.net import interfaces
from aiompi.net.handshake import Greeter, protection_of
from aiompi.settings import Settings
from aiompi.transport.resolve import Address
from aiompi.wire import liveness
from aiompi.wire.hello import Handshake, Protection

#: seconds between attempts when the backlog of a Unix listener is full; no event reports that it has room
BACKLOG_RETRY: Final = 0.005
#: seconds before reconnecting after the other side has dropped a connection: the first time, and at most
_RETRY_PAUSES: Final = (0.005, 0.5)
#: seconds for an attempt at an address while others are untried, in the first round; each further round doubles them
_FIRST_PATIENCE: Final = 1.0
#: errors which say that this process or its machine lacks resources for another connection
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
#: errors which say that this process may not connect
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})
#: errors which say that this machine cannot reach the address. Another attempt would hardly succeed. The launcher does
#: not know of these errors; after other errors this rank awaits a report of the launcher.
_UNREACHABLE: Final = frozenset(
    {errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
)


class Greeting:
    """A connection in its hello: a `Greeter` continues the hello whenever the driver finds the connection readable.

    Args:
        settings: have the certificate for encrypted connections.
        timeout: seconds that the other side has for each part of its hello; None for no limit. Once this side has
            answered a hello there is no limit, because the peer may be computing.
        done: called with this object and with None on success, or a description of the failure; never inside this
            constructor.

    Attributes:
        since: start of the greeting, by the clock of the driver.
    """

    def __init__(
        self,
        driver: Driver,
        sock: socket.socket,
        handshake: Handshake,
        settings: Settings,
        timeout: float | None,
        done: Callable[[Greeting, str | None], object],
    ) -> None:
        self.handshake = handshake
        self._greeter = Greeter(sock, handshake, settings)
        self._ended = False
        self._timeout = timeout
        self.since = self._heard = driver.now()
        self._needed = handshake.needed
        self._driver = driver
        self._done = done
        self._timer: Timer | None = None
        if timeout is not None:
            self._timer = driver.call_later(timeout, self._expire)
        driver.add_reader(sock.fileno(), self.read)

    @property
    def socket(self) -> socket.socket:
        """The connection; see `Greeter`."""
        return self._greeter.socket

    @property
    def silent(self) -> bool:
        """True until the other side has sent something."""
        return self._greeter.silent

    def read(self) -> None:
        """Begin the hello, or continue it with the bytes that the other side has sent."""
        try:
            done = self._greeter.advance()
        except OSError as error:
            self._end(describe(error))
        except Exception as error:
            self._end(cause_of(error))
        else:
            if done:
                self._end(None)
            elif self.handshake.needed != self._needed:
                self._heard, self._needed = self._driver.now(), self.handshake.needed

    def _expire(self) -> None:
        """End the hello if the time is over.

        Bytes that have already arrived count as in time, because this process may have been too busy to read them. The
        timer may also fire too early: an event loop measures a timer's delay from the start of the current turn,
        however long the turn takes.
        """
        self.read()
        if self._ended or self._timeout is None or self.handshake.answered:
            return
        left = self._heard + self._timeout - self._driver.now()
        if left > 0:
            self._timer = self._driver.call_later(left, self._expire)
        else:
            self._end("it did not answer the hello in time")

    def _end(self, cause: str | None) -> None:
        self._ended = True
        self.detach()
        if cause is not None:
            self.socket.close()
        self._done(self, cause)

    def detach(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._driver.remove_reader(self.socket.fileno())

    def close(self) -> None:
        self.detach()
        self.socket.close()


class Limits(NamedTuple):
    """How long a side that connects tries.

    Attributes:
        timeout: seconds for all connects, and again for the hello.
        retries: True to try again if the other side closes the connection before it has sent a byte. A side closes a
            connection in this way if too many other connections to it have not yet finished the hello.
        wait_for_hello: True to wait for the hello without a limit, because the other side may be computing. Another
            event then reports the end of the other side.
    """

    timeout: float
    retries: bool = False
    wait_for_hello: bool = False


class Dialling:
    """A connection that this side makes: it connects to the first reachable address, and then exchanges the hello.

    Args:
        addresses: addresses to try, in this order.
        new_handshake: takes the `Protection` of a new connection, and returns the handshake for it.
        settings: say whether and how connections are encrypted.
        limits: how long to try. An address that does not answer soon is tried again after the others.
        done: called with this object and with None on success, or a description of the failure; never inside this
            constructor.

    Attributes:
        failed_here: True if the connection failed because of this process, or for an unknown reason. No other process
            can report such a failure.

    Raises:
        OSError: there are no descriptors left.
    """

    def __init__(
        self,
        driver: Driver,
        addresses: Sequence[Address],
        new_handshake: Callable[[Protection], Handshake],
        settings: Settings,
        limits: Limits,
        done: Callable[[Dialling, str | None], object],
    ) -> None:
        self.failed_here = True
        self._driver = driver
        self._addresses = deque(addresses)
        self._unanswered: deque[Address] = deque()
        self._patience = _FIRST_PATIENCE
        self._new_handshake = new_handshake
        self._settings = settings
        self._limits = limits
        self._done = done
        self._deadline = driver.now() + limits.timeout
        self._hello_deadline = 0.0  # of the current address; set when the first attempt has connected
        self._pause = _RETRY_PAUSES[0]
        self._causes: dict[str, None] = {}
        self._greeting: Greeting | None = None
        self._waiting = False
        self._next()

    def _next(self) -> None:
        """Begin with the next address. The last address gets all the remaining time."""
        timeout = max(0.0, self._deadline - self._driver.now())
        self._family, self._target = self._addresses.popleft()
        if self._addresses or self._unanswered:
            timeout = min(timeout, self._patience)
        self._hello_deadline, self._pause = 0.0, _RETRY_PAUSES[0]
        self._start(0.0, timeout)

    def _start(self, delay: float, timeout: float) -> None:
        self.socket = socket.socket(self._family, socket.SOCK_STREAM)
        self.socket.settimeout(0)
        self._timer: Timer = self._driver.call_later(delay, self._connect)
        self._limit: Timer = self._driver.call_later(timeout, self._timed_out)

    def _connect(self) -> None:
        code = self.socket.connect_ex(self._target)
        if code == errno.EINPROGRESS and self._is_connected():  # on this machine TCP connects at once
            code = 0
        if code in (0, errno.EISCONN):
            self._connected()
        elif code == errno.EINPROGRESS:
            self._waiting = True
            self._driver.add_writer(self.socket.fileno(), self._connect_ended)
        elif code == errno.EAGAIN:
            self._timer = self._driver.call_later(BACKLOG_RETRY, self._connect)
        else:
            self._refused(code)

    def _connect_ended(self) -> None:
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._refused(code)
        else:
            self._connected()

    def _refused(self, code: int) -> None:
        cause = os.strerror(code)
        if code in _DENIED and self.socket.family == socket.AF_UNIX:
            cause += (
                ": the user of this process may not reach the sockets of the job; start it as the same user, or drop "
                "privileges before MPI starts"
            )
        elif code in _DENIED:
            cause += ": a rule of this machine forbids it, such as one of its firewall"
        elif code in _UNREACHABLE:
            cause += ": is the network interface up? `ip route get ADDRESS` shows which one is used"
        self._cannot_connect(cause, here=code in _DENIED | EXHAUSTED | _UNREACHABLE)

    def _is_connected(self) -> bool:
        try:
            self.socket.getpeername()
        except OSError:
            return False
        return True

    def _timed_out(self) -> None:
        if self._is_connected():  # while this process computed
            self._connected()
        else:
            self._unanswered.append((self._family, self._target))
            self._cannot_connect("no answer in time", here=True)

    def _unwatch(self) -> None:
        self._timer.cancel()
        self._limit.cancel()
        if self._waiting:
            self._waiting = False
            self._driver.remove_writer(self.socket.fileno())

    def _connected(self) -> None:
        self._unwatch()
        self._hello_deadline = self._hello_deadline or self._driver.now() + self._limits.timeout
        timeout = None if self._limits.wait_for_hello else self._limits.timeout
        handshake = self._new_handshake(protection_of(self.socket, self._settings))
        self._greeting = Greeting(self._driver, self.socket, handshake, self._settings, timeout, self._greeted)
        self._greeting.read()

    def _greeted(self, greeting: Greeting, cause: str | None) -> None:
        self._greeting = None
        self.socket = greeting.socket
        if cause is None:
            self._done(self, None)
            return
        left = self._hello_deadline - self._driver.now()
        if not (greeting.silent and self._limits.retries and left > 0):
            self._failed(cause, here=False)
            return
        try:
            self._start(self._pause, left)  # in place of the connection that the other side has dropped
        except OSError as error:
            self._failed(describe(error), here=error.errno in EXHAUSTED)
            return
        self._pause = min(2 * self._pause, _RETRY_PAUSES[1])

    def _cannot_connect(self, cause: str, *, here: bool) -> None:
        self._unwatch()
        self.socket.close()
        where = "" if self._family == socket.AF_UNIX else f" at {interfaces.join_address(*self._target[:2])}"
        self._failed(f"cannot connect to it{where}: {cause}", here=here)

    def _failed(self, cause: str, *, here: bool) -> None:
        """Try the next address, or report the failure."""
        self.failed_here = self.failed_here and here
        self._causes[cause] = None
        if not self._addresses and self._driver.now() < self._deadline:
            self._addresses, self._unanswered = self._unanswered, self._addresses
            self._patience *= 2
        if self._addresses:
            try:
                self._next()
                return
            except OSError as error:
                self.failed_here = True
                self._causes[describe(error)] = None
        self._done(self, "; ".join(self._causes))

    def close(self) -> None:
        """Give up without a call of `done`."""
        self._unwatch()
        if self._greeting is not None:
            self._greeting.close()  # whose socket takes the place of this one
        self.socket.close()


def describe(error: OSError) -> str:
    """Return a description of the failure of a connection.

    Raises:
        OSError: `error` itself if it has no errno, such as a TimeoutError that a signal handler has raised.
    """
    if error.errno is None:
        raise error
    if error.errno in EXHAUSTED:
        return f"this process has no resources left for its connection: {error.strerror}; raise its limits (ulimit -a)"
    return f"its connection failed: {liveness.describe(error)}"
