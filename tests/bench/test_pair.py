"""Two bare processes and the socket between them."""

from __future__ import annotations

import json
import subprocess
import sys

from support.jobs import Site
from support.limits import LIMIT


def test_a_work_of_two_processes(site: Site) -> None:
    work = json.dumps({"work": "bandwidth", "nbytes": 300_000, "window": 2, "iterations": 1, "blocks": 3})
    program = site.program(
        f"import io, sys\nsys.stdin = io.StringIO({work!r})\n"
        f"from aiompi.bench.measure.pair import main\nmain('aiompi.bench.measure.bare_socket')\n"
    )
    result = site.start(sys.executable, program).finish()
    assert (result.code, result.err) == (0, "")
    assert [len(blocks) for blocks in json.loads(result.out)] == [3, 3]


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
