"""Lines from pipes of ranks to a file of the launcher."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiompi_launcher.output import streams
from aiompi_launcher.output.streams import Sink, Source, TerminalInput
from support.limits import LIMIT


class Pipe:
    """A pipe whose ends are closed at the end of the test."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()

    def close(self) -> None:
        for descriptor in (self.detach(), self.read_end):
            if descriptor >= 0:
                os.close(descriptor)

    def put(self, data: bytes) -> None:
        os.write(self.write_end, data)

    def detach(self) -> int:
        """The write end, for somebody else to own."""
        descriptor, self.write_end = self.write_end, -1
        return descriptor

    def end(self) -> None:
        os.close(self.detach())

    def get(self) -> bytes:
        os.set_blocking(self.read_end, False)
        try:
            return os.read(self.read_end, 2**20)
        except BlockingIOError:
            return b""

    async def expect(self, expected: bytes) -> None:
        """Read until exactly this has come."""
        got = b""
        async with asyncio.timeout(LIMIT):
            while len(got) < len(expected):
                got += self.get()
                await asyncio.sleep(0)
        assert got == expected


@pytest.fixture
def out() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.fixture
def ranks() -> Iterator[list[Pipe]]:
    pipes = [Pipe(), Pipe()]
    yield pipes
    for pipe in pipes:
        pipe.close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process does not do for a while is no pause of a rank. Tests of pauses set shorter ones."""
    monkeypatch.setattr(streams, "IDLE", LIMIT)
    monkeypatch.setattr(streams, "HOLD", 2 * LIMIT)


async def settle() -> None:
    """Let the loop handle everything that is ready."""
    for _ in range(20):
        await asyncio.sleep(0)


def sink_to(descriptor: int) -> tuple[Sink, list[str]]:
    broken: list[str] = []
    return Sink(descriptor, broken.append), broken


def detached(pipe: Pipe) -> int:
    """The read end, for a Source to own."""
    descriptor, pipe.read_end = pipe.read_end, -1
    return descriptor


@pytest.mark.asyncio
async def test_lines_pass(out: Pipe, ranks: list[Pipe]):
    sink, _ = sink_to(out.write_end)
    Source(detached(ranks[0]), sink)
    ranks[0].put(b"one\ntwo\n")
    await out.expect(b"one\ntwo\n")


@pytest.mark.asyncio
async def test_lines_are_whole_however_they_come(out: Pipe, ranks: list[Pipe]):
    sink, _ = sink_to(out.write_end)
    for pipe in ranks:
        Source(detached(pipe), sink)
    for piece, other in zip(b"first line\n", b"other line\n", strict=True):
        ranks[0].put(bytes([piece]))
        ranks[1].put(bytes([other]))
        await settle()
    lines = out.get().splitlines()
    assert sorted(lines) == [b"first line", b"other line"]


@pytest.mark.asyncio
async def test_a_prompt_is_passed_on(out: Pipe, ranks: list[Pipe], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "IDLE", 0.001)
    sink, _ = sink_to(out.write_end)
    for pipe in ranks:
        Source(detached(pipe), sink)
    ranks[0].put(b"name? ")
    await out.expect(b"name? ")
    ranks[0].put(b"thanks\n")
    await out.expect(b"thanks\n")


@pytest.mark.asyncio
async def test_no_byte_is_added_between_incomplete_lines_of_ranks_but_before_messages_of_the_launcher(
    out: Pipe, ranks: list[Pipe], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streams, "IDLE", 0.001)
    sink, _ = sink_to(out.write_end)
    for pipe in ranks:
        Source(detached(pipe), sink)
    ranks[0].put(b"name? ")
    await out.expect(b"name? ")
    ranks[1].put(b"hello\n")
    await out.expect(b"hello\n")
    ranks[0].put(b"more? ")
    await out.expect(b"more? ")
    sink.write(None, b"launcher: message\n")
    await out.expect(b"\nlauncher: message\n")


@pytest.mark.asyncio
async def test_tags(out: Pipe, ranks: list[Pipe]):
    sink, _ = sink_to(out.write_end)
    source = Source(detached(ranks[0]), sink, b"[0] ")
    ranks[0].put(b"one\n\ntwo\r\nthr")
    await out.expect(b"[0] one\n[0] \n[0] two\r\n")
    ranks[0].put(b"ee")
    ranks[0].end()
    await out.expect(b"[0] three\n")
    assert source.tail() == ["one", "", "two", "three"]


@pytest.mark.asyncio
async def test_a_last_line_without_end_stays_so_untagged(out: Pipe, ranks: list[Pipe]):
    sink, _ = sink_to(out.write_end)
    Source(detached(ranks[0]), sink)
    ranks[0].put(b"no newline")
    ranks[0].end()
    await out.expect(b"no newline")


@pytest.mark.asyncio
async def test_an_endless_line_does_not_fill_the_memory(out: Pipe, ranks: list[Pipe], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "MAX_LINE", 100)
    sink, _ = sink_to(out.write_end)
    Source(detached(ranks[0]), sink)
    ranks[0].put(b"x" * 150)
    await out.expect(b"x" * 150)


@pytest.mark.asyncio
@pytest.mark.parametrize("tags", [(b"", b""), (b"[0] ", b"[1] ")])
async def test_others_wait_for_the_end_of_a_long_line(
    out: Pipe, ranks: list[Pipe], monkeypatch: pytest.MonkeyPatch, tags: tuple[bytes, bytes]
):
    monkeypatch.setattr(streams, "MAX_LINE", 100)
    sink, _ = sink_to(out.write_end)
    for pipe, tag in zip(ranks, tags, strict=True):
        Source(detached(pipe), sink, tag)
    ranks[0].put(b"x" * 150)
    await out.expect(tags[0] + b"x" * 150)
    ranks[1].put(b"other\n" + b"y" * 150)
    await settle()
    ranks[0].put(b"x" * 90 + b"\nz")
    await out.expect(b"x" * 90 + b"\n" + tags[1] + b"other\n" + tags[1] + b"y" * 150)
    ranks[1].end()
    if tags[1]:
        await out.expect(b"\n")


@pytest.mark.asyncio
@pytest.mark.parametrize("tags", [(b"", b""), (b"[0] ", b"[1] ")])
async def test_others_wait_for_so_long_and_no_byte_but_a_tag_is_added(
    out: Pipe, ranks: list[Pipe], monkeypatch: pytest.MonkeyPatch, tags: tuple[bytes, bytes]
):
    monkeypatch.setattr(streams, "MAX_LINE", 100)
    monkeypatch.setattr(streams, "IDLE", 0.001)
    monkeypatch.setattr(streams, "HOLD", 0.01)
    sink, _ = sink_to(out.write_end)
    for pipe, tag in zip(ranks, tags, strict=True):
        Source(detached(pipe), sink, tag)
    ranks[0].put(b"x" * 150)
    await out.expect(tags[0] + b"x" * 150)
    ranks[1].put(b"other\n")
    await out.expect(tags[1] + b"other\n")
    ranks[0].put(b"rest\n")
    await out.expect(tags[0] + b"rest\n")


@pytest.mark.asyncio
async def test_a_slow_reader_stops_the_writer(out: Pipe, ranks: list[Pipe], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "HIGH_WATER", 10_000)
    monkeypatch.setattr(streams, "LOW_WATER", 5_000)
    monkeypatch.setattr(streams, "_READ", 4096)
    sink, _ = sink_to(out.write_end)
    Source(detached(ranks[0]), sink)
    os.set_blocking(ranks[0].write_end, False)
    text = b"".join(b"%07d\n" % number for number in range(200_000))
    sent = await _write_until_stuck(ranks[0], text)
    capacity = sum(fcntl.fcntl(pipe.write_end, fcntl.F_GETPIPE_SZ) for pipe in (out, ranks[0]))
    assert sent <= capacity + 10_000 + 2 * 4096
    got = b""
    while len(got) < len(text):
        got += out.get()
        sent += await _write_until_stuck(ranks[0], text[sent:])
        await settle()
    assert got == text


async def _write_until_stuck(pipe: Pipe, data: bytes) -> int:
    sent = 0
    while sent < len(data):
        try:
            sent += os.write(pipe.write_end, data[sent : sent + 4096])
        except BlockingIOError:
            await settle()
            try:
                sent += os.write(pipe.write_end, data[sent : sent + 4096])
            except BlockingIOError:
                return sent
        await settle()
    return sent


@pytest.mark.asyncio
async def test_a_broken_pipe_is_reported_once_and_ranks_go_on(out: Pipe, ranks: list[Pipe]):
    sink, broken = sink_to(out.write_end)
    Source(detached(ranks[0]), sink)
    os.close(detached(out))
    for _ in range(3):
        ranks[0].put(b"line\n" * 1000)
        await settle()
    assert broken == [""]
    await sink.drain()


@pytest.mark.asyncio
async def test_a_terminal_that_has_gone_has_no_reader():
    keyboard, terminal = os.openpty()
    sink, broken = sink_to(terminal)
    os.close(keyboard)
    sink.write(None, b"line\n")
    await sink.drain()
    assert broken == [""]
    os.close(terminal)


@pytest.mark.asyncio
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO], ids=errno.errorcode.get)
async def test_a_file_that_takes_no_more(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(descriptor: int, data: bytes) -> int:
        raise OSError(code, os.strerror(code))

    with (tmp_path / "file").open("wb") as file:
        sink, broken = sink_to(file.fileno())
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail)
            sink.write(None, b"line\n")
        sink.write(None, b"line\n")
        await sink.drain()
    assert broken == [os.strerror(code)]


@pytest.mark.asyncio
async def test_a_file(ranks: list[Pipe], tmp_path):
    path = tmp_path / "file"
    with path.open("wb") as file:
        sink, _ = sink_to(file.fileno())
        source = Source(detached(ranks[0]), sink)
        ranks[0].put(b"line\n" * 5000)
        source.close()
        await sink.drain()
    assert path.read_bytes() == b"line\n" * 5000


@pytest.mark.asyncio
async def test_closing_passes_on_what_is_left(out: Pipe, ranks: list[Pipe]):
    sink, _ = sink_to(out.write_end)
    source = Source(detached(ranks[0]), sink)
    ranks[0].put(b"line\nrest")
    source.close()
    await sink.drain()
    assert out.get() == b"line\nrest"


@pytest.mark.asyncio
async def test_closing_does_not_wait_for_what_still_writes(ranks: list[Pipe], monkeypatch: pytest.MonkeyPatch):
    sink, _ = sink_to(ranks[1].write_end)
    source = Source(detached(ranks[0]), sink)
    read = os.read

    def read_and_write_more(descriptor: int, count: int) -> bytes:
        ranks[0].put(b"more\n")
        return read(descriptor, count)

    monkeypatch.setattr(os, "read", read_and_write_more)
    source.close()
    sink.stop()


@pytest.mark.asyncio
async def test_last_lines_and_whether_the_reader_has_just_seen_them(out: Pipe, ranks: list[Pipe]):
    sink, _ = sink_to(out.write_end)
    first, second = (Source(detached(pipe), sink) for pipe in ranks)
    assert first.is_on_display()
    ranks[0].put(b"".join(b"line %d\n" % number for number in range(50)))
    first.catch_up()
    assert first.tail() == [f"line {number}" for number in range(50 - streams.TAIL_LINES, 50)]
    assert first.is_on_display()
    ranks[1].put(b"other\n")
    second.catch_up()
    assert not first.is_on_display()
    assert second.is_on_display()
    sink.stop()


@pytest.mark.asyncio
async def test_undecodable_last_lines(out: Pipe, ranks: list[Pipe]):
    sink, _ = sink_to(out.write_end)
    source = Source(detached(ranks[0]), sink)
    ranks[0].put(b"\xff\n")
    source.catch_up()
    assert source.tail() == ["\\xff"]
    sink.stop()


@pytest.mark.asyncio
async def test_input_from_a_terminal(ranks: list[Pipe]):
    keyboard, terminal = os.openpty()
    descriptor = ranks[0].detach()
    forwarder = TerminalInput(terminal, descriptor)
    os.write(keyboard, b"typed\n")
    await ranks[0].expect(b"typed\n")
    os.write(keyboard, b"\x04")  # end of file
    async with asyncio.timeout(LIMIT):
        while os.path.exists(f"/proc/self/fd/{descriptor}"):
            await asyncio.sleep(0)
    assert os.read(ranks[0].read_end, 1) == b""
    forwarder.close()
    os.close(keyboard)
    os.close(terminal)


@pytest.mark.asyncio
async def test_input_for_a_rank_that_reads_no_more(ranks: list[Pipe]):
    keyboard, terminal = os.openpty()
    descriptor = ranks[0].detach()
    forwarder = TerminalInput(terminal, descriptor)
    os.close(detached(ranks[0]))
    os.write(keyboard, b"typed\n")
    async with asyncio.timeout(LIMIT):
        while os.path.exists(f"/proc/self/fd/{descriptor}"):
            await asyncio.sleep(0)
    forwarder.close()
    os.close(keyboard)
    os.close(terminal)
