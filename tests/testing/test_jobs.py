"""The job behind tests: what it says of its end."""

from __future__ import annotations

import tempfile
from types import SimpleNamespace
from typing import Any

from aiompi.testing.jobs import Job

REASON = "rank 1 was killed by signal 9 (SIGKILL)"


def test_the_cause_of_an_end() -> None:
    """The launcher may tell of a death before the test is known to have begun. Earlier output is of no test."""
    for printed, told_late in (b"a line\n", True), (b"", False):
        job: Any = Job.__new__(Job)
        job._launcher = SimpleNamespace(wait=lambda _: 0)
        with tempfile.TemporaryFile() as job._output:

            def say(text: bytes, job: Job = job) -> None:
                job._output.write(text)
                job._output.flush()

            say(b"of an earlier test\naiompi-launch: of an earlier test\n")
            job._note_begin()
            job._ordered = job._before
            say(b"of the collection\n")
            if told_late:
                job._note_begin()
            say(printed + f"aiompi-launch: {REASON}\n".encode())
            if not told_late:
                job._note_begin()
            assert job._cause() == f"{REASON}\n{printed.decode()}".strip()
