"""Commands that start the implementation under test, shown to the user or run by the tester (section 5.1)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final

from aiompi_launcher.conformance.setup import Setup

INTERPRETER: Final = (sys.executable, "-m", "aiompi_launcher.conformance.interpreter")

_LAUNCHER: Final = (sys.executable, "-m", "aiompi_launcher")  # PATH may have another one, or none

#: command for aiompi; other implementations need their own template
TEMPLATE: Final = (*_LAUNCHER, "--client", "{client}", "{address}", "-n", "{np}", "-m", "{module}")
MODULE: Final = "aiompi_launcher.conformance.interpreter"
#: placeholder of a template -> its description
PLACEHOLDERS: Final = {
    "client": "client rank",
    "address": "host:port of the server",
    "host": "of the server",
    "port": "of the server",
    "np": "processes of the client",
    "module": "the interpreter as a Python module",
    "interpreter": "the command of the Python interpreter program",
}
_PATIENCE: Final = 10.0  # seconds to end after the job is over
_LAST_BYTES: Final = 0.5  # seconds
_LINE: Final = 2**16  # bytes of a line of output that are kept


class TemplateError(Exception):
    """A command template has an unknown placeholder."""


def fill(template: Sequence[str], setup: Setup, client: int, address: tuple[str, int]) -> list[str]:
    """Fill in a command template.

    Args:
        template: words with placeholders in braces; {interpreter} must be a whole word, and is replaced by several
            words.
        client: its client rank.
        address: of the server.

    Raises:
        TemplateError: there is no such placeholder.
    """
    values = {
        "client": client,
        "address": f"{address[0]}:{address[1]}",
        "host": address[0],
        "port": address[1],
        "np": setup.iut_procs,
        "module": MODULE,
    }

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise TemplateError(f"{match[0]}: the placeholders are {known}")
        return str(values[match[1]])

    words: list[str] = []
    for word in template:
        words += INTERPRETER if word == "{interpreter}" else [re.sub(r"\{(\w+)\}", value, word)]
    return words


def environment(setup: Setup) -> dict[str, str]:
    """Return the environment variables by which a client authenticates itself."""
    return {"IMPI_AUTH_NONE": "1"} if setup.key is None else {"IMPI_AUTH_KEY": str(setup.key)}


def shown(template: Sequence[str], setup: Setup, client: int, address: tuple[str, int]) -> str:
    """Return a command line to copy."""
    variables = " ".join(f"{name}={value}" for name, value in environment(setup).items())
    return f"{variables} {shlex.join(fill(template, setup, client, address))}"


class Command:
    """A client under test that the tester has started.

    Args:
        words: the command.
        extra: added to the environment.
        say: called with each line of its output.
    """

    def __init__(self, words: list[str], extra: dict[str, str], say: Callable[[str], None]) -> None:
        self._words = words
        self._extra = extra
        self._say = say
        self._process: asyncio.subprocess.Process
        self._output: asyncio.ReadTransport
        self._reader: asyncio.Task[None]

    async def start(self) -> None:
        """Start the command in its own session.

        Raises:
            OSError: there is no such command.
        """
        variables = {name: value for name, value in os.environ.items() if not name.startswith("IMPI_AUTH")}
        ours, theirs = os.pipe()
        with open(theirs, "wb") as output, contextlib.ExitStack() as stack:
            pipe = stack.enter_context(open(ours, "rb"))
            self._process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=variables | self._extra,
                start_new_session=True,
            )
            stack.pop_all()
        lines = asyncio.StreamReader(_LINE)
        connect = asyncio.get_running_loop().connect_read_pipe
        self._output, _ = await connect(lambda: asyncio.StreamReaderProtocol(lines), pipe)
        self._reader = asyncio.create_task(self._read(lines))

    async def _read(self, lines: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await lines.readline()
            except ValueError:  # a line longer than _LINE
                continue
            if not line:
                return
            self._say(line.decode("utf8", "replace").rstrip("\n"))

    async def gone(self) -> str:
        """Wait until the process has ended, and a moment longer for its last output; return a message about its end."""
        status = await self._process.wait()
        await asyncio.sleep(_LAST_BYTES)
        return f"{shlex.join(self._words)} ended with status {status} before all clients and hosts had joined"

    async def end(self, patience: float = _PATIENCE) -> int:
        """Wait for the end of the process, and end it after `patience` seconds; return the exit status."""
        try:
            async with asyncio.timeout(patience):
                await self._process.wait()
        except TimeoutError:
            await self._stop()
        await self._end_output()
        return self._process.returncode or 0

    async def _end_output(self) -> None:
        """Read the output to its end, with a timeout: a process that the command left behind may keep the pipe open."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.wait([self._reader], timeout=_PATIENCE)
        if not self._reader.done():
            self._say(f"a process that {shlex.join(self._words)} has left behind keeps its output open; it goes on")
            self._reader.cancel()
        self._output.close()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._process.wait()
                    return
