"""Messages whose sends no call waits for: they are delivered, or the job fails. Both faces, real processes."""

from __future__ import annotations

import textwrap
from typing import Final

import pytest

from aiompi.wire.variables import ENV_RANK
from support.jobs import FACES, Result, Site, in_face

NBYTES: Final = 300_000  # more than is sent without asking the receiver

#: what programs may use in both faces
HELPERS: Final = """
    def free(request):
        (request.Free if hasattr(request, "Free") else request.free)()

    def start(request):
        (request.Start if hasattr(request, "Start") else request.start)()
"""
#: rank 1 takes the messages when it has learnt that rank 0 starts no operation any more
LATE_RECEIVER: Final = f"""{HELPERS}
    def message(tag):
        return bytearray([tag]) * {NBYTES}

    if comm.rank == 0:
        comm.Attach_buffer(bytearray(2 * {NBYTES} + 3 * aiompi.MPI.BSEND_OVERHEAD))
        await comm.Bsend(memory := message(0), dest=1, tag=0)
        memory[:] = bytes(1)
        comm.Ibsend(message(1), dest=1, tag=1)
        free(comm.Ibsend(b"", dest=1, tag=2))
        free(comm.Isend(message(3), dest=1, tag=3))
        free(comm.Issend(message(4), dest=1, tag=4))
        send = comm.Send_init(message(5), dest=1, tag=5)
        start(send)
        free(send)
        del send
        LEAVE
    else:
        try:
            await comm.recv(source=0, tag=9)
        except aiompi.ProcessFailedError:
            pass
        for tag in range(6):
            await comm.Recv(memory := bytearray({NBYTES}), source=0, tag=tag)
            print(tag, memory == (message(tag) if tag != 2 else message(0)))
"""
ENDS: Final = {
    ("finalizes", "native"): "return",
    ("finalizes", "blocking"): "MPI.Finalize()",
    ("exits without Finalize", "native"): "sys.exit()",
    ("exits without Finalize", "blocking"): "sys.exit()",
}


@pytest.mark.spec("S2.7-1", "S3.7.3-12", "S3.7.4-3", "S3.9-9", "S7.5-4")
@pytest.mark.parametrize(("end", "face"), [("finalizes", "native"), ("exits without Finalize", "blocking")])
def test_messages_of_a_rank_that_has_ended(site: Site, end: str, face: str) -> None:
    """They are delivered whenever their receiver receives them."""
    result = site.ok(2, in_face(face, LATE_RECEIVER.replace("LEAVE", ENDS[end, face])))
    assert result.lines == [f"{tag} True" for tag in range(6)]


@pytest.mark.spec("S7.5-4")
def test_messages_to_a_rank_that_starts_late(site: Site) -> None:
    """It learns the addresses of the ranks from the agent when the other one, which knew it earlier, has finalized."""
    body = f"""
    if os.environ["{ENV_RANK}"] == "1":
        import functools
        from aiompi.job.runtime import Runtime
        from aiompi.wire import control

        take = Runtime.on_message

        def take_later(self, message):
            if not isinstance(message, control.Cards):
                return take(self, message)
            deadline = time.monotonic() + 30
            def wait():
                finalized = any(peer.finalize_error for peer in self.engine.peers())
                assert time.monotonic() < deadline, "the other rank has not finalized"
                self.engine.driver.call_later(0.1, functools.partial(take, self, message) if finalized else wait)
            wait()

        Runtime.on_message = take_later

    from aiompi import MPI
    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        comm.send("early", dest=1)
        MPI.Finalize()
    else:
        print(comm.recv(source=0))
    """
    assert site.ok(2, "import os, time\n" + textwrap.dedent(body)).lines == ["early"]


def verdict(result: Result) -> str:
    """Return the first line of the launcher."""
    return next(line for line in result.err.splitlines() if line.startswith("aiompi-launch: "))


