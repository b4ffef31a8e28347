"""Published names: files by which processes of one user find each other's ports (MPI-2, section 5.4.4).

The file of a service contains the name of its port, and says which process has published the service. That process
removes the file when it ends. The file of a killed process is ignored, and overwritten when the name is published
again. Files appear atomically: a process writes a temporary file and renames it. Temporary files of killed processes
are removed when any name is published.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
from collections.abc import Iterator
from typing import Any, Final

from aiompi.base.arguments import text
from aiompi.engine import Engine
from aiompi.errors import InvalidServiceError, NotPublishedError
from aiompi.settings import Settings

#: bytes of a service name
_LONGEST: Final = 100
#: seconds after which an unfinished file counts as left over; writing one takes a millisecond
_UNFINISHED: Final = 60.0
#: names of these files: the user may choose a directory that has other files as well
_TEMPORARY: Final = re.compile(r"[0-9a-f]+\.aiompi-[0-9]+")


class PublishedNames:
    """The names that a rank has published. When the rank ends, the names that are still published are withdrawn.

    Args:
        engine: of the rank.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._published: set[str] = set()

    def publish(self, service: str, port: str) -> None:
        """Publish the name of a port (MPI_Publish_name); see the function `publish`."""
        if self._engine.error is not None:
            raise self._engine.error  # nothing would withdraw it
        publish(self._engine.settings, service, port)
        self._published.add(service)

    def withdraw(self, service: str) -> None:
        """Undo `publish` (MPI_Unpublish_name)."""
        withdraw(self._engine.settings, service)
        self._published.discard(service)

    def lookup(self, service: str) -> str:
        """Return the name of the port that was published with a service (MPI_Lookup_name)."""
        return lookup(self._engine.settings, service)

    def close(self) -> None:
        """Withdraw the names that are still published."""
        for service in [*self._published]:
            with contextlib.suppress(InvalidServiceError, OSError):  # a program has cleared the directory
                self.withdraw(service)


def publish(settings: Settings, service: str, port: str) -> str:
    """Publish the name of a port; return the file, for `withdraw`.

    Raises:
        InvalidServiceError: a living process has published the name, or the name is too long or empty, or the directory
            cannot be used.
        TypeError: an argument is no string.
    """
    text(port, "port_name")
    path = _path(settings, service)
    holder = _holder(path)
    if holder is not None:
        raise InvalidServiceError(
            f"Publish_name: {service!r} is taken: process {holder['pid']} on {holder['host']} has published it"
        )
    entry = {"port": port, "pid": os.getpid(), "start": _start(os.getpid()), "host": socket.gethostname()}
    temporary = f"{path}.aiompi-{os.getpid()}"
    with _usable(os.path.dirname(path)):
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump(entry, file)
            _clear(temporary)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    return path


def _clear(newest: str) -> None:
    """Remove unfinished files of killed processes that are much older than the newest file."""
    limit = os.stat(newest).st_mtime - _UNFINISHED
    for entry in os.scandir(os.path.dirname(newest)):
        with contextlib.suppress(OSError):  # another process removes it, too
            if _TEMPORARY.fullmatch(entry.name) and entry.stat().st_mtime < limit:
                os.unlink(entry.path)


def withdraw(settings: Settings, service: str) -> None:
    """Undo `publish`.

    Raises:
        InvalidServiceError: this process has not published the name.
    """
    path = _path(settings, service)
    holder = _holder(path)
    if holder is None or holder["pid"] != os.getpid():
        raise InvalidServiceError(f"Unpublish_name: this process has not published {service!r}")
    os.unlink(path)


def lookup(settings: Settings, service: str) -> str:
    """Return the name of the port of a service.

    Raises:
        NotPublishedError: no living process has published it.
    """
    path = _path(settings, service)
    holder = _holder(path)
    if holder is None:
        directory = os.path.dirname(path)
        raise NotPublishedError(
            f"Lookup_name: {service!r} is not published, as far as {directory} tells (setting AIOMPI_NAMES)"
        )
    return str(holder["port"])


@contextlib.contextmanager
def _usable(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidServiceError(
            f"{directory} cannot be used for published names: {error.strerror}; set AIOMPI_NAMES to another directory"
        ) from error


def _path(settings: Settings, service: str) -> str:
    encoded = text(service, "service_name").encode().hex()
    if not 0 < len(encoded) <= 2 * _LONGEST:
        raise InvalidServiceError(f"a service name has 1 to {_LONGEST} bytes; {service!r} has {len(encoded) // 2}")
    import tempfile  # for jobs that publish names; a forked rank must not inherit its random numbers

    directory = settings.names or os.path.join(tempfile.gettempdir(), f"aiompi-names-{os.getuid()}")
    with _usable(directory):
        os.makedirs(directory, 0o700, exist_ok=True)
        # In a directory where all users may write, another user could have made a link to a directory of this user.
        found = os.stat(directory, follow_symlinks=bool(settings.names))
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise InvalidServiceError(f"{directory} is not private to this user; set AIOMPI_NAMES to one that is")
    return os.path.join(directory, encoded)


def _holder(path: str) -> dict[str, Any] | None:
    """Return the entry of a service; None if the service has no entry, or the process of its entry has ended."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(path, encoding="utf-8") as file:
            entry: dict[str, Any] = json.load(file)
        if entry["host"] != socket.gethostname() or _start(entry["pid"]) == entry["start"]:
            return entry
    return None


def _start(pid: int) -> str:
    """Return when a process started, which distinguishes it from later processes with the same id."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(") ")[2].split()[19]
