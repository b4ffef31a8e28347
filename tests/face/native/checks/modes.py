"""Communication modes (section 3.4), and memory for the buffered one (section 3.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import aiompi
from aiompi import Intracomm
from aiompi.MPI import BSEND_OVERHEAD
from face.native.checks import LARGE, SMALL, World, check, expect, settle

MODES = ("", "b", "s", "r")


def starts(comm: Intracomm, mode: str, payload: bytes, tag: int) -> list[Callable[[], Awaitable[None]]]:
    """All ways to send some bytes to rank 1 in a mode; those of the first half as objects."""

    def persistent() -> Awaitable[None]:
        send: aiompi.PersistentRequest[None] = getattr(comm, f"{mode}send_init".capitalize())(payload, 1, tag)
        send.start()
        return send

    names = (f"{mode}send", f"i{mode}send", f"{mode}send".capitalize(), f"I{mode}send")
    return [*((lambda name=name: getattr(comm, name)(payload, 1, tag)) for name in names), persistent]


@check
@pytest.mark.spec("S3.4-1", "S3.4-9", "S3.7-2", "S3.7-3")
async def every_mode(world: World) -> None:
    """Every way to send meets the one receive."""
    sender, receiver = world[0], world[1]
    sender.Attach_buffer(None)
    for mode in MODES:
        for nbytes in (SMALL, LARGE):
            payload = mode.encode() * nbytes + b"x"
            ways = starts(sender, mode, payload, 3)
            for start in ways[:2]:
                receive = receiver.irecv(source=0, tag=3)
                await asyncio.gather(start(), expect(receive, payload))
            for start in ways[2:]:
                memory = bytearray(len(payload))
                receive = receiver.Irecv(memory, source=0, tag=3)
                await asyncio.gather(start(), receive)
                assert memory == payload
    await sender.Detach_buffer()


@check
@pytest.mark.spec("S3.4-2")
async def sends_before_the_receive(world: World) -> None:
    """In every mode but the ready one."""
    world[0].Attach_buffer(None)
    for mode in ("", "b", "s"):
        for start in starts(world[0], mode, bytes(LARGE), 3)[2:]:
            send = start()
            await world[1].probe(source=0, tag=3)
            await asyncio.gather(world[1].Recv(bytearray(LARGE)), send)
    await world[0].Detach_buffer()


@check
@pytest.mark.spec("S3.4-8", "S3.7-2", "S3.9-10")
async def ready_without_receive(world: World) -> None:
    """The send fails, the message is gone, and all goes on."""
    for nbytes in (SMALL, LARGE):
        for start in starts(world[0], "r", bytes(nbytes), 3):
            with pytest.raises(aiompi.MPI.OtherError, match="rank 1 had posted no receive for it, and has dropped it"):
                await start()
            assert world[1].iprobe() is None
    await asyncio.gather(world[0].send("next", 1, 3), expect(world[1].recv(source=0, tag=3), "next"))


@check
@pytest.mark.spec("S3.4-6", "S3.4-13", "S3.7-4", "S3.7-6")
async def completion(world: World) -> None:
    """A short standard send is complete before its receive, a long one not; a synchronous one never."""
    short, long = world[0].isend("short", 1, 1), world[0].Isend(bytes(LARGE), 1, 2)
    sync, buffer_sync = world[0].issend("sync", 1, 3), world[0].Issend(b"x", 1, 4)
    await short
    await settle(world[0], world[1])
    assert [send.done() for send in (long, sync, buffer_sync)] == [False] * 3
    receives = world[1].Irecv(bytearray(1), 0, 4), world[1].irecv(0, 3), world[1].Irecv(bytearray(LARGE), 0, 2)
    await asyncio.gather(sync, buffer_sync, long)
    assert (await receives[1], await world[1].recv()) == ("sync", "short")


@check
@pytest.mark.spec("S2.3-2", "S3.4-4", "S3.6-11", "S3.7-5")
async def buffered_sends_are_local(world: World) -> None:
    """Complete without a receive, and the memory of the user is free."""
    comm = world[0]
    comm.Attach_buffer(bytearray(2 * (LARGE + BSEND_OVERHEAD)))
    for nbytes in (0, SMALL, LARGE):
        memory = bytearray(b"x" * nbytes)
        send = comm.Ibsend(memory, 1)
        assert send.done()
        memory[:] = b"y" * nbytes
        await comm.Bsend(b"z", 1)
        received = bytearray(LARGE)
        status = await world[1].Recv(received, source=0)
        assert received[: status.nbytes] == b"x" * nbytes
        await world[1].Recv(received, source=0)
    assert comm.ibsend({"a": 1}, 1).done()
    await expect(world[1].recv(), {"a": 1})
    await comm.Detach_buffer()


@check
@pytest.mark.spec("S3.4-5", "S3.6-7", "S3.6-8", "S3.6-10")
async def room(world: World) -> None:
    """Of exactly two messages: a third one is refused by the call that starts it, until there is room again."""
    comm = world[0]
    comm.Attach_buffer(bytearray(2 * (LARGE + BSEND_OVERHEAD)))
    for number in range(2):
        await comm.Bsend(bytes([number]) * LARGE, 1)
    for refused in starts(comm, "b", b"", 0)[2:]:
        with pytest.raises(aiompi.InvalidBufferError, match="has no such room"):
            refused()
    received = bytearray(LARGE)
    for number in range(5):
        await world[1].Recv(received, source=0)
        assert received == bytes([number]) * LARGE
        await settle(comm, world[1])
        if number < 3:
            await comm.Bsend(bytes([number + 2]) * LARGE, 1)
    await comm.Detach_buffer()


@check
@pytest.mark.spec("S3.6-1", "S3.6-2", "S3.6-3", "S3.6-5", "S3.6-6")
async def attach_and_detach(world: World) -> None:
    comm, memory = world[0], bytearray(BSEND_OVERHEAD + 1)
    for without in (comm.Detach_buffer, comm.Flush_buffer, lambda: comm.Bsend(b"", 1), lambda: comm.ibsend(None, 1)):
        with pytest.raises(aiompi.InvalidBufferError, match="attached"):
            without()
    for _ in range(2):
        comm.Attach_buffer(memory)
        with pytest.raises(aiompi.InvalidBufferError, match="a buffer is attached already; detach it first"):
            comm.Attach_buffer(bytearray(10))
        await asyncio.gather(comm.Send(bytes(LARGE), 1), world[1].Recv(bytearray(LARGE)))
        await comm.Bsend(b"x", 1)
        assert await comm.Detach_buffer() is memory
        await world[1].Recv(bytearray(1))
    with pytest.raises(aiompi.InvalidBufferError, match="read-only"):
        comm.Attach_buffer(bytes(1000))
    with pytest.raises(TypeError, match="buffer protocol"):
        comm.Attach_buffer(1000)
    comm.Attach_buffer(None)
    assert await comm.Detach_buffer() is None


@check
@pytest.mark.spec("S3.6-4")
async def detaching_waits(world: World) -> None:
    """Detach waits for the messages, also if an await is cancelled; another buffer can be attached at once."""
    comm, memory, other = world[0], bytearray(LARGE + BSEND_OVERHEAD), bytearray(1000)
    comm.Attach_buffer(memory)
    await comm.Bsend(b"x" * LARGE, 1)
    flush, detach = comm.Flush_buffer(), comm.Detach_buffer()
    await settle(comm, world[1])
    for waiting in (flush, detach):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await waiting
    comm.Attach_buffer(other)
    await comm.Bsend(b"second", 1)
    assert await comm.Detach_buffer() is other
    assert not detach.done()
    received = bytearray(LARGE)
    await world[1].Recv(received)
    assert received == b"x" * LARGE
    assert await flush is None
    assert await detach is memory
    await world[1].Recv(received)
    assert received[:6] == b"second"


@check
@pytest.mark.spec("S3.5-3", "S3.6.1-1")
async def order_of_modes(world: World) -> None:
    world[0].Attach_buffer(None)
    sends = []
    for number, mode in enumerate(("b", "", "s", "b", "s", "")):
        nbytes = LARGE if number % 2 else 1
        sends.append(getattr(world[0], f"I{mode}send")(bytes([number]) * nbytes, 1, 3))
    received = bytearray(LARGE)
    for number in range(6):
        await world[1].Recv(received, source=0, tag=3)
        assert received[0] == number
    await asyncio.gather(*sends)
    await world[0].Detach_buffer()


@check
@pytest.mark.spec("S3.2.3-3", "S3.2.3-6", "S3.9-1")
async def bad_arguments_of_every_mode(world: World) -> None:
    """Are refused by the call, before anything has happened; those of persistent requests when they are bound."""
    comm = world[0]
    comm.Attach_buffer(None)
    names = [f"{form}{mode}send" for mode in MODES for form in ("", "i")]
    names += [f"I{mode}send" for mode in MODES] + [f"{mode}send".capitalize() for mode in MODES]
    names += [f"{mode}send_init".capitalize() for mode in MODES]
    for name in names:
        start: Callable[..., Any] = getattr(comm, name)
        for dest in (3, aiompi.ANY_SOURCE):
            with pytest.raises(aiompi.MPI.InvalidRankError, match=rf"destination {dest} is not in 0\.\.2"):
                start(b"x", dest)
        for tag in (aiompi.ANY_TAG, aiompi.MPI.TAG_UB + 1):
            with pytest.raises(aiompi.MPI.InvalidTagError, match=f"tag {tag} of a send"):
                start(b"x", 1, tag)
    await comm.Detach_buffer()
    assert world[1].iprobe() is None
