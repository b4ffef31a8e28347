"""The tester's own IMPI server: recorded clients get through, and what is wrong is told (IMPI 0.0, section 2.3)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from aiompi_launcher.conformance.journal import Journal, Severity
from aiompi_launcher.conformance.server import Server
from aiompi_launcher.conformance.wire.startup import command, submission
from support.limits import LIMIT
from support.recordings import JOBS, Connection, connections

AUTH = command(0x41555448, b"\0\0\0\1")
IMPI = command(0x494D5049, bytes(4))
DONE = command(0x444F4E45)
FINI = command(0x46494E49)


@contextlib.asynccontextmanager
async def serving(clients: int, key: int | None = None) -> AsyncIterator[tuple[Server, Journal]]:
    journal = Journal()
    server = Server(clients, journal, key)
    server.may_finish = True
    await server.start("127.0.0.1")
    try:
        yield server, journal
    finally:
        server.close()
        await server.closed()


async def talk(server: Server, data: bytes, step: int) -> bytes:
    """What the server answers to a client that says all of this, in pieces."""
    async with asyncio.timeout(LIMIT):
        reader, writer = await asyncio.open_connection(*server.address)
        for start in range(0, len(data), step):
            writer.write(data[start : start + step])
            await asyncio.sleep(0)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer


@pytest.mark.spec("I5.1-8", "I2.3.2-5", "I2.3.5-6")
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("step", [1, 10**6])
@pytest.mark.asyncio
async def test_recorded_clients_get_through(job: str, step: int):
    """Byte for byte the answers of the server of those days, and no objection but to what they might do better."""
    recorded: list[Connection] = [found for found in connections(job) if not found.between_hosts]
    async with serving(len(recorded), 5678 if job == "authkey" else None) as (server, journal):
        answers = await asyncio.gather(*(talk(server, connection.sent, step) for connection in recorded))
    assert answers == [connection.answered for connection in recorded]
    assert journal.errors == []
    assert {deviation.severity for deviation in journal.deviations} <= {Severity.NOTE}


LABELS = submission(0x1000, bytes(8)) + submission(0x1100, b"\0\0\0\1")
FINDINGS = {
    "no AUTH": (IMPI, "I2.3.2-7"),
    "endless AUTH": (b"AUTH\x7f\xff\xff\xff", "I2.3.2-6"),
    "empty AUTH": (command(0x41555448), "I2.3.2-6"),
    "other methods": (command(0x41555448, b"\0\0\0\4"), "I2.3.3-10"),
    "end of file": (AUTH + IMPI[:7], "I2.3.7-4"),
    "no IMPI": (AUTH + LABELS, "I2.3.2-7"),
    "long IMPI": (AUTH + command(0x494D5049, bytes(8)), "I2.3.4-1"),
    "another rank": (AUTH + command(0x494D5049, b"\0\0\0\1"), "I2.3.4-5"),
    "negative rank": (AUTH + command(0x494D5049, b"\xff\xff\xff\xff"), "I2.3.4-5"),
    "label twice": (AUTH + IMPI + LABELS + submission(0x1100, b"\0\0\0\1"), "I2.3.5-5"),
    "no label": (AUTH + IMPI + command(0x434F4C4C, b"\0"), "I2.3.2-6"),
    "label 0": (AUTH + IMPI + submission(0, b""), "I2.3.5-13"),
    "limit": (AUTH + IMPI + submission(0x1300, bytes(4)), "I2.3.5-31"),
    "size": (AUTH + IMPI + submission(0x1300, bytes(6)), "I2.3.5-16"),
    "labels missing": (AUTH + IMPI + LABELS + DONE + FINI, "I2.3.5-14"),
    "COLL after DONE": (AUTH + IMPI + DONE + LABELS, "I2.3.2-8"),
    "payload of FINI": (AUTH + IMPI + DONE + command(0x46494E49, b"!"), "I2.3.7-1"),
}


@pytest.mark.spec("I5.1-14", "I5.1-17")
@pytest.mark.parametrize(("data", "rule"), FINDINGS.values(), ids=list(FINDINGS))
@pytest.mark.asyncio
async def test_what_is_wrong_is_told(data: bytes, rule: str):
    async with serving(1) as (server, journal):
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(LIMIT):
            await reader.read()
        writer.close()
        await writer.wait_closed()
    assert rule in {deviation.rule for deviation in journal.errors}


@pytest.mark.spec("I2.3.2-3", "I2.3.3-7", "I2.3.5-11")
@pytest.mark.asyncio
async def test_what_is_new_is_put_up_with():
    """More words of AUTH, unknown commands, private labels."""
    auth = command(0x41555448, b"\0\0\0\1\xff\xff\xff\xff")
    private = submission(0x7000, b"abc")
    async with serving(1) as (server, _):
        answer = await talk(server, auth + command(0x54455354, b"12345") + IMPI + private + DONE + FINI, 10**6)
    assert answer.endswith(command(0x434F4C4C, b"\0\0\x70\0\0\0\0\1abc") + DONE)


@pytest.mark.spec("I2.3.3-23", "I5.1-14")
@pytest.mark.asyncio
async def test_after_a_wrong_key_the_rank_is_still_free():
    auth = command(0x41555448, b"\0\0\0\2")
    async with serving(1, key=2**64 - 1) as (server, journal):
        assert await talk(server, auth + (1).to_bytes(8) + IMPI, 10**6) == b"\0\0\0\1\0\0\0\0"
        assert [error.rule for error in journal.errors] == ["I2.3.3-21"]
        answer = await talk(server, auth + (2**64 - 1).to_bytes(8) + IMPI + DONE + FINI, 10**6)
    assert answer.endswith(DONE)
    assert not any((2**64 - 1).to_bytes(8) in step.data for step in journal.steps)  # keys are not written down


@pytest.mark.spec("I2.3.4-2")
@pytest.mark.asyncio
async def test_nothing_is_answered_before_all_have_come():
    async with serving(2) as (server, _):
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(AUTH + IMPI + DONE)
        assert await reader.readexactly(8) == bytes(8)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.readexactly(1)
        others = asyncio.create_task(talk(server, AUTH + command(0x494D5049, b"\0\0\0\1") + DONE + FINI, 10**6))
        expected = command(0x494D5049, b"\0\0\0\2") + DONE
        assert await reader.readexactly(len(expected)) == expected
        assert await others == bytes(8) + expected
        writer.close()
        await writer.wait_closed()
