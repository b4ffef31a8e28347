"""Forwards output of ranks in whole lines, never mixed, at the speed of the reader; and terminal input to one rank.

    pipe of a rank -> Source (cuts into lines, tags them) -> Sink (the launcher's own stdout or stderr)

A line of more than MAX_LINE bytes is forwarded in pieces. Until such a line ends, or the rank that writes it pauses for
HOLD seconds, the output of other sources waits. A source whose sink is full is not read. So its rank blocks in write,
as it would without a launcher.
"""

from __future__ import annotations

import asyncio
import collections
import errno
import os
import stat
from collections.abc import Callable
from typing import Final, Protocol

HIGH_WATER: Final = 256 * 2**10  # bytes that wait for a sink before its sources pause
LOW_WATER: Final = 64 * 2**10
IDLE: Final = 0.1  # seconds after which an incomplete line, such as a prompt, is forwarded
HOLD: Final = 1.0  # seconds for which other output waits for the next piece of a long line
MAX_LINE: Final = 64 * 2**10  # bytes; longer lines are forwarded in pieces
TAIL_LINES: Final = 20
_TAIL_BYTES: Final = 8 * 2**10
_READ: Final = 64 * 2**10
_MOST_IN_PIPE: Final = 2**20

# A pipe that is ready accepts this many bytes, so writing does not block. The launcher does not set the pipe
# non-blocking, because other processes, such as the shell, share it.
_PIPE_BUF: Final = 4096


class Drawing(Protocol):
    """A drawing in the terminal below the output."""

    def hide(self) -> bytes:
        """Return the bytes that remove the drawing before output."""

    def close(self) -> None:
        """All output has come."""


