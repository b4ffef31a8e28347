"""Making a connection: connect, then the hello, under a time limit."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import Any, Final

from aiompi.engine import Driver, Timer
from aiompi.errors import RemoteProtocolError
from aiompi.wire.hello import Handshake

#: seconds between attempts when the backlog of a Unix listener is full; there is no readiness to wait for
BACKLOG_RETRY: Final = 0.005
#: seconds until a connection that was turned away is made again, at first and at most
_AGAIN: Final = (0.005, 0.5)
#: errors which say that this process, or its machine, has too little left for one more connection
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
#: errors which say that this process may not connect
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})


class Greeting:
    """A connection on which the hello is being exchanged.

    Args:
        timeout: seconds in which the other side is to say something, each time; None for as long as it takes.

    Attributes:
        silent: whether the other side has not said anything yet.
    """

    def __init__(
        self,
        driver: Driver,
        sock: socket.socket,
        handshake: Handshake,
        timeout: float | None,
        done: Callable[[Greeting, str | None], object],
    ) -> None:
        self.socket = sock
        self.handshake = handshake
        self.silent = True
        self._ended = False
        self._timeout = timeout
        self._heard = driver.now()
        self._driver = driver
        self._done = done
        self._timer: Timer | None = None
        if timeout is not None:
            self._timer = driver.call_later(timeout, self._expire)
        driver.add_reader(sock.fileno(), self.look)

    def begin(self) -> None:
        """Say what this side has to say first."""
        self._flush()

    def look(self) -> None:
        """Read what the other side has said, if anything."""
        try:
            data = self.socket.recv(self.handshake.needed)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(describe(error))
            return
        if not data:
            self._end("it closed the connection during the hello: is the key of the job the right one?")
            return
        self.silent = False
        self._heard = self._driver.now()
        try:
            self.handshake.receive_data(data)
        except RemoteProtocolError as error:
            self._end(str(error))
            return
        if self._flush() and self.handshake.done:
            self._end(None)

    def _flush(self) -> bool:
        data = self.handshake.data_to_send()
        try:
            # A hello is far smaller than the buffer of a fresh connection: less than all of it means an error.
            if data and self.socket.send(data) < len(data):
                raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        except OSError as error:
            self._end(describe(error))
            return False
        return True

    def _expire(self) -> None:
        """The time is over, unless this process did something else meanwhile.

        What has come by then is not late, and an event loop that was held up begins its timers too early.
        """
        self.look()
        if self._ended or self._timeout is None:
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


class Dialling:
    """A connection being made by this side: connect, then a greeting.

    Args:
        target: what the socket connects to.
        timeout: seconds to connect, and again for the hello; later attempts have what is left of the first one.
        patient: whether the hello may take as long as it does: the other side may be computing, and somebody else tells
            of its end.
        done: called with this and None, or with what went wrong; never inside this constructor.
        renew: gives another handshake, to begin again where the other side ends the connection before it has said
            anything, as it does when there are too many strangers. None: that is the end.

    Attributes:
        hindered: whether it has failed for a reason that is here, or for none that is known: nobody else can tell.
    """

    def __init__(
        self,
        driver: Driver,
        sock: socket.socket,
        target: Any,
        handshake: Handshake,
        timeout: float,
        done: Callable[[Dialling, str | None], object],
        renew: Callable[[], Handshake] | None = None,
        patient: bool = False,
    ) -> None:
        self.socket = sock
        self.hindered = False
        self._driver = driver
        self._target = target
        self._handshake = handshake
        self._timeout = timeout
        self._done = done
        self._renew = renew
        self._patient = patient
        self._until = driver.now() + timeout
        self._pause, self._longest_pause = _AGAIN
        self._greeting: Greeting | None = None
        self._waiting = False
        self._begin(0.0)

    def _begin(self, delay: float) -> None:
        self.socket.setblocking(False)
        self._timer: Timer = self._driver.call_later(delay, self._connect)
        self._limit: Timer = self._driver.call_later(self._timeout, self._late)

    def _connect(self) -> None:
        code = self.socket.connect_ex(self._target)
        if code in (0, errno.EISCONN):
            self._connected()
        elif code == errno.EINPROGRESS:
            self._waiting = True
            self._driver.add_writer(self.socket.fileno(), self._progressed)
        elif code == errno.EAGAIN:
            self._timer = self._driver.call_later(BACKLOG_RETRY, self._connect)
        else:
            self._refused(code)

    def _progressed(self) -> None:
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._refused(code)
        else:
            self._connected()

    def _refused(self, code: int) -> None:
        self.hindered = code in _DENIED or code in EXHAUSTED
        cause = os.strerror(code)
        if code in _DENIED and self.socket.family == socket.AF_UNIX:
            cause += (
                ": the user of this process may not reach the sockets of the job; start it as the same user, or drop "
                "privileges before MPI starts"
            )
        elif code in _DENIED:
            cause += ": a rule of this machine forbids it, such as one of its firewall"
        self._failed(cause)

    def _late(self) -> None:
        self.hindered = True
        self._failed("no answer in time")

    def _unwatch(self) -> None:
        self._timer.cancel()
        self._limit.cancel()
        if self._waiting:
            self._waiting = False
            self._driver.remove_writer(self.socket.fileno())

    def _connected(self) -> None:
        self._unwatch()
        timeout = None if self._patient else self._timeout
        self._greeting = Greeting(self._driver, self.socket, self._handshake, timeout, self._greeted)
        self._greeting.begin()

    def _greeted(self, greeting: Greeting, cause: str | None) -> None:
        self._greeting = None
        if cause is not None and greeting.silent and self._renew is not None and self._driver.now() < self._until:
            self._again(self._renew())
        else:
            self._done(self, cause)

    def _again(self, handshake: Handshake) -> None:
        """Make another connection in the place of one that was turned away."""
        try:
            self.socket = socket.socket(self.socket.family, self.socket.type)
        except OSError as error:
            self.hindered = error.errno in EXHAUSTED
            self._done(self, describe(error))
            return
        self._handshake = handshake
        self._timeout = self._until - self._driver.now()
        self._begin(self._pause)
        self._pause = min(2 * self._pause, self._longest_pause)

    def _failed(self, cause: str) -> None:
        self._unwatch()
        self.socket.close()
        self._done(self, f"cannot connect to it: {cause}")

    def close(self) -> None:
        """Give up, without a word."""
        self._unwatch()
        if self._greeting is not None:
            self._greeting.detach()
        self.socket.close()


def describe(error: OSError) -> str:
    """What became of a connection, in words.

    Raises:
        OSError: the error itself, when no system call raised it but a signal handler, as a TimeoutError of its own.
    """
    if error.errno is None:
        raise error
    if error.errno in EXHAUSTED:
        return f"this process has no resources left for its connection: {error.strerror}; raise its limits (ulimit -a)"
    return f"its connection failed: {error.strerror or error}"
