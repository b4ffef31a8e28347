"""Jobs of real processes, and checks of what they leave behind.

A `Site` is a place for the jobs of one test: their processes carry a mark in their environment, their run directories
have a parent of their own, so that everything that a job leaves behind can be found and told from everything else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiompi
import aiompi_launcher
from aiompi import core

from .limits import LIMIT

ROOTS: Final = [str(Path(module.__file__ or "").parent.parent) for module in (aiompi, aiompi_launcher)]
LAUNCHER: Final = (sys.executable, "-m", "aiompi_launcher")
FACES: Final = ("native", "blocking")
KEY: Final = bytes(range(16)).hex()

#: how ranks of one host reach each other in this form of the core
NEAREST: Final = "shared_memory" if core.form == "native" else "unix"

_MARK: Final = "AIOMPI_TEST_SITE"


def clean_environ() -> dict[str, str]:
    """Return the environment of this process without settings. Other processes have the same form of the core."""
    ours = ("AIOMPI_", "IMPI_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"AIOMPI_CORE": core.form}


def in_face(face: str, body: str) -> str:
    """Return a program with statements on `comm` with awaits; for the blocking face the awaits are removed."""
    head = "import os, select, signal, sys\nimport aiompi\n"
    body = textwrap.dedent(body)
    if face == "native":
        return f"{head}async def main(comm):\n{textwrap.indent(body, '    ')}\naiompi.run(main)\n"
    return f"{head}from aiompi import MPI\ncomm = MPI.COMM_WORLD\n{body.replace('await ', '')}"


@dataclasses.dataclass(frozen=True)
class Result:
    """The end of a process: exit status (negative: signal) and its output."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of standard output, sorted because the order among ranks is arbitrary."""
        return sorted(self.out.splitlines())


@dataclasses.dataclass(frozen=True)
class Port:
    """An address that anyone can connect to, and the process that listens there."""

    family: socket.AddressFamily
    address: Any
    owner: int = 0

    def connect(self) -> socket.socket:
        """A new connection to it, with a time limit on everything."""
        connection = socket.socket(self.family, socket.SOCK_STREAM)
        connection.settimeout(LIMIT)
        connection.connect(self.address)
        return connection


