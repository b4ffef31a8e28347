"""The output of ranks of `aiompi.spawn`: it goes to an object with a method `write`, or to `OutputLines`."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections import deque
from typing import Final, NamedTuple, Protocol, Self

from aiompi.engine import Request
from aiompi.errors import LocalProtocolError
from aiompi.job.runtime import Runtime

_READ: Final = 2**16
#: most characters that wait in `OutputLines` before the ranks have to wait, and most in one line
_LIMIT: Final = 2**18
#: how the launcher begins the lines of ranks (`--tag-output`)
_TAG: Final = re.compile(r"\[(\d+)(?:@[^]]*?)?(:err)?\] ")


class Output(Protocol):
    """Takes the output of ranks, such as a text file or `sys.stdout`."""

    def write(self, text: str, /) -> object: ...


class _Feed(Protocol):
    """Takes a piece of output (`ended`: the last one); returns True if the caller may pass more now."""

    def __call__(self, text: str, *, ended: bool) -> bool: ...


class OutputLine(NamedTuple):
    """A line of the output of ranks.

    Attributes:
        rank: the rank that has printed the line; None for a message of the launcher of the ranks.
        text: the line without its end.
        is_error: True for standard error.
    """

    rank: int | None
    text: str
    is_error: bool


class OutputLines:
    """The output of ranks, as an asynchronous iterator of `OutputLine`; `aiompi.spawn` gets it as `output`.

        lines = aiompi.OutputLines()
        children = await aiompi.spawn(4, "worker.py", output=lines)
        async for rank, text, is_error in lines:
            ...

    The iteration ends when all ranks have ended. A program may leave the loop, and iterate again later. Lines of one
    rank are in order. Ranks that print faster than the program iterates block, as writers to a full pipe do. These
    ranks no longer block once the program disconnects from them.
    """

    def __init__(self) -> None:
        self._lines: deque[OutputLine] = deque()
        self._partial = ""
        self._length = 0  # of the texts in `_lines`
        self._arrival: Request[None] | None = None
        self._forward: Forward | None = None
        self._ended = self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> OutputLine:
        while not self._lines:
            if self._ended or self._closed:
                raise StopAsyncIteration
            if self._forward is None:
                raise LocalProtocolError("OutputLines have no lines before aiompi.spawn has got them as output")
            if self._arrival is None or self._arrival.done():
                self._arrival = Request(self._forward.engine)
            await self._arrival
        line = self._lines.popleft()
        self._length -= len(line.text)
        if self._forward is not None and self._length < _LIMIT:
            self._forward.resume()
        return line

    async def aclose(self) -> None:
        """End the iteration. Whatever the ranks print from now on is dropped."""
        self._closed = True
        self._lines.clear()
        self._partial, self._length = "", 0
        self._wake()
        if self._forward is not None:
            self._forward.resume()

    def _begin(self, forward: Forward) -> None:
        if self._forward is not None:
            raise LocalProtocolError("spawn: these OutputLines belong to other ranks already: make new ones")
        self._forward = forward

    def _feed(self, text: str, *, ended: bool) -> bool:
        """Take a piece of output (`ended`: the last one); return True if the caller may pass more now."""
        if not self._closed:
            *whole, self._partial = (self._partial + text).split("\n")
            if self._partial and (ended or len(self._partial) > _LIMIT):
                whole, self._partial = [*whole, self._partial], ""
            lines = [*map(_line, whole)]
            self._lines.extend(lines)
            self._length += sum(len(line.text) for line in lines)
        self._ended = ended
        self._wake()
        return self._length < _LIMIT

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.complete()


def _line(text: str) -> OutputLine:
    tag = _TAG.match(text)
    if tag is None:
        return OutputLine(None, text, is_error=True)
    return OutputLine(int(tag[1]), text[tag.end() :], bool(tag[2]))


class Forward:
    """Passes what ranks print on to the program.

    Args:
        output: object to which the output of the ranks is written. None: each piece of output goes to the current
            `sys.stdout`.

    Attributes:
        write_end: descriptor to which the ranks print; the caller closes it.
        options: options that the launcher needs for this output.
        engine: engine of the rank that has started the ranks.
        ended: request that is complete when no output follows.
    """

    def __init__(self, runtime: Runtime, output: Output | OutputLines | None) -> None:
        self.engine = runtime.engine
        self._driver = self.engine.driver
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end inside a character
        self._reading = self._unlimited = False
        self.ended: Request[None] = Request(self.engine)
        self._feed: _Feed
        if isinstance(output, OutputLines):
            output._begin(self)
            self._feed, self.options = output._feed, ["--tag-output"]
        else:
            self._output = output
            self._feed, self.options = self._write, []
        self._read, self.write_end = os.pipe()
        os.set_blocking(self._read, False)
        self.resume()

    def _write(self, text: str, *, ended: bool) -> bool:
        if text:
            (self._output or sys.stdout).write(text)
        return True

    def resume(self) -> None:
        """Go on reading."""
        if not (self._reading or self.ended.done()):
            self._reading = True
            self._driver.add_reader(self._read, self._readable)

    def unlimit(self) -> None:
        """Read all output from now on, so that no rank blocks while the program waits for the end of the ranks."""
        self._unlimited = True
        self.resume()

    def _readable(self) -> None:
        try:
            data = os.read(self._read, _READ)
        except BlockingIOError:
            return
        if not data:  # all ranks have ended, and their launcher
            self.close()
        elif not self._feed(self._decoder.decode(data), ended=False) and not self._unlimited:
            self._pause()

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._driver.remove_reader(self._read)

    def close(self) -> None:
        """Read nothing more."""
        if not self.ended.done():
            self._pause()
            os.close(self._read)
            self.ended.complete()
            self._feed(self._decoder.decode(b"", final=True), ended=True)
