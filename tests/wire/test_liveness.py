"""Peers that compute, and machines that are gone; tests/cluster/test_network.py cuts real cables."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from aiompi.wire import liveness


@pytest.mark.parametrize("recent", [True, False], ids=["kernel 6.15", "older kernel"])
def test_a_peer_that_does_not_read_is_not_cut_off(recent: bool) -> None:
    """A rank may compute for long while its buffers are full. Then an older kernel seldom asks whether it has room."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as sock:
        peer, _ = listener.accept()
        with peer:
            liveness.keep_alive(sock, 1.0)
            if not recent:
                with contextlib.suppress(OSError):  # this one may be older
                    sock.setsockopt(socket.IPPROTO_TCP, liveness._TCP_RTO_MAX_MS, 120_000)
            sock.setblocking(False)
            deadline = time.monotonic() + 8
            while time.monotonic() < deadline:
                try:
                    sock.send(bytes(2**16))
                except BlockingIOError:
                    time.sleep(0.02)
                assert not liveness.is_cut_off(sock, 1.0)