def _listening() -> Iterator[tuple[str, Port]]:
    """Return all listening sockets of this machine with their inodes."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *rest = line.split()
        host, port = local.split(":")
        if state == "0A":
            address = socket.inet_ntoa(bytes.fromhex(host)[::-1])
            yield rest[5], Port(socket.AF_INET, (address, int(port, 16)))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        _, _, _, flags, _, _, inode, *path = line.split(maxsplit=7)
        if int(flags, 16) & 0x10000 and path:
            yield inode, Port(socket.AF_UNIX, path[0].replace("@", "\0", 1))


class Running:
    """A running process.

    Attributes:
        process: it.
        out, err: what it has printed, as far as that has been read.
    """

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], directory: Path) -> None:
        self.process = subprocess.Popen(
            argv,
            env=environ,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.out = self.err = ""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._open = {"out": self.process.stdout, "err": self.process.stderr}

    def expect(self, text: str, times: int = 1) -> None:
        """Read until the process has printed the text this many times."""
        deadline = time.monotonic() + LIMIT
        while (self.out + self.err).count(text) < times:
            assert self._read(deadline), f"no {text!r} in {self.out!r}, {self.err!r}"

    def signal(self, signum: int) -> None:
        self.process.send_signal(signum)

    def finish(self, limit: float = LIMIT) -> Result:
        """Wait for the end of the process."""
        deadline = time.monotonic() + limit
        while self._read(deadline):
            pass
        try:
            code = self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it hangs; it has printed {self.out!r}, {self.err!r}") from None
        return Result(code, self.out, self.err)

    def close(self) -> None:
        with self.process:
            self.process.kill()

    def _read(self, deadline: float) -> bool:
        """Read the available output. Return False if both outputs have ended, or at the deadline."""
        pipes = {pipe: name for name, pipe in self._open.items()}
        ready, _, _ = select.select(pipes, [], [], max(0.0, deadline - time.monotonic()))
        for pipe in ready:
            data = os.read(pipe.fileno(), 2**16).decode()
            setattr(self, pipes[pipe], getattr(self, pipes[pipe]) + data)
            if not data:
                del self._open[pipes[pipe]]
        return bool(ready and self._open)


class Site:
    """A place for jobs.

    Args:
        directory: for programs and their output.
        base: parent of the run directories; its path must be short, as those of Unix sockets must be.

    Attributes:
        environ: of every process that is started here.
    """

    def __init__(self, directory: Path, base: Path) -> None:
        self.directory = directory
        self.base = base
        self._mark = f"{_MARK}={base}"
        self.environ = clean_environ() | {
            _MARK: str(base),
            "XDG_RUNTIME_DIR": str(base),
            "PYTHONPATH": os.pathsep.join(ROOTS),
            "PYTHONWARNINGS": "error::ResourceWarning",
            "OPENBLAS_NUM_THREADS": "1",  # NumPy's threads take a fifth of the time in which a rank starts
        }
        self._running: list[Running] = []

    def program(self, text: str, name: str = "app.py") -> str:
        """Write a program. Return its path."""
        path = self.directory / name
        path.write_text(text, encoding="utf8")
        return str(path)

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> Running:
        """Start any process."""
        running = Running(argv, self.environ | dict(env or {}), self.directory)
        self._running.append(running)
        return running

    def launch(self, *args: str, env: Mapping[str, str] | None = None) -> Running:
        """Start a launcher with these arguments."""
        return self.start(*LAUNCHER, *args, env=env)

    def serve(self, size: int, *args: str) -> tuple[Running, str]:
        """Start a launcher that waits for ranks with KEY. Return the address that it prints."""
        job = self.launch("--serve", str(size), *args, env={"AIOMPI_KEY": KEY})
        job.expect("\n")
        return job, job.out.strip()

    def run(self, size: int, text: str, *args: str, env: Mapping[str, str] | None = None) -> Result:
        """Run a program, given as text, as a job of `size` ranks to its end."""
        return self.launch("-n", str(size), self.program(text), *args, env=env).finish()

    def ok(self, size: int, text: str, *args: str, env: Mapping[str, str] | None = None) -> Result:
        """Run a program as a job that must succeed, in silence on standard error."""
        result = self.run(size, text, *args, env=env)
        assert (result.code, result.err) == (0, ""), result
        return result

    def directories(self) -> list[str]:
        """Return the names in the parent of the run directories."""
        return sorted(os.listdir(self.base))

    def processes(self) -> dict[int, str]:
        """Return the running processes that were started here, directly or indirectly: pid -> command line."""
        return dict(self._marked())

    def ports(self) -> list[Port]:
        """Return the sockets on which processes started here listen."""
        owners = self._sockets()
        return [dataclasses.replace(port, owner=owners[inode]) for inode, port in _listening() if inode in owners]

    def settle(self, limit: float = LIMIT) -> None:
        """Wait until no process is left, and check that no file is.

        Raises:
            AssertionError: something is.
        """
        deadline = time.monotonic() + limit
        while left := self.processes():
            assert time.monotonic() < deadline, f"processes are left: {left}"
            self._await_end(next(iter(left)), deadline)
        assert not (left_over := self.directories()), f"files are left: {left_over}"

    def close(self) -> None:
        """End the processes that a failed test has left."""
        for running in self._running:
            running.close()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _marked(self) -> Iterator[tuple[int, str]]:
        mark = os.fsencode(self._mark)
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # it has ended meanwhile, or belongs to another user
                if mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    command = Path("/proc", name, "cmdline").read_bytes()
                    yield int(name), command.replace(b"\0", b" ").decode(errors="replace")

    def _sockets(self) -> dict[str, int]:
        """Inodes of the sockets that the processes started here have open, and the last process that has."""
        links = {}
        for pid in self.processes():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                for path in Path("/proc", str(pid), "fd").iterdir():
                    with contextlib.suppress(OSError):
                        links[os.readlink(path)] = pid
        return {link[len("socket:[") : -1]: pid for link, pid in links.items() if link.startswith("socket:[")}

    def _await_end(self, pid: int, deadline: float) -> None:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            finally:
                os.close(descriptor)
