"""A rank that computes, also in C code that holds the GIL, is ended when its agent is gone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from aiompi.job.companion import Companion
from support.allocated import is_watched
from support.limits import LIMIT
from support.machines import until

RANK = """
import ctypes, os, socket, sys, time
from aiompi.job.companion import Companion
companion = Companion(socket.socket(fileno=int(sys.argv[1])), ends=True)
if sys.argv[2] == "finalizes" and not os.fork():
    time.sleep(60)  # with copies of all descriptors
sys.stdin.readline()  # a process watches by then
if sys.argv[2] == "finalizes":
    companion.close()
print("ready", flush=True)
if sys.argv[2] == "finalizes":
    time.sleep(3)
    sys.exit(7)
while sys.argv[2] == "computes":
    sum(range(1000))
ctypes.PyDLL(None).sleep(60)
"""


@contextlib.contextmanager
def rank(what: str) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """Context manager with a process that does something, and the agent's end of the connection to it."""
    agent, theirs = socket.socketpair()
    command = [sys.executable, "-c", RANK, str(theirs.fileno()), what]
    with (
        agent,
        subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        ) as process,
    ):
        try:
            theirs.close()
            assert process.stdin is not None
            assert process.stdout is not None
            if what != "computes":
                until(lambda: is_watched(process.pid))
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"
            yield process, agent
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("what", ["computes", "holds the GIL"])
def test_a_rank_is_ended_after_its_agent(what: str) -> None:
    with rank(what) as (process, agent):
        agent.close()
        assert process.wait(LIMIT) == -signal.SIGKILL
        until(lambda: not is_watched(process.pid))


def test_a_rank_that_has_finalized_is_left_alone() -> None:
    with rank("finalizes") as (process, agent):
        until(lambda: not is_watched(process.pid))
        agent.close()
        assert process.wait(LIMIT) == 7


def test_a_companion_ends_with_its_rank() -> None:
    with rank("holds the GIL") as (process, _):
        assert is_watched(process.pid)
        process.kill()
        until(lambda: not is_watched(process.pid))


def test_the_end_of_a_companion_that_has_ended() -> None:
    """It has seen the end of the connection before the rank has."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        companion = Companion(ours, ends=False)
        companion.report_stops(1000.0)
        pipe = companion._pipe
        theirs.close()
        poll = select.poll()
        poll.register(pipe, 0)
        assert poll.poll(LIMIT * 1000) == [(pipe, select.POLLERR)]  # nobody reads it any more
        companion.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe)
