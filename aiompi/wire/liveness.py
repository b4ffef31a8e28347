"""Whether another process is alive, as the kernel knows it.

A rank that computes answers nobody: while C code holds the GIL, not even a thread of it could. Therefore no rank is
asked. The kernel of its machine says whether its process is stopped, and acknowledges TCP segments as long as the
machine runs and can be reached, whatever the process does.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

#: how often a process is looked at in the time after which it counts as stuck
LOOKS: Final = 4
_STOPPED: Final = ("T", "t")  # by a signal, by a tracer
_PROBES: Final = 100  # the caller gives up before the kernel does
_MINUTE: Final = (30, 10, 3)
_LOST: Final = 3  # probes without an answer
#: tcpi_last_ack_recv of struct tcp_info: milliseconds
_LAST_ACK: Final = struct.Struct("=56xI")


def namespace() -> str:
    """Return what processes have in common that find each other under /proc; empty if that is unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # this is not Linux, or /proc is not mounted
        return ""


def is_stopped(pid: int) -> bool:
    """Return True if a process of this namespace is stopped (SIGSTOP, SIGTSTP, a debugger)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state.decode() in _STOPPED


def keep_alive(sock: socket.socket, seconds: float) -> None:
    """Let the kernel send probes on an idle TCP connection, so that `is_cut_off` is known.

    TCP_USER_TIMEOUT is of no use: it would also end the connection of a peer that computes and does not read.

    Args:
        seconds: LOOKS probes are sent in this time, but at most one per second. If it is 0, the kernel ends the
            connection within about a minute once the machine at the other end does not answer.
    """
    pause = _pause(seconds)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    for option, value in zip(options, (pause, pause, _PROBES) if seconds else _MINUTE, strict=True):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def is_cut_off(sock: socket.socket, seconds: float) -> bool:
    """Return True if the machine at the other end of a TCP connection has acknowledged nothing for so many seconds.

    Args:
        sock: the connection, after `keep_alive`.
        seconds: at least; with less than three seconds, three probes are waited for.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK.size)
        (milliseconds,) = _LAST_ACK.unpack(info)
    except (OSError, struct.error):
        return False
    return bool(milliseconds > 1000 * max(seconds, _LOST * _pause(seconds)))


def _pause(seconds: float) -> int:
    """Return the seconds between two probes."""
    return max(1, int(seconds / LOOKS))
