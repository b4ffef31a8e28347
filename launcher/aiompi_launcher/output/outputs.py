"""All output of a job: of its ranks, and of the launcher."""

from __future__ import annotations

import contextlib
import functools
import io
import os
from collections.abc import Callable
from typing import Final

from aiompi_launcher.output.streams import TAIL_LINES, RemoteSource, Sink, Source
from aiompi_launcher.start.ranks import RankProcess

_TAIL_BYTES: Final = 8 * 2**10


class Outputs:
    """Sinks of the launcher and sources of its ranks.

    Args:
        name: of the launcher; each of its messages begins with it.
        verbose: True to print reports of progress.
        tag: True to begin lines of ranks with their rank: `[2] ` on stdout, `[2:err] ` on stderr.
        on_broken: called with the reason when standard output cannot be written any more. The reason is empty if the
            reader has gone.

    Attributes:
        name: as above.
    """

    def __init__(self, name: str, *, tag: bool, verbose: bool, on_broken: Callable[[str], None]) -> None:
        self.name = name
        self._tag = tag
        self._verbose = verbose
        self._stdout = Sink(1, on_broken)
        self._stderr = self._stdout
        if not os.path.samestat(os.fstat(1), os.fstat(2)):
            self._stderr = Sink(2, lambda reason: None)
        self._sources: list[Source] = []
        self._errors: dict[int, Source | str] = {}
        self._remote: dict[tuple[int, int], Callable[[bytes], object]] = {}

    def terminal(self) -> tuple[Sink, int] | None:
        """Return the output that goes to a terminal, with its descriptor; None if no output does."""
        for sink, descriptor in ((self._stdout, 1), (self._stderr, 2)):
            if os.isatty(descriptor):
                return sink, descriptor
        return None

    def add(self, rank: int, process: RankProcess) -> None:
        """Forward the output of a rank."""
        if process.stdout >= 0:
            tag = f"[{rank}] ".encode() if self._tag else b""
            self._sources.append(Source(process.stdout, self._stdout, tag))
        if process.stderr >= 0:
            tag = f"[{rank}:err] ".encode() if self._tag else b""
            source = Source(process.stderr, self._stderr, tag)
            self._sources.append(source)
            self._errors[rank] = source
        else:
            self._errors[rank] = process.errors

    def add_remote(self, rank: int, host: str, directory: str | None, grant: Callable[[int, int], object]) -> None:
        """Expect output of a rank that runs on another host; `take` gets it.

        Args:
            rank: the rank.
            host: name of the rank's host, which is part of the tag of its output.
            directory: directory for files with the output; None to forward the output to the launcher's own output.
            grant: flow control: called with the stream (1 or 2) and the number of further bytes that the host may send.
        """
        for stream, sink, name, kind in ((1, self._stdout, "out", ""), (2, self._stderr, "err", ":err")):
            granted = functools.partial(grant, stream)
            if directory is not None:
                path = os.path.join(directory, f"rank.{rank}.{name}")
                self._remote[rank, stream] = functools.partial(_append, io.FileIO(path, "w"), granted)
                source: Source | str = path
            else:
                source = RemoteSource(sink, f"[{rank}@{host}{kind}] ".encode() if self._tag else b"", granted)
                self._sources.append(source)
                self._remote[rank, stream] = source.feed
        self._errors[rank] = source  # of its standard error

    def take(self, rank: int, stream: int, data: bytes) -> None:
        """Forward output of a rank on another host; empty data means its end."""
        self._remote[rank, stream](data)

    def say(self, text: str) -> None:
        """Print a message of the launcher on stderr."""
        lines = "".join(f"{self.name}: {line}\n" for line in text.splitlines())
        self._stderr.write(self, lines.encode(errors="backslashreplace"))

    def chat(self, text: str) -> None:
        """Print a report of progress if the user wants them."""
        if self._verbose:
            self.say(text)

    def report(self, rank: int | None, text: str) -> None:
        """Print why the job ends, with the last lines of the culprit's stderr.

        The lines are omitted if they are already the last lines of the output.
        """
        lines = [] if rank is None else self._last_lines(rank)
        self.say(text)
        if lines:
            self.say(f"the last lines of stderr of rank {rank}:")
            self._stderr.write(self, "".join(f"    {line}\n" for line in lines).encode())

    def last_line(self, rank: int) -> str:
        """Return the last line that an ended rank has written on stderr; "" if it has written none."""
        errors = self._errors.get(rank, "")
        if isinstance(errors, Source):
            errors.catch_up()
        lines = errors.tail() if isinstance(errors, Source) else _tail_of(errors)
        return lines[-1] if lines else ""

    def _last_lines(self, rank: int) -> list[str]:
        errors = self._errors.get(rank, "")
        if isinstance(errors, Source):
            errors.catch_up()
            return [] if errors.is_on_display() else errors.tail()
        return _tail_of(errors)

    def close(self) -> None:
        """Forward the output that is left in the pipes of the ranks, and close drawings below the output."""
        for source in self._sources:
            source.close()
        for sink in (self._stdout, self._stderr):
            if sink.drawing is not None:
                sink.drawing.close()

    async def drain(self) -> None:
        """Wait until all output is written."""
        await self._stdout.drain()
        await self._stderr.drain()  # second, because it has a report if the first fails

    def stop(self) -> None:
        """Write nothing more."""
        self._stdout.stop()
        self._stderr.stop()


def _append(file: io.FileIO, grant: Callable[[int], object], data: bytes) -> None:
    if not data:
        file.close()
    elif not file.closed:
        file.write(data)
        grant(len(data))


def _tail_of(path: str) -> list[str]:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read().decode(errors="backslashreplace").splitlines()[-TAIL_LINES:]
    return []
