"""Links between a session of pytest and its workers: only processes with the key have one."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiompi.testing import links
from aiompi.wire.hello import new_key
from support.limits import LIMIT


@pytest.fixture(params=["tcp", "unix"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[links.Listener]:
    with contextlib.closing(links.Listener(None if request.param == "tcp" else str(tmp_path / "s"))) as listener:
        yield listener


def accept(listener: links.Listener, thread: threading.Thread) -> dict[int, links.Link]:
    """Return the links that come while a thread connects."""
    found: dict[int, links.Link] = {}
    thread.start()
    while thread.is_alive() or select.select(listener.filenos(), [], [], 0)[0]:
        readable, _, _ = select.select(listener.filenos(), [], [], 0.01)
        found |= listener.advance(readable)
    thread.join()
    return found


def test_long_messages_in_both_directions(listener: links.Listener) -> None:
    """Each end sends while it receives, as a worker does that is asked what it does."""
    found: list[links.Link] = []
    connecting = threading.Thread(target=lambda: found.append(links.connect(listener.address, listener.key, 3)))
    accepted = accept(listener, connecting)
    assert [*accepted] == [3]
    ours, [theirs] = accepted[3], found
    text = "text" * 2**20
    sending = [threading.Thread(target=link.send, args=[[text, "end"]]) for link in (ours, theirs)]
    for thread in sending:
        thread.start()
    got: list[object] = []
    receiving = threading.Thread(target=lambda: got.append(theirs.recv()))
    receiving.start()
    assert ours.recv() == [text, "end"]
    for thread in [*sending, receiving]:
        thread.join(LIMIT)
    assert got == [[text, "end"]]
    theirs.send(1)
    theirs.send(2)
    assert links.wait([ours], LIMIT) == [ours]
    assert ours.recv() == 1
    assert links.wait([ours], LIMIT) == [ours]
    assert ours.recv() == 2
    theirs.close()
    with pytest.raises(EOFError):
        ours.recv()
    ours.close()


def test_strangers(listener: links.Listener) -> None:
    """A process with another key, and one that says something else, get no link and disturb nothing."""
    said: list[str] = []

    def connect() -> None:
        try:
            links.connect(listener.address, new_key(), 0)
        except ConnectionError as error:
            said.append(str(error))

    assert accept(listener, threading.Thread(target=connect)) == {}
    assert "rank 0 cannot reach pytest: " in said[0]
    assert "the key of the job" in said[0]

    def speak() -> None:
        kind, _, where = listener.address.partition(":")
        with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as stranger:
            host, _, port = where.rpartition(":")
            stranger.connect(where if kind == "unix" else (host.split(",")[0], int(port)))
            stranger.sendall(b"\x80\x04." * 100)
            with contextlib.suppress(ConnectionResetError):
                while stranger.recv(1000):
                    pass

    assert accept(listener, threading.Thread(target=speak)) == {}
    assert len(listener.filenos()) == 1
