"""`Watcher`, which ends a computing rank when its job has ended. This file is also a program: see `Watcher`."""

from __future__ import annotations

import os
import select
import signal
import sys

TYPE_CHECKING = False  # each import would delay the start of the program
if TYPE_CHECKING:
    import socket
    from typing import Final

#: seconds that a rank has to end by itself after the end of the agent
_GRACE: Final = 1.0
#: seconds after which a process replaces the thread
_SOON: Final = 2.0
#: descriptors of that process: the connection, the pipe of `close`, and the process of the rank
_CONNECTION, _PIPE, _RANK = range(3, 6)


class Watcher:
    """Ends this process if the agent has ended and the computing rank does not notice it.

    A thread sleeps until the connection ends, and reads nothing. It cannot end a rank whose C code holds the GIL.
    Therefore a process replaces it after some seconds; shorter programs do not pay for the process.
    """

    def __init__(self, connection: socket.socket) -> None:
        import threading

        self._connection = os.dup(connection.fileno())
        self._pipe, self._end = os.pipe()
        threading.Thread(target=self._watch, name="aiompi-watcher", daemon=True).start()

    def close(self) -> None:
        """Stop watching: this process may outlive the agent."""
        end, self._end = self._end, -1
        if end >= 0:
            os.write(end, b".")  # a forked process may have a copy of this end
            os.close(end)

    def _watch(self) -> None:
        if not watch(self._connection, self._pipe, os.getpid(), limit=_SOON) and not self._start_process():
            watch(self._connection, self._pipe, os.getpid())
        os.close(self._connection)
        os.close(self._pipe)

    def _start_process(self) -> bool:
        """Start the watching process; return False on failure.

        It is not a child, because this process may wait for any child.
        """
        import fcntl

        try:
            rank = os.pidfd_open(os.getpid())
        except (AttributeError, OSError):  # this is not Linux, or an old one
            return False
        ours = [
            fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _RANK + 1) for number in (self._connection, self._pipe, rank)
        ]
        actions: list[tuple[object, ...]] = []
        actions += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(_CONNECTION)]
        actions += [(os.POSIX_SPAWN_DUP2, number, _CONNECTION + index) for index, number in enumerate(ours)]
        program = [sys.executable, "-I", "-S", __file__, str(os.getpid())]
        try:
            shell = os.posix_spawn(
                "/bin/sh", ["sh", "-c", '"$@" &', "sh", *program], os.environ, file_actions=actions, setsid=True
            )
            os.waitpid(shell, 0)
        except ChildProcessError:  # the program ignores SIGCHLD
            pass
        except OSError:
            return False
        finally:
            for number in (*ours, rank):
                os.close(number)
        return True


def watch(connection: int, pipe: int, pid: int, rank: int = -1, limit: float | None = None) -> bool:
    """Sleep until a rank ends, stops being watched, or its connection ends. In the last case, end the rank.

    Args:
        connection: descriptor of the connection to the agent.
        pipe: readable once the watch shall end.
        pid: of the rank.
        rank: descriptor of the process of the rank, -1 if that is this process.
        limit: most seconds to sleep.

    Returns:
        False if none of these has happened.
    """
    left, ended = select.poll(), select.poll()
    ended.register(connection, select.POLLRDHUP)
    for descriptor in (pipe, rank) if rank >= 0 else (pipe,):
        left.register(descriptor, select.POLLIN)
        ended.register(descriptor, select.POLLIN)
    if not ended.poll(None if limit is None else 1000 * limit):
        return False
    if not left.poll(1000 * _GRACE):
        os.kill(pid, signal.SIGKILL)
    return True


if __name__ == "__main__":
    os.closerange(_RANK + 1, os.sysconf("SC_OPEN_MAX"))  # such as the socket of the process manager
    os.chdir("/")
    watch(_CONNECTION, _PIPE, int(sys.argv[1]), _RANK)
