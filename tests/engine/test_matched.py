"""Matched probes (MPI_Mprobe, MPI_Mrecv), and receives into memory with gaps."""

from __future__ import annotations

import pytest

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from aiompi.engine import Message
from support.worlds import LIMIT, SIZES, LocalWorld, WireWorld, irecv, isend, pattern


def same(message: Message | None) -> Message | None:
    return message


class EveryOther:
    """The even bytes of some memory."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.memory = bytearray(b"\xee" * (2 * nbytes))

    def packed(self) -> memoryview:
        return memoryview(bytes(self.memory[::2]))

    def unpack(self, payload: memoryview) -> None:
        assert len(payload) <= self.nbytes
        self.memory[: 2 * len(payload) : 2] = payload

    def holds(self, data: bytes) -> bool:
        gaps = self.memory[1::2]
        rest = self.memory[2 * len(data) :: 2]
        return self.memory[: 2 * len(data) : 2] == data and set(gaps) | set(rest) <= {0xEE}


@pytest.mark.parametrize("first", ["probe", "message"])
@pytest.mark.parametrize("size", SIZES.values())
@pytest.mark.parametrize("sync", [False, True])
def test_message_is_taken_and_received_later(size: int, sync: bool, first: str) -> None:
    w = WireWorld(2, cut=64, eager_limit=LIMIT)
    comm = w.comms[1]
    probe = comm.mprobe(ANY_SOURCE, ANY_TAG, same) if first == "probe" else None
    send = isend(w.comms[0], pattern(size), 1, 4, sync=sync)
    w.run()
    probe = probe or comm.mprobe(0, 4, same)
    message = probe.result()
    assert isinstance(message, Message)
    assert (message.source, message.tag, message.length) == (0, 4, size)
    assert comm.iprobe(ANY_SOURCE, ANY_TAG) is None
    assert not sync or not send.done()
    other = irecv(comm)
    receive = comm.imrecv(message, None, bytes)
    w.run()
    assert receive.result() == pattern(size)
    assert send.done()
    assert not other.done()


def test_message_that_is_arriving_can_be_taken() -> None:
    w = WireWorld(2, cut=10)
    isend(w.comms[0], pattern(100), 1)
    w.run_wire(0, 1, 80)
    _, message = w.comms[1].improbe(0, 0)
    assert message is not None
    receive = w.comms[1].imrecv(message, memoryview(memory := bytearray(100)))
    w.run()
    receive.result()
    assert memory == pattern(100)
    memory.append(1)  # possible although the message may still exist


def test_taken_message_cannot_be_recalled() -> None:
    w = WireWorld(2)
    send = isend(w.comms[0], b"x", 1, sync=True)
    w.run()
    _, message = w.comms[1].improbe(0, 0)
    send.cancel()
    w.run()
    assert not send.done()
    receive = w.comms[1].imrecv(message, None, bytes)
    w.run()
    assert receive.result() == b"x"
    assert not send.cancelled()


def test_of_two_waiting_probes_one_takes_the_message() -> None:
    w = LocalWorld(2)
    comm = w.comms[1]
    plain, first, second, late = (
        comm.probe(0, 1),
        comm.mprobe(0, 1, same),
        comm.mprobe(ANY_SOURCE, 1, same),
        comm.probe(0, 1),
    )
    isend(w.comms[0], b"a", 1, 1)
    assert [request.done() for request in (plain, first, second, late)] == [True, True, False, False]
    isend(w.comms[0], b"b", 1, 1)
    assert [request.done() for request in (second, late)] == [True, False]
    for probe, data in ((second, b"b"), (first, b"a")):
        assert comm.imrecv(probe.result(), None, bytes).result() == data


@pytest.mark.parametrize("sync", [False, True])
def test_withdrawn_probe_puts_the_message_back(sync: bool) -> None:
    w = WireWorld(2)
    comm = w.comms[1]
    sends = [isend(w.comms[0], data, 1, 1, sync=sync) for data in (b"a", b"b")]
    w.run()
    probe = comm.mprobe(0, 1, same)
    probe.withdraw()
    assert sends[0].cancel() is sync
    w.run()
    assert sends[0].cancelled() is sync
    rest = [irecv(comm).result() for _ in range(2 - sync)]
    assert rest == ([b"b"] if sync else [b"a", b"b"])


@pytest.mark.parametrize("size", [10, 5000])
def test_withdrawn_receive_gives_the_message_to_its_keep_function(size: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    isend(w.comms[0], pattern(size), 1)
    w.run()
    _, message = w.comms[1].improbe(0, 0)
    kept: list[Message] = []
    for target in (None, EveryOther(size), None):
        receive = w.comms[1].imrecv(message, target, None if target else bytes, None, kept.append)
        receive.withdraw()
        w.run()
        assert w.comms[1].iprobe(0, 0) is None
        message = kept.pop()
    receive = w.comms[1].imrecv(message, None, bytes)
    w.run()
    assert receive.result() == pattern(size)


def test_message_that_is_put_back_goes_to_a_receive_that_is_posted() -> None:
    w = LocalWorld(2)
    isend(w.comms[0], b"a", 1, 1)
    probe = w.comms[1].mprobe(0, 1, same)
    receive = irecv(w.comms[1], 0, 1)
    probe.withdraw()
    assert receive.result() == b"a"


def test_waiting_probe_is_cancelled() -> None:
    w = LocalWorld(2)
    probe = w.comms[1].mprobe(0, 1, same)
    probe.withdraw()
    assert probe.cancelled()
    isend(w.comms[0], b"a", 1, 1)
    assert w.comms[1].improbe(0, 1)[0]
    assert not w.comms[1].improbe(0, 1)[0]


@pytest.mark.spec("S3.11-4")
def test_null_process() -> None:
    comm = LocalWorld(1).comms[0]
    message = comm.mprobe(PROC_NULL, 5, same).result()
    assert message is None
    assert comm.improbe(PROC_NULL, 5) == (True, None)
    assert comm.envelope(message).source == PROC_NULL
    assert comm.imrecv(message, memoryview(bytearray(3))).result().source == PROC_NULL


@pytest.mark.parametrize("size", [10, LIMIT + 1])
def test_taken_message_of_a_peer_that_is_gone(size: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    isend(w.comms[0], pattern(size), 1)
    w.run()
    _, message = w.comms[1].improbe(0, 0)
    w.engines[1].peer(0).mark_failed("test")
    receive = w.comms[1].imrecv(message, None, bytes)
    if size == 10:
        assert receive.result() == pattern(10)
    else:
        assert isinstance(receive.exception(), errors.ProcessFailedError)


def test_taken_message_that_broke_off() -> None:
    w = WireWorld(2)
    isend(w.comms[0], bytes(100), 1)
    w.run_wire(0, 1, 80)
    _, message = w.comms[1].improbe(0, 0)
    w.engines[1].peer(0).mark_failed("test")
    assert isinstance(w.comms[1].imrecv(message, None, bytes).exception(), errors.ProcessFailedError)


# Memory with gaps.


@pytest.mark.spec("S3.12.5-7", "S3.2.4-4")
@pytest.mark.parametrize("cut", [1, 2**30])
@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("size", [0, 1, LIMIT, LIMIT + 1, 5000])
@pytest.mark.parametrize("room", [0, 7])
def test_message_is_unpacked(size: int, posted: bool, cut: int, room: int) -> None:
    w = WireWorld(2, cut=cut, eager_limit=LIMIT)
    target = EveryOther(size + room)
    receive = w.comms[1].irecv(target, 0, 0) if posted else None
    send = isend(w.comms[0], pattern(size), 1)
    w.run()
    receive = receive or w.comms[1].irecv(target, 0, 0)
    w.run()
    assert receive.result().nbytes == size
    assert send.done()
    assert target.holds(pattern(size))


@pytest.mark.spec("S3.2.4-5", "S3.2.4-6")
@pytest.mark.parametrize("cut", [1, 2**30])
@pytest.mark.parametrize("size", [2, LIMIT, 5000])
def test_message_that_is_too_long(size: int, cut: int) -> None:
    w = WireWorld(2, cut=cut, eager_limit=LIMIT)
    target = EveryOther(size - 1)
    receive = w.comms[1].irecv(target, 0, 0)
    isend(w.comms[0], pattern(size), 1)
    w.run()
    with pytest.raises(errors.TruncationError, match=f"message of {size} bytes .* buffer of {size - 1} bytes"):
        receive.result()
    assert target.holds(pattern(size)[:-1])
    assert receive.status.source == 0


@pytest.mark.parametrize("arrived", [60, 2**30])
@pytest.mark.parametrize("size", [100, 5000])
def test_withdrawn_receive_gives_the_message_back(size: int, arrived: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    receive = w.comms[1].irecv(EveryOther(size), 0, 0)
    isend(w.comms[0], pattern(size), 1)
    w.run_wire(0, 1, 48)
    w.run_wire(1, 0)
    w.run_wire(0, 1, arrived)
    receive.withdraw()
    again = irecv(w.comms[1])
    w.run()
    assert again.result() == pattern(size)
