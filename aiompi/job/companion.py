"""`Companion`, a process beside a rank. It does what the rank cannot do while it computes or is stopped.

The companion ends a computing rank whose job has ended, and tells the agent that the rank is stopped. No thread of the
rank could do this: while C code holds the GIL no thread runs, and a signal stops all threads. This file is also the
program of the companion.
"""

from __future__ import annotations

import os
import select
import signal
import sys

TYPE_CHECKING = False  # each import delays the start of the companion
if TYPE_CHECKING:
    import socket
    from typing import Final

    from aiompi.wire.liveness import Stops

#: seconds that a rank has to end by itself once the agent is gone
_GRACE: Final = 1.0
#: seconds after which a process replaces the thread that waits for the end of the connection
_SOON: Final = 2.0
#: descriptors of the companion: the connection, the pipe of `close`, and the process of the rank
_CONNECTION, _PIPE, _RANK = range(3, 6)
#: the module with `Stops`, which the companion loads only if it reports
_LIVENESS: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "wire", "liveness.py")


class Companion:
    """Starts the companion of this process, and ends it.

    A thread waits for the end of the connection first, and reads nothing. After some seconds a process replaces the
    thread; shorter programs do not pay for the process.

    Args:
        connection: TCP connection to the agent.
        ends: True to end this process if the agent has ended and this process does not notice it.
    """

    def __init__(self, connection: socket.socket, *, ends: bool) -> None:
        self._connection = connection
        self._ends = ends
        self._pipe = -1  # its write end
        if ends:
            self._begin(0.0)

    def report_stops(self, seconds: float) -> None:
        """Tell the agent from now on if this process is stopped for `seconds`.

        The report is a byte of urgent data outside the stream, so that it disturbs neither the data of this process nor
        TLS. The agent checks for it by `aiompi.wire.liveness.has_stopped`. If no process can be started, the agent does
        not notice that this process is stopped.
        """
        self.close()
        self._begin(seconds)

    def close(self) -> None:
        """End the companion: this process may outlive the agent."""
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            try:  # noqa: SIM105 (an import of contextlib would delay the companion)
                os.write(pipe, b".")  # a forked process may have a copy of this end
            except BrokenPipeError:  # it has ended, because the connection has
                pass
            os.close(pipe)

    def _begin(self, seconds: float) -> None:
        import threading  # the companion itself has no threads

        pipe, self._pipe = os.pipe()
        connection = os.dup(self._connection.fileno())
        threading.Thread(
            target=self._watch, args=(connection, pipe, seconds), name="aiompi-companion", daemon=True
        ).start()

    def _watch(self, connection: int, pipe: int, seconds: float) -> None:
        over = not seconds and watch(connection, pipe, os.getpid(), limit=_SOON)
        if not over and not self._start_process(connection, pipe, seconds) and self._ends:
            watch(connection, pipe, os.getpid())
        os.close(connection)
        os.close(pipe)

    def _start_process(self, connection: int, pipe: int, seconds: float) -> bool:
        """Start the process; return True if it ends the rank.

        The companion is not a child of this process, because this process may wait for any child.
        """
        import fcntl  # delays the start of the companion, which rarely needs it

        interpreter, rank = sys.executable or "", _process()
        if "python" not in os.path.basename(interpreter) or (rank < 0 and not seconds):
            return False  # another program, in which Python is embedded, would not run this file
        ours = [
            fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _RANK + 1) for number in (connection, pipe, rank) if number >= 0
        ]
        actions: list[tuple[object, ...]] = []
        actions += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(_CONNECTION)]
        actions += [(os.POSIX_SPAWN_DUP2, number, _CONNECTION + index) for index, number in enumerate(ours)]
        ends = self._ends and rank >= 0
        program = [interpreter, "-I", "-S", __file__, str(int(ends)), str(int(rank >= 0)), str(seconds)]
        try:
            shell = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", '"$@" &', "sh", *program, str(os.getpid())],
                os.environ,
                file_actions=actions,
                setsid=True,
            )
            os.waitpid(shell, 0)
        except ChildProcessError:  # the program ignores SIGCHLD
            pass
        except OSError:
            return False
        finally:
            for number in ours if rank < 0 else (*ours, rank):
                os.close(number)
        return ends


def _process() -> int:
    """Return a pidfd of this process; -1 if the system has no pidfds because it is not Linux, or an old Linux."""
    try:
        return os.pidfd_open(os.getpid())
    except (AttributeError, OSError):
        return -1


def watch(
    connection: int, pipe: int, pid: int, rank: int = -1, *, ends: bool = True, limit: float | None = None
) -> bool:
    """Sleep until a rank ends, its companion is closed, or its connection ends. In the last case, end the rank.

    Args:
        connection: descriptor of the connection to the agent.
        pipe: readable once the companion is closed.
        pid: of the rank.
        rank: descriptor (pidfd) of the process of the rank; -1 if there is none.
        ends: False to leave the rank alone when its connection ends.
        limit: most seconds to sleep.

    Returns:
        False if nothing has happened.
    """
    left, happened = select.poll(), select.poll()
    happened.register(connection, select.POLLRDHUP)
    if not ends:
        left.register(connection, select.POLLRDHUP)
    for descriptor in (pipe, rank) if rank >= 0 else (pipe,):
        left.register(descriptor, select.POLLIN)
        happened.register(descriptor, select.POLLIN)
    if not happened.poll(None if limit is None else 1000 * limit):
        return False
    if not left.poll(1000 * _GRACE):
        os.kill(pid, signal.SIGKILL)
    return True


def _accompany(pid: int, rank: int, seconds: float, *, ends: bool) -> None:
    """Be the companion of a rank. If the rank is stopped for `seconds`, report it; 0 for no reports."""
    stops, pause = _load_stops(seconds) if seconds else (None, None)
    while not watch(_CONNECTION, _PIPE, pid, rank, ends=ends, limit=pause):
        if stops is not None and stops.look(0, pid) and _report():
            stops, pause = None, None


def _report() -> bool:
    """Report that the rank is stopped; return False if the buffer of the connection is full."""
    import socket  # delays the start of the companion, which rarely needs it

    with socket.socket(fileno=os.dup(_CONNECTION)) as connection:
        try:
            connection.send(b"!", socket.MSG_OOB | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:  # the connection has ended
            pass
    return True


def _load_stops(seconds: float) -> tuple[Stops, float]:
    """Return a detector of a process that is stopped for `seconds`, and the seconds between two checks of the detector.

    The package is not imported for this: that would take long.
    """
    import importlib.util  # delays the start of the companion, which rarely needs it

    spec = importlib.util.spec_from_file_location("liveness", _LIVENESS)
    assert spec is not None
    assert spec.loader is not None
    liveness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(liveness)
    return liveness.Stops(), seconds / liveness.LOOKS


if __name__ == "__main__":
    _ends, _known, _seconds, _pid = sys.argv[1:]
    os.closerange(_RANK + 1 if int(_known) else _RANK, os.sysconf("SC_OPEN_MAX"))  # as the process manager's socket
    os.chdir("/")
    _accompany(int(_pid), _RANK if int(_known) else -1, float(_seconds), ends=bool(int(_ends)))
