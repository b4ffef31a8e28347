"""Frames: golden bytes, any segmentation, payloads that are not copied, and streams that are no frames."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.errors import RemoteProtocolError
from aiompi.wire import frame
from aiompi.wire.frame import HEADER, HEADER_BYTES, READ_AHEAD, FrameReader
from support.cases import cases
from support.frames import Header
from support.worlds import pattern, pour


class Landing:
    """Memory for one payload, which gives room in pieces of `step` bytes."""

    def __init__(self, length: int, step: int = 2**30) -> None:
        self.memory = bytearray(length)
        self.filled = 0
        self._step = step

    def room(self) -> memoryview:
        return memoryview(self.memory)[self.filled :][: self._step]

    def advance(self, nbytes: int) -> None:
        self.filled += nbytes
        assert self.filled <= len(self.memory)


class Sink:
    """Collects frames; payloads as bytes, whichever way they came."""

    def __init__(self, step: int = 2**30) -> None:
        self._found: list[tuple[Header, bytes | Landing]] = []
        self._step = step
        self.whole = 0
        self.payload_owner: Any = None

    def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
        self.whole += 1
        self.payload_owner = payload.obj
        self._found.append((Header(*header), bytes(payload)))

    def land(self, header: tuple[int, ...]) -> Landing:
        landing = Landing(header[5], self._step)
        self._found.append((Header(*header), landing))
        return landing

    @property
    def frames(self) -> list[tuple[Header, bytes]]:
        return [(header, bytes(p.memory) if isinstance(p, Landing) else p) for header, p in self._found]


def encode(header: Header, payload: bytes = b"") -> bytes:
    return HEADER.pack(*header) + payload


def new_reader(step: int = 2**30) -> tuple[FrameReader, Sink]:
    sink = Sink(step)
    return FrameReader(sink), sink


# Golden bytes.

FIELDS = {
    "tag": ("10203040", 0x40302010),
    "source": ("11213141", 0x41312111),
    "credit": ("12223242", 0x42322212),
    "context": ("1323334353637383", 0x8373635343332313),
    "length": ("1424344454647484", 0x8474645444342414),
    "srqid": ("1525354555657585", 0x8575655545352515),
    "drqid": ("1626364656667686", 0x8676665646362616),
}

KINDS = {
    "EAGER": 1,
    "EAGER_SYNC": 2,
    "EAGER_READY": 3,
    "RTS": 4,
    "RTS_READY": 5,
    "CTS": 6,
    "DATA": 7,
    "SYNCACK": 8,
    "NOTREADY": 9,
    "PROTOACK": 10,
    "CANCEL": 11,
    "CANCELYES": 12,
    "CANCELNO": 13,
    "FINI": 14,
}


@pytest.mark.spec("S3.3.2-3")
def test_golden_header() -> None:
    """The envelope has one representation, whatever that of the machine is."""
    header = Header(4, **{name: value for name, (_, value) in FIELDS.items()})
    golden = "04000000" + "".join(text for text, _ in FIELDS.values())
    assert encode(header).hex() == golden
    assert HEADER_BYTES == 48
    reader, sink = new_reader()
    pour(reader, bytes.fromhex(golden))
    assert sink.frames == [(header, b"")]


@cases(("name", "kind"), KINDS.items())
def test_kinds_on_the_wire(name: str, kind: int) -> None:
    assert getattr(frame, name) == kind
    payload = b"payload" if name in ("EAGER", "EAGER_SYNC", "EAGER_READY", "DATA") else b""
    reader, sink = new_reader()
    pour(reader, encode(Header(kind, length=7), payload) + encode(Header(frame.FINI)))
    assert sink.frames == [(Header(kind, length=7), payload), (Header(frame.FINI), b"")]
    assert len(KINDS) == frame.FINI


def test_tags_and_sources_are_signed() -> None:
    assert encode(Header(1, tag=-1, source=-2)).hex()[8:24] == "fffffffffeffffff"


# Segmentation.

HEADERS = st.builds(
    Header,
    kind=st.integers(1, frame.FINI),
    tag=st.integers(-(2**31), 2**31 - 1),
    source=st.integers(-(2**31), 2**31 - 1),
    credit=st.integers(0, 2**32 - 1),
    context=st.integers(0, 2**64 - 1),
    length=st.integers(0, 300),
    srqid=st.integers(0, 2**64 - 1),
    drqid=st.integers(0, 2**64 - 1),
)
STREAMS = st.lists(HEADERS, max_size=12).map(
    lambda headers: [(h, pattern(h.length, i) if h.kind in frame.WITH_PAYLOAD else b"") for i, h in enumerate(headers)]
)


@settings(deadline=None)
@given(STREAMS, st.lists(st.integers(1, 200)), st.integers(1, 400))
def test_frames_survive_any_segmentation(stream: list[tuple[Header, bytes]], cuts: list[int], step: int) -> None:
    reader, sink = new_reader(step)
    pour(reader, b"".join(encode(header, payload) for header, payload in stream), cuts)
    assert sink.frames == stream
    assert reader.between_frames


@settings(deadline=None, max_examples=30)
@given(STREAMS)
def test_frames_survive_one_byte_at_a_time(stream: list[tuple[Header, bytes]]) -> None:
    reader, sink = new_reader()
    ends = set()
    data = bytearray()
    for header, payload in stream:
        data += encode(header, payload)
        ends.add(len(data))
    for at in range(len(data)):
        pour(reader, data[at : at + 1])
        assert reader.between_frames is (at + 1 in ends)
    assert sink.frames == stream


@pytest.mark.parametrize("length", [READ_AHEAD - 2 * HEADER_BYTES + d for d in range(-1, 2)])
@pytest.mark.parametrize("before", [0, 1, 5])
def test_payloads_around_the_read_ahead(length: int, before: int) -> None:
    stream = [(Header(frame.CTS, srqid=i), b"") for i in range(before)]
    stream += [(Header(frame.EAGER, length=length + d), pattern(length + d)) for d in (0, HEADER_BYTES, 10**5)]
    stream += [(Header(frame.FINI), b"")]
    for cut in (2**30, 4096, 47):
        reader, sink = new_reader()
        data = b"".join(encode(header, payload) for header, payload in stream)
        pour(reader, data, [cut] * (len(data) // cut + 1))
        assert sink.frames == stream
        assert reader.between_frames


# Copies.


def test_rest_of_a_payload_is_read_into_its_landing() -> None:
    reader, sink = new_reader()
    pour(reader, encode(Header(frame.DATA, length=10**6), b"head"))
    landing = sink._found[0][1]
    assert isinstance(landing, Landing)
    assert landing.memory[:4] == b"head"
    room = reader.get_buffer()
    assert room.obj is landing.memory
    assert len(room) == 10**6 - 4, "one system call may take all of it"


def test_payload_that_came_with_its_header_is_handed_over_in_place() -> None:
    reader, sink = new_reader()
    pour(reader, encode(Header(frame.EAGER, length=5), b"small") * 3)
    assert sink.whole == 3
    assert sink.payload_owner is reader._buffer


def test_many_small_frames_need_one_read() -> None:
    reader, sink = new_reader()
    data = encode(Header(frame.EAGER, length=8), b"8 bytes.") * 200
    room = reader.get_buffer()
    assert len(room) == READ_AHEAD > len(data)
    room[: len(data)] = data
    reader.buffer_updated(len(data))
    assert sink.whole == 200


def test_flood_of_small_frames_is_read_in_portions() -> None:
    reader, sink = new_reader()
    portion = 16 * 2**10
    small, long = (encode(Header(frame.EAGER, length=n), bytes(n)) for n in (8, 1000))
    count, rest = READ_AHEAD // len(small), portion % len(small)
    pour(reader, small * count)
    assert (sink.whole, len(reader.get_buffer())) == (count, portion)
    pour(reader, (small * count)[:portion])
    assert len(reader.get_buffer()) == portion - rest, "what came filled the portion"
    pour(reader, small[rest:])
    assert len(reader.get_buffer()) == READ_AHEAD, "there was no more"
    assert sink.whole == count + portion // len(small) + 1
    pour(reader, small * count)
    pour(reader, long * 16)
    assert len(reader.get_buffer()) == READ_AHEAD, "longer ones are fewer"


@cases("nbytes", range(10))
def test_the_beginning_of_memory_in_pieces(nbytes: int) -> None:
    pieces = [b"", b"abc", memoryview(bytearray(b"defg")), b"", b"h"]
    found = frame.beginning(pieces, nbytes)
    assert b"".join(found) == b"abcdefgh"[:nbytes]
    assert all(memoryview(part).obj is memoryview(piece).obj for part, piece in zip(found, pieces, strict=False))


# Streams that are no frames.


def test_what_the_sink_refuses_ends_the_stream_after_the_frames_before_it() -> None:
    class Strict(Sink):
        def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
            if header[0] not in KINDS.values():
                raise RemoteProtocolError(f"unknown kind {header[0]}")
            super().frame(header, payload)

    sink = Strict()
    reader = FrameReader(sink)
    bad = b"\xff" * HEADER_BYTES
    pour(reader, encode(Header(frame.EAGER, length=2), b"ok") + bad[:-1])
    with pytest.raises(RemoteProtocolError, match="unknown kind 255"):
        pour(reader, bad[-1:])
    assert sink.frames == [(Header(frame.EAGER, length=2), b"ok")]


@pytest.mark.parametrize("length", [2**32, 2**63, 2**64 - 1])
def test_length_is_for_the_sink_to_judge_before_memory_is_taken(length: int) -> None:
    asked: list[int] = []

    class Wary(Sink):
        def land(self, header: tuple[int, ...]) -> Landing:
            asked.append(header[5])
            raise RemoteProtocolError("too long")

    reader = FrameReader(Wary())
    with pytest.raises(RemoteProtocolError, match="too long"):
        pour(reader, encode(Header(frame.EAGER, length=length)))
    assert asked == [length]


def test_empty_payload_is_a_whole_frame() -> None:
    reader, sink = new_reader()
    for kind in frame.WITH_PAYLOAD:
        pour(reader, encode(Header(kind)))
    assert sink.whole == len(frame.WITH_PAYLOAD)
    assert reader.between_frames


@pytest.mark.parametrize("interrupted", [0, 1, 2])
def test_stream_stays_in_step_when_a_handler_is_interrupted(interrupted: int) -> None:
    """As by a signal handler that raises: the frame is gone, the ones after it are not."""
    seen: list[bytes] = []

    class Interrupted:
        def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
            seen.append(bytes(payload))
            if len(seen) == interrupted + 1:
                raise KeyboardInterrupt

        def land(self, header: tuple[int, ...]) -> frame.Landing:
            raise AssertionError("every frame is whole")

    reader = frame.FrameReader(Interrupted())
    payloads = [b"one", b"", b"three", b"four"]
    head = frame.HEADER.pack
    stream = b"".join(head(frame.EAGER, 0, 0, 0, 0, len(p), 0, 0) + p for p in payloads)
    cut = len(stream) - 2
    reader.get_buffer()[:cut] = stream[:cut]
    with pytest.raises(KeyboardInterrupt):
        reader.buffer_updated(cut)
    reader.get_buffer()[:2] = stream[cut:]
    reader.buffer_updated(2)
    while not reader.between_frames:
        reader.buffer_updated(0)
    assert seen == payloads


@pytest.mark.parametrize("where", ["land", "at first", "at last"])
@pytest.mark.parametrize("cut", [HEADER_BYTES + 10, READ_AHEAD])
def test_stream_stays_in_step_when_it_is_interrupted_in_a_long_payload(where: str, cut: int) -> None:
    """That message is gone; what it held is not taken for frames, and the ones after it come."""

    class Late(Landing):
        def advance(self, nbytes: int) -> None:
            if (where == "at first") == (self.filled == 0):
                raise KeyboardInterrupt  # before it has counted them
            super().advance(nbytes)

    class Interrupted(Sink):
        def land(self, header: tuple[int, ...]) -> Landing:
            if where == "land":
                raise KeyboardInterrupt
            return Late(header[5])

    sink = Interrupted()
    reader = frame.FrameReader(sink)
    forged = encode(Header(frame.EAGER, 666, length=16), bytes(16))
    payload = forged * (-(-2 * READ_AHEAD // len(forged)))
    stream = memoryview(encode(Header(frame.DATA, length=len(payload)), payload) + encode(Header(frame.EAGER, 1)))
    interrupts = 0
    while stream:
        room = reader.get_buffer()
        nbytes = min(len(room), len(stream), cut)
        room[:nbytes] = stream[:nbytes]
        stream = stream[nbytes:]
        try:
            reader.buffer_updated(nbytes)
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts
    assert [header.tag for header, _ in sink.frames] == [1]
    assert reader.between_frames
