"""The directory of a running job, which holds the job's sockets and which only its owner may enter.

The launcher and its watchdog keep the directory locked (flock) while they run, so a directory with a free lock is left
over from a dead job. A directory is locked before it gets its final name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Final

#: name of the socket through which other launchers of the user look at the job
TOP: Final = "top"
_PREFIX: Final = "aiompi-"
_LOCK: Final = "lock"
_NAME_BYTES: Final = 8
_DIGITS: Final = "0123456789abcdef"
_UNLOCKED: Final = 60.0  # seconds after which a directory without its final name is left over

# A Unix socket address holds 107 bytes, of which names of sockets need up to 32.
_MAX_PATH: Final = 107 - 32


class RunDirectory:
    """A new directory with mode 0700, locked.

    Attributes:
        path: absolute.

    Raises:
        OSError: no directory can hold it; the message names the tried directories.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        base = _base(environ)
        _sweep(base)
        name = os.urandom(_NAME_BYTES).hex()
        self.path = os.path.join(base, _PREFIX + name)
        hidden = os.path.join(base, f".{_PREFIX}{name}")
        self._lock = -1
        try:
            os.mkdir(hidden, 0o700)
            if not os.access(hidden, os.W_OK | os.X_OK):
                os.rmdir(hidden)
                raise OSError(f"the umask denies this user its own files, as in {base}: set another one (umask 077)")
            self._lock = os.open(os.path.join(hidden, _LOCK), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            except OSError as error:
                cause = f"files in {base} cannot be locked (flock: {error.strerror})"
                raise OSError(f"{cause}: set XDG_RUNTIME_DIR to another directory") from None
            os.rename(hidden, self.path)
        except BaseException:
            remove_tree(hidden)
            self.remove()
            raise

    def join(self, name: str) -> str:
        """Return the path of a file in the directory."""
        return os.path.join(self.path, name)

    def remove(self) -> None:
        """Delete the directory with its contents, and release the lock. May be called twice."""
        remove_tree(self.path)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_tree(path: str) -> None:
    """Delete a directory; missing files are not an error."""
    try:
        for name in os.listdir(path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(path, name))
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM, errno.ENOTEMPTY):
            raise
        import shutil  # slow to import, and needed only if a rank has put files there

        shutil.rmtree(path, ignore_errors=True)


def of_this_user(environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield the directories of jobs of this user on this machine, wherever a launcher may have put them."""
    for base in dict.fromkeys(os.path.abspath(path) for path in _places(environ) if path):
        with contextlib.suppress(OSError):
            yield from _candidates(base, _PREFIX)


def _places(environ: Mapping[str, str]) -> list[str]:
    return [environ.get(name, "") for name in ("XDG_RUNTIME_DIR", "TMPDIR")] + ["/tmp", "/var/tmp"]


def _base(environ: Mapping[str, str]) -> str:
    candidates = _places(environ)
    for path in candidates:
        longest = os.path.join(os.path.abspath(path), _PREFIX + "0" * 2 * _NAME_BYTES)
        if path and len(os.fsencode(longest)) <= _MAX_PATH and os.access(path, os.W_OK | os.X_OK):
            return os.path.abspath(path)
    tried = ", ".join(path for path in candidates if path)
    raise OSError(
        f"no directory for the sockets of the job: none of {tried} is writable with a path short enough; "
        "set XDG_RUNTIME_DIR"
    )


def _sweep(base: str) -> None:
    """Delete directories of dead jobs of this user, and directories that a launcher has created but never locked."""
    for path in _candidates(base, f".{_PREFIX}"):
        with contextlib.suppress(OSError):
            if time.time() - os.stat(path).st_mtime > _UNLOCKED:
                remove_tree(path)
    for path in _candidates(base, _PREFIX):
        with contextlib.suppress(OSError):
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(path)
            finally:
                os.close(lock)


def _candidates(base: str, prefix: str) -> Iterator[str]:
    with os.scandir(base) as entries:
        for entry in entries:
            random = entry.name.removeprefix(prefix)
            if random == entry.name or len(random) != 2 * _NAME_BYTES or random.strip(_DIGITS):
                continue  # it may belong to another program
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                    yield entry.path
