"""Something in between two ends of a TLS connection, with certificates of the site and without the key."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiompi.net import tls
from aiompi.settings import Settings
from aiompi.wire import hello

from .limits import LIMIT

#: messages of the hello, of which the second one comes from the acceptor
HELLO = (hello._HELLO.size, -hello._REPLY.size, hello.PROOF_BYTES)


def certificates(directory: Path) -> dict[str, str]:
    """Make a certificate of an authority, as a site has them; return the settings that name it."""

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    run("req", "-newkey", "ed25519", "-nodes", "-subj", "/CN=host", "-keyout", "host.key", "-out", "host.csr")
    run("x509", "-req", "-in", "host.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "host.pem")
    names = {"tls_cert": "host.pem", "tls_key": "host.key", "tls_ca": "ca.pem"}
    return {setting: str(directory / name) for setting, name in names.items()}


def as_environ(settings: dict[str, str]) -> dict[str, str]:
    """Return the environment variables of settings."""
    return {f"AIOMPI_{name.upper()}": value for name, value in settings.items()}


class Middle:
    """Passes on what one connection says in clear, is the other end of TLS for both sides, and reads everything.

    Args:
        target: address of the acceptor.
        clear: length of each message in clear, negative for those of the acceptor.
        settings: name the certificate.

    Attributes:
        address: to connect to.
        secured: set when both sides have ended their TLS handshakes.
        over: set when the connection has ended.
        seen: what both sides have said, decrypted.
    """

    def __init__(self, target: Sequence[Any], clear: Sequence[int], settings: dict[str, str]) -> None:
        self._target: tuple[str, int] = (target[0], target[-1])
        self._clear, self._settings = clear, Settings(**settings)  # type: ignore[arg-type]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.secured, self.over = threading.Event(), threading.Event()
        self.seen = bytearray()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Middle:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(LIMIT)

    def _run(self) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            connector = stack.enter_context(stack.enter_context(self._listener).accept()[0])
            acceptor = stack.enter_context(socket.create_connection(self._target))
            for nbytes in self._clear:
                source, dest = (connector, acceptor) if nbytes > 0 else (acceptor, connector)
                dest.sendall(source.recv(abs(nbytes), socket.MSG_WAITALL))
            ends = (
                stack.enter_context(tls.context(self._settings, server=True).wrap_socket(connector, server_side=True)),
                stack.enter_context(tls.context(self._settings, server=False).wrap_socket(acceptor)),
            )
            self.secured.set()
            back = threading.Thread(target=self._pass_on, args=ends[::-1], daemon=True)
            back.start()
            self._pass_on(*ends)
            back.join()
        self.over.set()

    def _pass_on(self, source: socket.socket, dest: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.seen += data
                dest.sendall(data)
        for sock in (source, dest):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


#: Passes on the hello of one connection, ends the connector, and speaks to the acceptor in clear in its place. It
#: prints its port, and in the end what the acceptor has said to it, in hexadecimal. It needs no package.
RELAY = """
import socket, sys
own, target, port, lengths, said = sys.argv[1:]
listener = socket.create_server((own, 0))
print(listener.getsockname()[1], flush=True)
connector, got = listener.accept()[0], b""
with socket.create_connection((target, int(port))) as acceptor:
    with connector:
        for nbytes in map(int, lengths.split(",")):
            source, dest = (connector, acceptor) if nbytes > 0 else (acceptor, connector)
            dest.sendall(source.recv(abs(nbytes), socket.MSG_WAITALL))
    try:
        acceptor.sendall(bytes.fromhex(said))
        while data := acceptor.recv(65536):
            got += data
    except ConnectionError:
        pass
print(got.hex())
"""
#: type of a TLS record that says why a connection ends, and tells nothing else
ALERT = 0x15


def relay_words(target: Sequence[Any], said: bytes, own: str = "127.0.0.1") -> list[str]:
    """Return the arguments of a RELAY.

    Args:
        target: address of the acceptor.
        said: what it says to the acceptor once that believes it.
        own: address that it listens on.
    """
    return ["-c", RELAY, own, str(target[0]), str(target[-1]), ",".join(map(str, HELLO)), said.hex()]


def is_told_nothing(got: str) -> bool:
    """Return True if what a RELAY has got of the acceptor, as it has printed it, is nothing of the job."""
    data = bytes.fromhex(got.strip())
    return not data or data[0] == ALERT
