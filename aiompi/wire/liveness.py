"""Whether another process is alive, according to the kernel.

A computing rank cannot answer heartbeat messages: while C code holds the GIL, no other thread of the process runs.
Therefore other processes ask the kernel of the rank's machine. The kernel knows whether a process is stopped. The
kernel acknowledges TCP segments as long as the machine runs and is reachable, whatever the process does. If the agent
of the job is on another machine, a companion process of the rank asks the kernel and reports to the agent
(`aiompi.job.companion`). This process loads this file without the package.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections import Counter
from typing import Final

#: checks per heartbeat interval
LOOKS: Final = 4
#: seconds of the heartbeat in jobs whose processes may be on several machines
SEVERAL_MACHINES: Final = 10.0
#: message about a machine that does not answer
CUT_OFF: Final = "its machine does not answer: has it gone down, or is the network cut?"
_STOPPED: Final = ("T", "t")  # by a signal, by a tracer
_PROBES: Final = 100  # the caller gives up before the kernel does
#: default seconds for `end_if_silent`, also without a heartbeat
SILENCE, LONG_SILENCE = 14, 60
#: socket option of Linux 6.15: most milliseconds between probes of a peer that does not read; 120 s otherwise
_TCP_RTO_MAX_MS: Final = 44
_LOST: Final = 3  # probes without an answer
#: offsets in struct tcp_info: unanswered probes, segments in flight, milliseconds since the last acknowledgement
_TCP_INFO: Final = struct.Struct("=3xB20xI28xI")


def interval(setting: float | None, default: float = SEVERAL_MACHINES) -> float:
    """Return the heartbeat interval of a job in seconds: the setting, or else the default; 0 for no heartbeat."""
    return default if setting is None else setting


def namespace() -> str:
    """Return an identifier of this process's pid namespace and /proc; empty if it is unknown."""
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


class Stops:
    """Finds processes that are stopped for long.

    The class counts successive checks instead of seconds, because the checking process may have been stopped itself.
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def look(self, number: int, pid: int) -> bool:
        """Check a process once more; return True if LOOKS + 1 successive checks have found it stopped.

        Args:
            number: of the process, for the caller.
            pid: id of the process.
        """
        if not is_stopped(pid):
            del self._counts[number]
            return False
        self._counts[number] += 1
        return self._counts[number] > LOOKS


def stopped(seconds: float) -> str:
    """Return the message about a rank that has been stopped for a whole heartbeat interval, which lasts `seconds`."""
    return f"was stopped for {seconds:g} s (AIOMPI_HEARTBEAT)"


def has_stopped(sock: socket.socket) -> bool:
    """Return True if a companion has reported that the process at the other end of a TCP connection is stopped."""
    try:  # by the method of the base class, because that of a TLS socket takes no flags
        return bool(socket.socket.recv(sock, 1, socket.MSG_OOB | socket.MSG_DONTWAIT))
    except OSError:  # there is no report
        return False


def keep_alive(sock: socket.socket, seconds: float, *, end: bool = False) -> None:
    """Let the kernel send keepalive probes on an idle TCP connection, so that `is_cut_off` detects a dead machine.

    Args:
        seconds: the kernel sends LOOKS probes in this time, but at most one per second. 0 stands for LONG_SILENCE,
            after which the kernel ends an idle connection whose peer does not acknowledge the probes.
        end: True to let the kernel end the connection soon after `is_cut_off` becomes true, in case this process does
            not check. True sets TCP_USER_TIMEOUT, which also ends the connection of a computing peer that does not
            read.
    """
    pause = _pause(seconds or LONG_SILENCE)
    limit = max(seconds, _LOST * pause) + pause if end else 0
    _set(sock, pause, pause, _PROBES if seconds else _LOST, round(1000 * limit))
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, 1000 * pause)


def end_if_silent(sock: socket.socket, seconds: int) -> None:
    """Let the kernel end a TCP connection once the machine at the other end has not answered for `seconds`.

    Use this only for connections with little data, which fits into the buffers even if the peer does not read.
    """
    _set(sock, max(1, seconds // 3), max(1, seconds // 5), _LOST, 1000 * seconds)


def _set(sock: socket.socket, idle: int, interval: int, probes: int, user_timeout: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout)


def describe(error: OSError) -> str:
    """Return why a connection failed."""
    if error.errno == errno.ETIMEDOUT:
        return CUT_OFF
    return error.strerror or str(error)


def is_cut_off(sock: socket.socket, seconds: float) -> bool:
    """Return True if the machine at the other end of a TCP connection has not acknowledged data for `seconds`.

    Args:
        sock: the connection, after `keep_alive`.
        seconds: the least time without an acknowledgement; values below 3 count as 3, the time of three probes.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        probes, in_flight, milliseconds = _TCP_INFO.unpack(info)
    except (OSError, struct.error):
        return False
    # An older kernel may not have sent a probe for long, if the peer does not read.
    asked = in_flight or probes > 1
    return bool(asked and milliseconds > 1000 * max(seconds, _LOST * _pause(seconds)))


def silence(sock: socket.socket) -> float:
    """Return the seconds since the last acknowledgement from the machine at the other end of a TCP connection.

    After the end of a connection, the time tells which side has ended the connection: this kernel if it is long, the
    other machine if it is short.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        milliseconds: int = _TCP_INFO.unpack(info)[2]
    except (OSError, struct.error):
        return 0.0
    return milliseconds / 1000


def is_unanswered(host: str) -> bool:
    """Return True if the kernel has sent data to a machine several times without an answer.

    Use this function for connections of other processes, such as `ssh`, which send data all the time.

    Args:
        host: numeric address of the machine.
    """
    try:
        wanted = _in_proc(host)
        for name in ("tcp", "tcp6"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{name}", encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
            # its columns: number, both addresses, state, queues, timer, retransmissions, user, unanswered probes
            for row in rows:
                if row[2].partition(":")[0].endswith(wanted) and max(int(row[6], 16), int(row[8])) >= _LOST:
                    return True
    except (OSError, ValueError, IndexError):  # not Linux, /proc is not mounted, or /proc has no such address
        pass
    return False


def _in_proc(host: str) -> str:
    """Return the form of an address in /proc/net/tcp.

    In /proc/net/tcp6 an IPv4 address appears as the last part of a mapped IPv6 address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host.partition("%")[0])
    return "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", packed))


def _pause(seconds: float) -> int:
    """Return the seconds between two probes."""
    return max(1, int(seconds / LOOKS))