#: what fails after its request was freed -> the program, and what the job says
FAILURES: Final = {
    "send that nobody receives": (
        f"""
        if comm.rank == 0:
            free(comm.Isend(bytes({NBYTES}), dest=1))
            LEAVE
        """,
        "rank 1 has finalized: it sends and receives nothing more",
    ),
    "persistent send that nobody receives": (
        f"""
        if comm.rank == 0:
            send = comm.Ssend_init(bytes({NBYTES}), dest=1)
            start(send)
            free(send)
        """,
        "rank 1 has finalized: it sends and receives nothing more",
    ),
    "ready send without a receive": (
        """
        if comm.rank == 0:
            free(comm.Irsend(b"x", dest=1))
            await comm.recv(source=1)
        else:
            await comm.recv(source=0, tag=9)
        """,
        "ready send of 1 bytes: rank 1 had posted no receive for it",
    ),
    "persistent send that had failed before": (
        """
        if comm.rank == 0:
            send = comm.Rsend_init(b"x", dest=1)
            start(send)
            await comm.ssend(None, dest=1, tag=9)
            free(send)
        else:
            await comm.recv(source=0, tag=9)
            await comm.recv(source=0)
        """,
        "ready send of 1 bytes: rank 1 had posted no receive for it",
    ),
    "receive that is too short": (
        """
        if comm.rank == 0:
            free(comm.Irecv(bytearray(1), source=1))
            await comm.recv(source=1, tag=9)
        else:
            await comm.Send(b"xx", dest=0)
            await comm.recv(source=0)
        """,
        "message of 2 bytes from rank 1 with tag 0 does not fit the receive buffer of 1 bytes",
    ),
    "receive that had failed before": (
        """
        if comm.rank == 0:
            receive = comm.Irecv(bytearray(1), source=1)
            await comm.recv(source=1, tag=9)
            free(receive)
        else:
            await comm.Send(b"xx", dest=0)
            await comm.send(None, dest=0, tag=9)
            await comm.recv(source=0)
        """,
        "message of 2 bytes from rank 1 with tag 0 does not fit the receive buffer of 1 bytes",
    ),
}
#: each in one face; how a rank ends matters where it has to wait for the failure
FREED: Final = [
    ("send that nobody receives", "finalizes", "blocking"),
    ("send that nobody receives", "exits without Finalize", "native"),
    *((name, "finalizes", FACES[nth % 2]) for nth, name in enumerate([*FAILURES][1:])),
]


@pytest.mark.spec("S2.7-5", "S3.7.3-13", "S7.5-5")
@pytest.mark.parametrize(("name", "end", "face"), FREED)
def test_failure_after_the_request_was_freed(site: Site, name: str, end: str, face: str) -> None:
    """No call can report the error, so it ends the job, which does not hang."""
    body, cause = FAILURES[name]
    body = textwrap.indent(textwrap.dedent(body), "    ").replace("LEAVE", ENDS[end, face])
    result = site.run(2, in_face(face, HELPERS + body))
    what = "a send that was complete already, or an operation whose request was freed, has failed"
    assert f"rank 0: {what}: {cause}" in verdict(result)
    assert (result.code, result.out) == (1, "")
    assert "Traceback" not in result.err


@pytest.mark.spec("S3.4-8", "S2.7-2")
def test_ready_send_without_receive(site: Site) -> None:
    """By default the error ends the job; a program that catches it continues."""
    body = f"""
    for nbytes in (1, {NBYTES}):
        try:
            await comm.Rsend(bytes(nbytes), 1 - comm.rank, tag=1)
        except aiompi.MPI.OtherError:
            print(await comm.sendrecv("next", 1 - comm.rank, 2, source=1 - comm.rank, recvtag=2), flush=True)
        await comm.Barrier()
    if comm.rank == 0:
        await comm.Rsend(b"x", dest=1)
    await comm.Barrier()
    """
    result = site.run(2, in_face("native", body))
    cause = "rank 0 failed: OtherError: ready send of 1 bytes: rank 1 had posted no receive for it"
    assert cause in verdict(result)
    assert (result.code, result.lines) == (1, ["next"] * 4)


@pytest.mark.spec("S3.6-3", "S3.6-4")
def test_detaching_waits(site: Site) -> None:
    """A message that rank 1 sends before it receives the buffered message has arrived when the call returns."""
    body = f"""
    if comm.rank == 0:
        comm.Attach_buffer(memory := bytearray({NBYTES} + aiompi.MPI.BSEND_OVERHEAD))
        for wait in (comm.Flush_buffer, comm.Detach_buffer):
            await comm.Bsend(bytes({NBYTES}), dest=1)
            await comm.send("sent", dest=1, tag=1)
            print(await wait() is memory, comm.iprobe(source=1, tag=2) not in (None, False))
            await comm.recv(source=1)
    else:
        for _ in range(2):
            await comm.recv(source=0, tag=1)
            await comm.send("before", dest=0, tag=2)
            await comm.Recv(bytearray({NBYTES}), source=0, tag=0)
    """
    env = {"AIOMPI_SHM_EAGER_LIMIT": "0"}  # so that it has to be asked for
    assert site.ok(2, in_face("blocking", body), env=env).out == "False True\nTrue True\n"


@pytest.mark.parametrize("face", FACES)
def test_a_rank_may_compute_for_longer_than_connections_take(site: Site, face: str) -> None:
    """The rank pauses before its first call and between two calls; in the asyncio face this blocks its loop."""
    program = """
    import time
    if comm.rank == 1:
        time.sleep(2.5)
        comm.iprobe()
        time.sleep(2.5)
        print(await comm.recv(source=0))
    else:
        await comm.send("patience", dest=1)
    """
    result = site.run(2, in_face(face, program), env={"AIOMPI_CONNECT_TIMEOUT": "2"})
    assert (result.code, result.out, result.err) == (0, "patience\n", "")
