"""Listening sockets and their addresses."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from aiompi_launcher import listen


@pytest.mark.spec("I2.2.1-3")
def test_address_is_numeric():
    with listen.listen_tcp("localhost", 0) as listener:
        host, _, port = listen.address_of(listener).rpartition(":")
        assert host == "127.0.0.1"
        socket.create_connection((host, int(port))).close()


def test_address_of_all_interfaces_can_be_connected_to():
    with listen.listen_tcp("0.0.0.0", 0) as listener:
        host, _, port = listen.address_of(listener).rpartition(":")
        assert host != "0.0.0.0"
        socket.create_connection((host, int(port))).close()


def test_ipv6():
    try:
        listener = listen.listen_tcp("::1", 0)
    except OSError:
        pytest.skip("no IPv6 here")
    with listener:
        assert listen.address_of(listener) == f"[::1]:{listener.getsockname()[1]}"


@pytest.mark.spec("I2.2.1-4")
def test_a_taken_port_is_an_error():
    with listen.listen_tcp("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use") as caught:
            listen.listen_tcp("127.0.0.1", port)
        assert caught.value.strerror is not None


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_somebody_else(host: str):
    with pytest.raises(OSError, match=f"cannot listen on {host}:0"):
        listen.listen_tcp(host, 0)


def test_after_the_announcement_standard_output_is_at_its_end():
    script = "from aiompi_launcher.listen import announce; announce('h:1'); input(); print('unheard', flush=True)"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], env=environ, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "h:1\n"  # returns although the process goes on
        process.communicate("\n")
    assert process.returncode == 0
