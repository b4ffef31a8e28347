"""The ways between two bare processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys

import pytest

from aiompi.bench.measure.pair import WAYS
from aiompi.bench.measure.relay import relay
from support.jobs import Site
from support.limits import LIMIT


@pytest.mark.parametrize("way", WAYS)
def test_a_work_by_each_way(site: Site, way: str) -> None:
    work = json.dumps({"work": "bandwidth", "nbytes": 300_000, "window": 2, "iterations": 1, "blocks": 3})
    program = site.program(
        f"import io, sys\nsys.stdin = io.StringIO({work!r})\n"
        f"from aiompi.bench.measure.pair import main\nmain('aiompi.bench.measure.bare_socket', {way!r})\n"
    )
    result = site.start(sys.executable, program).finish()
    assert (result.code, result.err) == (0, "")
    assert [len(blocks) for blocks in json.loads(result.out)] == [3, 3]


@pytest.mark.asyncio
async def test_a_relay_loses_nothing() -> None:
    """Send in both directions at once, more than the sockets hold."""
    (near, one), (other, far) = socket.socketpair(), socket.socketpair()
    with contextlib.ExitStack() as stack:
        for sock in (near, one, other, far):
            stack.enter_context(sock)
        passing = asyncio.create_task(relay(one, other))
        ends = [await asyncio.open_connection(sock=sock) for sock in (near, far)]
        sent = [os.urandom(2**20) for _ in ends]
        for (_, writer), data in zip(ends, sent, strict=True):
            writer.write(data)
        got = await asyncio.gather(*(reader.readexactly(2**20) for reader, _ in ends))
        assert got == sent[::-1]
        ends[0][1].close()
        await passing
        ends[1][1].close()


def test_nothing_is_left_of_a_pair_whose_reader_has_gone() -> None:
    """The leader notices when it answers. The follower, for which it then waits, must notice as well."""
    command = [sys.executable, "-m", "aiompi.bench.measure.pair", "aiompi.bench.measure.bare_socket"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as leader:
        assert leader.stdin is not None
        assert leader.stdout is not None
        leader.stdout.close()
        work = {"work": "latency", "nbytes": 8, "iterations": 1, "blocks": 1}
        leader.stdin.write(json.dumps(work).encode() + b"\n")
        leader.stdin.flush()
        try:
            assert leader.wait(LIMIT) != 0
        finally:
            leader.kill()
