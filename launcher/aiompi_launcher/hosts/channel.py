"""A channel of messages over two descriptors, which notices the end of the other side.

Both ends send pings from time to time. A silent end may have died, or may only be busy. If no data arrives, the channel
asks the kernel whether the other end has died; if the kernel does not know, the channel waits longer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.wire import version
from aiompi.wire.control import Decoder
from aiompi_launcher.hosts import messages

#: seconds between pings, and seconds of silence after which the kernel is asked
BEAT: Final = 3.0
DOUBT: Final = 13.0
_READ: Final = 2**18
_NOISE: Final = 2**16  # most bytes of a login shell before the banner of the agent


class Channel:
    """One end of a channel.

    Args:
        pipes: descriptors to read from and to write to, which `close` closes.
        on_message: called with each message, except pings and pauses.
        on_end: called once, with the reason, if the channel ends before `close`. The reason is empty at end of file.
        silence: seconds without data after which a channel fails if it is `watched`; 0 for never.
        lost: asks the kernel why the other end cannot send; returns an empty string if the kernel does not know.
        decoder: decoder that has already read the banner of the other end; None if the banner has not come. Bytes
            before the banner are skipped.

    Attributes:
        begun: True once the banner of the other end has arrived.
        watched: True if the silence of the other end is limited.
    """

    def __init__(
        self,
        pipes: tuple[int, int],
        on_message: Callable[[messages.Message], object],
        on_end: Callable[[str], object],
        silence: float = 0.0,
        lost: Callable[[], str] = str,
        decoder: Decoder | None = None,
    ) -> None:
        self._reader, self._writer = pipes
        self._on_message, self._on_end = on_message, on_end
        self._silence, self._lost = silence, lost
        self.begun = self.watched = decoder is not None
        self._noise = b""
        self._decoder = decoder or messages.decoder()
        self._out = bytearray()
        self._writing = self._paused = self._held = False
        self._when_sent: list[Callable[[], object]] = []
        self._loop = asyncio.get_running_loop()
        self._heard = self._beaten = self._loop.time()
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
        self._loop.add_reader(self._reader, self._readable)
        self._timer = self._loop.call_later(BEAT, self._beat)

    @property
    def noise(self) -> str:
        """The bytes before the banner of the other end."""
        return self._noise.decode(errors="backslashreplace").strip()

    def send(self, message: messages.Message) -> None:
        """Send a message; it is dropped if the channel has ended."""
        self.write(messages.encode(message))

    def write(self, data: bytes) -> None:
        """Send encoded messages."""
        if self._writer >= 0:
            self._out += data
            if not self._writing:
                self._writable()

    def close(self) -> None:
        """Close both descriptors, without a call of `on_end`. Unsent data is lost."""
        self.shut()
        if self._reader >= 0:
            self._timer.cancel()
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1

    def shut(self) -> None:
        """Send nothing more: the other end gets the end of file."""
        if self._writer >= 0:
            self._loop.remove_writer(self._writer)
            os.close(self._writer)
            self._writer = -1

    @property
    def backlog(self) -> int:
        """Bytes that the other end has not read."""
        return len(self._out)

    def when_sent(self, call: Callable[[], object]) -> None:
        """Call a function once, when all data is sent."""
        self._when_sent.append(call)

    def hold(self) -> None:
        """Read nothing more until `resume` is called."""
        if self._reader >= 0:
            self._held = True
            self._loop.remove_reader(self._reader)

    def resume(self) -> None:
        """Read again."""
        if self._reader >= 0:
            self._held, self._heard = False, self._loop.time()
            self._loop.add_reader(self._reader, self._readable)

    async def flush(self) -> None:
        """Wait until everything is sent."""
        while self._out and self._writer >= 0:
            await asyncio.sleep(0.005)

    def _readable(self) -> None:
        try:
            data = os.read(self._reader, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._fail("")
            return
        self._heard = self._loop.time()
        try:
            if not self.begun:
                data = self._skip(data)
            for message in self._decoder.receive_data(data):
                self._dispatch(message)
        except version.OtherVersionError as error:
            self._fail(str(error))
        except RemoteProtocolError as error:
            self._fail(f"it broke the protocol: {error}")

    def _skip(self, data: bytes) -> bytes:
        """Return the bytes that follow the banner of the other end; empty until the banner is complete."""
        self._noise += data
        start = self._noise.find(version.MAGIC)
        end = start + messages.BANNER_BYTES
        if start < 0 or len(self._noise) < end:
            if len(self._noise) > _NOISE:
                self._fail("it printed too much before it started")
            return b""
        self._noise, banner, data = self._noise[:start], self._noise[start:end], self._noise[end:]
        version.check(banner)
        self.begun = True
        return data

    def _dispatch(self, message: messages.Message) -> None:
        self._paused = isinstance(message, messages.Pause)
        if self._reader >= 0 and not isinstance(message, messages.Ping | messages.Pause):
            self._on_message(message)

    def _writable(self) -> None:
        try:
            del self._out[: os.write(self._writer, self._out)]
        except BlockingIOError:
            pass
        except OSError:  # the reader has gone, and its end of file follows
            self._out.clear()
        self._writing = bool(self._out)
        if self._writing:
            self._loop.add_writer(self._writer, self._writable)
        else:
            self._loop.remove_writer(self._writer)
            calls, self._when_sent = self._when_sent, []
            for call in calls:
                call()

    def _beat(self) -> None:
        now = self._loop.time()
        if now - self._beaten > 2 * BEAT:  # this process was stopped, and data that came meanwhile is not read yet
            self._heard = now
        self._beaten = now
        if self.begun and not (self._paused or self._held) and (reason := self._judge(now - self._heard)):
            self._fail(reason)
            return
        if self.begun and not self._out:
            self.send(messages.Ping())
        self._timer = self._loop.call_later(BEAT, self._beat)

    def _judge(self, quiet: float) -> str:
        """Return why the channel must fail after `quiet` seconds without data; empty if it need not."""
        if self.watched and 0 < self._silence < quiet:
            return f"nothing has come from it for {self._silence:g} s (AIOMPI_SILENCE)"
        return self._lost() if quiet > DOUBT else ""

    def _fail(self, reason: str) -> None:
        if self._reader >= 0:
            self.close()
            self._on_end(reason)
