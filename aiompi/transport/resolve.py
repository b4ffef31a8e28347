"""Host names: `resolve` finds the addresses of a name without blocking, `numeric` reads a numeric address."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from aiompi.engine import Driver
from aiompi.net.interfaces import encoded

#: family of a socket, and what the socket connects or binds to
Address: TypeAlias = tuple[socket.AddressFamily, Any]


def numeric(host: str, port: int) -> Address:
    """Return the address of a host from its numeric address. This never asks a name server.

    Raises:
        OSError: the host is a name, or the port is impossible.
    """
    try:
        return _look_up(host, port, socket.AI_NUMERICHOST)[0]
    except (OSError, ValueError, TypeError):
        raise OSError(errno.EINVAL, f"{host!r} is no numeric address, or {port!r} no port") from None


def _look_up(host: str, port: int, flags: int = 0) -> list[Address]:
    if not isinstance(host, str) or not 0 <= port < 2**16:
        raise ValueError(f"{host!r} is no host, or {port} no port")
    found = socket.getaddrinfo(encoded(host), port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, target) for family, _, _, _, target in found]


def resolve(
    driver: Driver, host: str, timeout: float, done: Callable[[list[Address], str | None], object], port: int = 0
) -> Resolving | None:
    """Find the addresses of a host; then call `done(addresses, None)`, or `done([], cause)` on failure.

    Args:
        host: name or numeric address; for a numeric address, `done` is called at once.
        timeout: seconds to wait for an answer.

    Returns:
        An object whose `close` gives up; None if `done` has already been called.
    """
    try:
        address = numeric(host, port)
    except OSError:
        return Resolving(driver, host, timeout, done, port)
    done([address], None)
    return None


class Resolving:
    """A host name that is being resolved.

    A daemon thread makes the blocking call. In the event loop's default executor, the blocking call would delay the end
    of `asyncio.run` until the name servers answer. A socket pair wakes any driver.
    """

    def __init__(
        self,
        driver: Driver,
        host: str,
        timeout: float,
        done: Callable[[list[Address], str | None], object],
        port: int,
    ) -> None:
        self._driver = driver
        self._done = done
        self._found: list[Address] = []
        self._cause: str | None = None
        self._socket, other = socket.socketpair()
        self._timer = driver.call_later(timeout, self._timed_out)
        driver.add_reader(self._socket.fileno(), self._answered)
        threading.Thread(target=self._run, args=(other, host, port), name="aiompi-resolver", daemon=True).start()

    def _run(self, other: socket.socket, host: str, port: int) -> None:
        with other:  # its close is the signal for the driver
            try:
                self._found = _look_up(host, port)
            except OSError as error:
                self._cause = f"the name {host!r} cannot be resolved: {error.strerror or error}"
            except Exception as error:  # such as UnicodeError, if a part of the name is too long
                self._cause = f"{host!r} is no host name: {error}"

    def _answered(self) -> None:
        self.close()
        self._done(self._found, self._cause)

    def _timed_out(self) -> None:
        self.close()
        self._done([], "no name server has answered in time")

    def close(self) -> None:
        """Give up. The thread ends by itself."""
        self._timer.cancel()
        if self._socket.fileno() >= 0:
            self._driver.remove_reader(self._socket.fileno())
            self._socket.close()
