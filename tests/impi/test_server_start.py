"""The time that clients have to describe themselves, once all are here."""

from __future__ import annotations

import pytest

from aiompi.impi.auth import Credentials
from aiompi.impi.command import Code, encode, encode_coll, encode_impi
from aiompi.impi.label import FIRST_PRIVATE
from aiompi.impi.server import ClientLost, Server, ServerConnection

AUTH = bytes.fromhex("41555448 00000004 00000001")
DONE = encode(Code.DONE)


def starting(count: int, seconds: float) -> tuple[Server, list[ServerConnection]]:
    """A server whose clients have all joined at time 100."""
    server = Server(count, Credentials(none=True), start_timeout=seconds)
    clients = [server.add_connection(f"192.0.2.{rank}:{rank}", now=100.0) for rank in range(count)]
    for rank, client in enumerate(clients):
        assert server.deadline == 130.0, "there is no limit while some have not joined, but the one to join"
        client.receive_data(AUTH + encode_impi(rank))
    server.events()
    return server, clients


def test_a_client_that_holds_up_the_start_fails_it() -> None:
    """A client that has submitted its labels is not blamed."""
    server, clients = starting(3, 10.0)
    clients[0].receive_data(encode_coll(0x1000, b"a"))
    clients[2].receive_data(DONE)
    assert server.deadline == 110.0
    server.handle_timer(110.0)
    assert server.events() == []
    assert server.deadline == 120.0
    server.handle_timer(119.9)
    assert not server.failed
    server.handle_timer(120.0)
    reason = "client 1 at 192.0.2.1:1: nothing has come from it for 10 s while the job starts"
    (event,) = server.events()
    assert isinstance(event, ClientLost)
    assert event.reason.startswith(reason)
    assert all(client.closing for client in clients)
    assert server.deadline is None


def test_a_start_that_goes_on_has_time() -> None:
    server, clients = starting(2, 10.0)
    for step in range(1, 6):
        clients[0].receive_data(encode_coll(step, b""))
        clients[1].receive_data(encode_coll(step, b""))
        server.handle_timer(100.0 + 10 * step)
        assert server.events() == []


@pytest.mark.parametrize("last", [encode_coll(FIRST_PRIVATE, b""), DONE])
def test_behind_the_standard_labels_clients_may_wait_for_their_programs(last: bytes) -> None:
    server, clients = starting(2, 10.0)
    for client in clients:
        client.receive_data(encode_coll(1, b"") + last)
    server.handle_timer(110.0)
    assert server.deadline is None
    assert not server.failed


def test_a_start_without_a_limit() -> None:
    server, _ = starting(2, 0.0)
    assert server.deadline is None