class Sink:
    """An output file of the launcher, for the lines of many sources.

    Args:
        descriptor: of the file.
        on_broken: called once, with the reason, when writing fails for good. The reason is empty if the reader has
            gone.

    Attributes:
        holder: the source that is forwarding a long line, for whose end other sources wait; None if no source is.
        unfinished: the owner of the incomplete line at the end of the output; None if the output ends with a whole
            line.
        drawing: the drawing below the output; None for no drawing.
    """

    def __init__(self, descriptor: int, on_broken: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._pending = bytearray()
        self._paused: set[Source] = set()
        self._drained: asyncio.Future[None] | None = None
        self._writing = False
        self._pollable = True
        self._broken = False
        self.holder: Source | None = None
        self._held_back: list[tuple[Source, bytes]] = []
        self.unfinished: object | None = None
        self.drawing: Drawing | None = None
        self.last_writers: collections.deque[object] = collections.deque(maxlen=TAIL_LINES)

    def write(self, owner: object, data: bytes) -> None:
        """Write bytes of an owner unchanged. A message of the launcher first ends an incomplete line of a rank."""
        if self._broken or not data:
            return
        if isinstance(owner, Source) and self.holder not in (None, owner):
            self._held_back.append((owner, data))
            return
        if self.drawing is not None:
            self._pending += self.drawing.hide()
        if not isinstance(owner, Source) and self.unfinished not in (None, owner):
            self._pending += b"\n"
        self._pending += data
        self.unfinished = None if data.endswith(b"\n") else owner
        self.last_writers.extend([owner] * min(data.count(b"\n"), TAIL_LINES))
        self._start_writing()

    def draw(self, data: bytes) -> None:
        """Write bytes of the drawing, which are no output."""
        if data and not self._broken:
            self._pending += data
            self._start_writing()

    @property
    def busy(self) -> bool:
        """True while output waits to be written."""
        return bool(self._pending)

    def full(self, source: Source) -> bool:
        """Return True if the source must pause; the sink resumes it later."""
        if len(self._pending) > HIGH_WATER or self.holder not in (None, source):
            self._paused.add(source)
            return True
        return False

    def hold(self, source: Source) -> bool:
        """Make other sources wait until `release`; return False if this source itself has to wait."""
        self.holder = self.holder or source
        return self.holder is source

    def release(self, source: Source) -> None:
        """End a `hold`."""
        if self.holder is source:
            self.holder = None
            held_back, self._held_back = self._held_back, []
            for owner, data in held_back:
                self.write(owner, data)
            if len(self._pending) < LOW_WATER:
                self._resume()

    async def drain(self) -> None:
        """Wait until everything is written, or writing has failed."""
        if self._pending and not self._broken:
            self._drained = self._loop.create_future()
            await self._drained

    def stop(self) -> None:
        """Write nothing more."""
        self._stop_writing()
        self._broken = True

    def _start_writing(self) -> None:
        if not self._writing and self._pollable:
            try:
                self._loop.add_writer(self._descriptor, self._write_ready)
                self._writing = True
            except OSError:  # a regular file, always ready
                self._pollable = False
        if not self._pollable:
            self._write_all()

    def _stop_writing(self) -> None:
        if self._writing:
            self._loop.remove_writer(self._descriptor)
            self._writing = False

    def _write_all(self) -> None:
        while self._pending:
            self._write_ready()

    def _write_ready(self) -> None:
        try:
            written = os.write(self._descriptor, self._pending[:_PIPE_BUF])
        except BlockingIOError:
            return
        except OSError as error:
            self._break("" if self._has_lost_its_reader(error) else os.strerror(error.errno or 0))
            return
        del self._pending[:written]
        if len(self._pending) < LOW_WATER:
            self._resume()
        if not self._pending:
            self._stop_writing()
            self._set_drained()

    def _has_lost_its_reader(self, error: OSError) -> bool:
        """Return True for a broken pipe or a lost terminal, False for other errors, such as errors of a disk."""
        if error.errno == errno.EIO:
            return not stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        return error.errno in (errno.EPIPE, errno.ECONNRESET)

    def _break(self, reason: str) -> None:
        self._stop_writing()
        self._broken = True
        self._pending.clear()
        self._held_back.clear()
        self.holder = None
        self._resume()
        self._set_drained()
        self._on_broken(reason)

    def _resume(self) -> None:
        ready = {source for source in self._paused if self.holder in (None, source)}
        self._paused -= ready
        for source in ready:
            source.resume()

    def _set_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


class Source:
    """Output of a rank.

    Args:
        descriptor: read end of the rank's pipe; closed at the end of the output.
        sink: destination of the output.
        tag: prefix of each line, and of the rest of a line that other output has interrupted. An incomplete last line
            gets an end. Without a tag, lines and incomplete lines (prompts) are forwarded unchanged.
    """

    def __init__(self, descriptor: int, sink: Sink, tag: bytes = b"") -> None:
        if descriptor >= 0:
            os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._sink = sink
        self._tag = tag
        self._loop = asyncio.get_running_loop()
        self._partial = b""
        self._tail = b""
        self._idle: asyncio.TimerHandle | None = None
        self.resume()

    def resume(self) -> None:
        """Continue reading."""
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._readable)
            self._flush_long_line()

    def catch_up(self) -> None:
        """Forward the output that the rank has written so far, even if the sink is full.

        The call reads at most the capacity of a pipe, because a process may still be writing.
        """
        for _ in range(_MOST_IN_PIPE // _READ):
            if not self._read():
                break
        self._flush()

    def close(self) -> None:
        """Forward the rest of the output and close the pipe."""
        self.catch_up()
        self._close()

    def tail(self) -> list[str]:
        """Return the last lines."""
        return self._tail.decode(errors="backslashreplace").splitlines()[-TAIL_LINES:]

    def is_on_display(self) -> bool:
        """Return True if the source's last lines are also the last lines of the sink."""
        count = len(self.tail())
        last = list(self._sink.last_writers)[-count:]
        return len(last) >= count and all(writer is self for writer in last)

    def _readable(self) -> None:
        self._read()
        if self._descriptor >= 0 and self._sink.full(self):
            self._loop.remove_reader(self._descriptor)
            self._stop_timer()

    def _read(self) -> bool:
        if self._descriptor < 0:
            return False
        try:
            data = os.read(self._descriptor, _READ)
        except BlockingIOError:
            return False
        if data:
            self._feed(data)
        else:
            self._close()
        return bool(data)

    def _close(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self._end()

    def _end(self) -> None:
        self._stop_timer()
        if self._tag and (self._partial or self._sink.unfinished is self):
            self._partial += b"\n"
        self._flush()
        self._sink.release(self)

    def _feed(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        end = data.rfind(b"\n") + 1
        if end:
            self._pass(self._partial + data[:end])
            self._partial = data[end:]
            self._sink.release(self)
        else:
            self._partial += data
        self._flush_long_line()

    def _flush_long_line(self) -> None:
        """Forward a piece of a long line, unless another source is forwarding a long line; restart the idle timer."""
        if len(self._partial) > MAX_LINE and self._sink.hold(self):
            self._flush()
        self._stop_timer()
        if (self._partial and not self._tag) or self._sink.holder is self:
            self._idle = self._loop.call_later(IDLE, self._on_idle)

    def _stop_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _on_idle(self) -> None:
        if not self._tag:
            self._flush()
        self._idle = self._loop.call_later(HOLD - IDLE, self._sink.release, self)

    def _flush(self) -> None:
        if self._partial:
            self._pass(self._partial)
            self._partial = b""

    def _pass(self, data: bytes) -> None:
        if self._tag:
            body, end = data.removesuffix(b"\n"), data[-1:] if data.endswith(b"\n") else b""
            tag = b"" if self._sink.unfinished is self else self._tag
            data = tag + body.replace(b"\n", b"\n" + self._tag) + end
        self._sink.write(self, data)


class RemoteSource(Source):
    """Output of a rank on another host, which the host's agent reads.

    Args:
        sink, tag: as for `Source`.
        grant: called with the number of further bytes that the agent may send.
    """

    def __init__(self, sink: Sink, tag: bytes, grant: Callable[[int], object]) -> None:
        self._grant = grant
        self._taken = 0
        super().__init__(-1, sink, tag)

    def feed(self, data: bytes) -> None:
        """Forward output; empty data means its end."""
        if not data:
            self._end()
            return
        self._taken += len(data)
        self._feed(data)
        if not self._sink.full(self):
            self.resume()

    def resume(self) -> None:
        if self._taken:
            taken, self._taken = self._taken, 0
            self._grant(taken)
            self._flush_long_line()

    def close(self) -> None:
        self._end()


class TerminalInput:
    """Forwards terminal input to a rank, whose process group is not the terminal's foreground group.

    Args:
        terminal: descriptor of the terminal.
        pipe: write end of the rank's standard input.
    """

    def __init__(self, terminal: int, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._terminal = terminal
        self._pipe = pipe
        self._pending = b""
        self._loop = asyncio.get_running_loop()
        self.resume()

    def resume(self) -> None:
        """Read the terminal; call it again when the launcher comes to the foreground."""
        if self._pipe >= 0 and not self._pending and _in_foreground(self._terminal):
            self._loop.add_reader(self._terminal, self._readable)

    def close(self) -> None:
        """Close the rank's standard input."""
        if self._pipe >= 0:
            self._loop.remove_reader(self._terminal)
            self._loop.remove_writer(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    def _readable(self) -> None:
        if not _in_foreground(self._terminal):  # reading would stop the launcher (SIGTTIN)
            self._loop.remove_reader(self._terminal)
            return
        try:
            self._pending = os.read(self._terminal, _READ)
        except OSError:  # hung up
            self._pending = b""
        if not self._pending:
            self.close()
            return
        self._loop.remove_reader(self._terminal)
        self._loop.add_writer(self._pipe, self._writable)

    def _writable(self) -> None:
        try:
            written = os.write(self._pipe, self._pending)
        except OSError:  # the rank reads no more
            self.close()
            return
        self._pending = self._pending[written:]
        if not self._pending:
            self._loop.remove_writer(self._pipe)
            self.resume()


def _in_foreground(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # not the terminal of this session: reading it stops no process
        return True
