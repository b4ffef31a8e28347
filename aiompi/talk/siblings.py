"""The job of processes with one parent, such as the workers of a web server; they find the job without configuration.

The first of the processes starts a server of the job. The server writes its address and the key of the job to a file
that only the user of the processes can read. The server holds a lock on the file as long as it lives, so that no
process uses the file of a dead server.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from aiompi.errors import LocalProtocolError
from aiompi.job.members import serve

#: seconds without members after which the server ends: at first, and later
_FIRST_PATIENCE: Final = 30
_PATIENCE: Final = 2
#: seconds between two looks at a file that a server has not written yet
_PAUSE: Final = 0.02


def meet() -> tuple[str, str]:
    """Return address and key of the job of this process and its siblings; start the job if there is none. Blocks.

    Siblings have the same parent, user, command line and working directory.

    Raises:
        LocalProtocolError: the directory belongs to another user, or the server does not start.
    """
    while True:
        path = _directory() / f"{_name()}.job"
        with contextlib.suppress(FileNotFoundError):  # a server that ends has removed the directory
            found = _read_or_start(path)
            if found:
                address, key = found.split()
                return address, key
        time.sleep(_PAUSE)


def _read_or_start(path: Path) -> str:
    """Return the content of the job's file, empty if the server has not written it; start a server if none runs."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if _is_free(file):
            if not os.path.samestat(os.fstat(file), os.stat(path)):  # a server that ends has removed the file
                return ""
            _start(file, path)
        return os.pread(file, 1000, 0).decode("ascii")
    finally:
        os.close(file)


def _directory() -> Path:
    """Return a directory for files of this user alone."""
    path = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"aiompi-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise LocalProtocolError(f"{path} must be a directory of this user that nobody else can read")
    return path


def _name() -> str:
    parent = os.getppid()
    try:  # the start time of the parent, because its number may be used again
        started = Path(f"/proc/{parent}/stat").read_text("utf8", "replace").rpartition(")")[2].split()[19]
    except OSError:
        started = ""
    words = "\0".join([str(parent), started, os.getcwd(), *sys.argv])
    return hashlib.sha256(words.encode("utf8", "surrogateescape")).hexdigest()[:32]


def _is_free(file: int) -> bool:
    """Lock a file; return False if a server has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start(file: int, path: Path) -> None:
    """Start the server, hand it the locked file, and wait until it listens."""
    os.ftruncate(file, 0)
    server = subprocess.Popen(
        [sys.executable, "-m", "aiompi.talk.siblings", str(file), str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        pass_fds=[file],
        start_new_session=True,  # Ctrl-C must not end the server before the workers leave
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert server.stdout is not None
    with server.stdout as output:
        if not output.readline():
            raise LocalProtocolError(f"the server of the job of this process has ended with status {server.wait()}")


async def _serve(file: int, path: Path) -> None:
    """Serve a job until it has had no members for a while."""
    async with serve() as job:
        os.pwrite(file, f"{job.address} {job.key}".encode("ascii"), 0)
        print("ready", flush=True)
        changes, patience = job.changes(), _FIRST_PATIENCE
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(None if job.members() else patience):
                    await anext(changes)
                patience = _PATIENCE
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other processes have files there
            path.parent.rmdir()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), Path(sys.argv[2])))
