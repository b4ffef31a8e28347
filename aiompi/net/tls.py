"""TLS 1.3 between hosts.

`secure` wraps a socket, and `binding` identifies its channel. The TLS handshake alone proves nothing: the accepting end
presents a self-signed certificate, and the other end accepts any. Both ends then prove over the channel that they know
their common key, with a MAC over the `binding` (see `aiompi.wire.hello` and `aiompi.impi.auth`). An attacker between
them has two channels with different bindings. With `tls_cert`, each end must also have a certificate that the authority
of `tls_ca` has signed.

OpenSSL does the cryptography, except for the public key and the self-signature of the certificate (RFC 8032), because
the `ssl` module cannot make these. OpenSSL refuses a public key that does not match the private key.
"""

from __future__ import annotations

import base64
import errno
import functools
import hashlib
import os
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aiompi.errors import InvalidArgumentError
from aiompi.settings import Settings

#: most bytes of a TLS record
RECORD: Final = 2**14


def secure(sock: socket.socket, server: bool, settings: Settings) -> SecureSocket:
    """Return a TLS socket for a connected socket. The TLS handshake has not begun.

    Args:
        server: True for the end that has accepted the connection.
        settings: may name the files of another certificate.

    Raises:
        InvalidArgumentError: a file of a certificate cannot be used.
    """
    secured = context(settings, server=server).wrap_socket(sock, server_side=server, do_handshake_on_connect=False)
    assert isinstance(secured, SecureSocket)
    return secured


def context(settings: Settings, *, server: bool) -> ssl.SSLContext:
    """Return the context of `secure`, with the same errors."""
    return _context(server, settings.tls_cert, settings.tls_key, settings.tls_ca)


def binding(channel: ssl.SSLSocket | ssl.SSLObject) -> bytes:
    """Return bytes that both ends of a TLS channel know after the handshake, and that no other channel has.

    These bytes are the Finished message of the client: a MAC over the whole handshake, with a key derived from its key
    exchange (RFC 8446, section 4.4.4). Sessions are never resumed, so each channel has its own key exchange.
    """
    finished = channel.get_channel_binding("tls-unique")
    if not finished:
        raise OSError(errno.EPROTO, "the ssl module gives its TLS channels no binding")
    return finished


def check(settings: Settings) -> None:
    """Read the files of the certificate.

    Raises:
        InvalidArgumentError: a file cannot be used.
    """
    context(settings, server=True)


def explain(error: OSError) -> str:
    """Return why a TLS handshake failed, and what to do."""
    cause = getattr(error, "verify_message", "") or getattr(error, "reason", "") or error.strerror or str(error)
    if isinstance(error, (ConnectionError, ssl.SSLEOFError)):
        return (
            f"it closed the connection during the TLS handshake ({cause or 'end of the connection'}): it has ended, or "
            "AIOMPI_TLS and its certificates do not suit each other on all hosts"
        )
    return f"TLS with it failed ({cause}): AIOMPI_TLS and its certificates must suit each other on all hosts"


class SecureSocket(ssl.SSLSocket):
    """A TLS connection with the calls of a non-blocking socket, which raise BlockingIOError instead of waiting.

    After a call that has not sent all bytes, the next call must begin with the unsent bytes, at least to the end of the
    record. A queue of bytes does this.
    """

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except ssl.SSLWantReadError:  # its data is far smaller than the send buffer of a new connection
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None

    def send(self, data: Any, flags: int = 0) -> int:
        return self.sendmsg((data,))

    def sendmsg(self, buffers: Iterable[Any], *_: Any) -> int:  # type: ignore[override]
        sent = 0
        for record in _records(buffers):
            try:
                nbytes = self.write(record)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                if sent:
                    break
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
            except ssl.SSLEOFError:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
            sent += nbytes
            if nbytes < len(record):
                break
        return sent

    def recv(self, nbytes: int = 1024, flags: int = 0) -> bytes:
        if flags & socket.MSG_PEEK:  # only shows whether a byte has arrived
            return socket.socket.recv(self, nbytes, flags)
        try:
            return self.read(nbytes)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """Read as many arrived records as fit into the buffer."""
        view, got = memoryview(buffer), 0
        while got < len(view):
            try:
                read: Any = self.read(len(view) - got, view[got:])
            except OSError as error:
                if got:  # the next call meets the error again, if it is one
                    break
                if isinstance(error, ssl.SSLWantWriteError | ssl.SSLWantReadError):
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
                raise
            if not read:
                break
            got += read
        return got

    def recvmsg_into(self, buffers: Iterable[Any], *_: Any) -> tuple[int, list[Any], int, Any]:  # type: ignore[override]
        got = 0
        for buffer in buffers:
            try:
                nbytes = self.recv_into(buffer)
            except BlockingIOError:
                if got:
                    break
                raise
            got += nbytes
            if nbytes < len(buffer):
                break
        return got, [], 0, None

    def shutdown(self, how: int) -> None:
        """Shut down the connection, but go on decrypting the data that the other end still sends."""
        socket.socket.shutdown(self, how)


def _records(buffers: Iterable[Any]) -> Iterator[bytearray | memoryview]:
    """Yield the bytes of all buffers in pieces of RECORD bytes and a shorter rest, without copies of long buffers."""
    joined = bytearray()
    for buffer in buffers:
        view = memoryview(buffer)
        if joined:
            room = RECORD - len(joined)
            joined += view[:room]
            view = view[room:]
            if len(joined) < RECORD:
                continue
            yield joined
            joined = bytearray()
        while len(view) >= RECORD:
            yield view[:RECORD]
            view = view[RECORD:]
        joined += view
    if joined:
        yield joined


@functools.lru_cache(maxsize=4)
def _context(server: bool, cert: str, private: str, authority: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # addresses are numeric; only the certificate counts
    context.verify_mode = ssl.CERT_REQUIRED if cert else ssl.CERT_NONE
    context.sslsocket_class = SecureSocket
    if server:
        context.num_tickets = 0  # no connection is resumed
    try:
        if cert:
            context.load_cert_chain(cert, private or None, _no_passphrase)
            context.load_verify_locations(cafile=authority or cert)
        elif server:
            seed = os.urandom(32)
            _load(context, _pem("CERTIFICATE", certificate(seed)) + _pem("PRIVATE KEY", _PKCS8 + seed))
    except OSError as error:
        files = ", ".join(filter(None, (cert, private, authority))) or "made by this process"
        raise InvalidArgumentError(f"the certificate for TLS ({files}) cannot be used: {error}") from None
    return context


def _no_passphrase() -> str:
    raise OSError(errno.EACCES, "its private key needs a passphrase, which no process of a job can be asked for")


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    descriptor = os.memfd_create("aiompi-tls", os.MFD_CLOEXEC)  # the ssl module reads only files
    try:
        os.write(descriptor, pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _pem(kind: str, der: bytes) -> bytes:
    return f"-----BEGIN {kind}-----\n{base64.encodebytes(der).decode()}-----END {kind}-----\n".encode()


# The certificate, in DER (X.690): of version 1, for ever, from CN=aiompi to itself.

_PKCS8: Final = bytes.fromhex("302e020100300506032b657004220420")
_ED25519: Final = bytes.fromhex("300506032b6570")
_NAME: Final = bytes.fromhex("3011310f300d06035504030c06") + b"aiompi"
_VALIDITY: Final = bytes.fromhex("3020170d") + b"000101000000Z" + bytes.fromhex("180f") + b"99991231235959Z"


def certificate(seed: bytes) -> bytes:
    """Return the self-signed certificate of an Ed25519 private key of 32 bytes, in DER."""
    public = _encode(_times(_scalar(seed)[0], _BASE))
    content = _sequence(
        b"\x02\x01\x01", _ED25519, _NAME, _VALIDITY, _NAME, _sequence(_ED25519, b"\x03\x21\x00" + public)
    )
    return _sequence(content, _ED25519, b"\x03\x41\x00" + _sign(seed, public, content))


def _sequence(*parts: bytes) -> bytes:
    content = b"".join(parts)
    length = bytes([len(content)]) if len(content) < 128 else b"\x82" + len(content).to_bytes(2, "big")
    return b"\x30" + length + content


# Ed25519 (RFC 8032, section 5.1). Points are (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z.

_P: Final = 2**255 - 19
_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_X: Final = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_Y: Final = 4 * pow(5, -1, _P) % _P
_BASE: Final = (_X, _Y, 1, _X * _Y % _P)
_Point = tuple[int, int, int, int]


def _add(p: _Point, q: _Point) -> _Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % _P, (p[1] + p[0]) * (q[1] + q[0]) % _P
    c, d = 2 * p[3] * q[3] * _D % _P, 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: _Point) -> _Point:
    total: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point = _add(point, point)
        scalar >>= 1
    return total


def _encode(point: _Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _scalar(seed: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    low = int.from_bytes(digest[:32], "little")
    return low & (2**254 - 8) | 2**254, digest[32:]


def _sign(seed: bytes, public: bytes, message: bytes) -> bytes:
    scalar, prefix = _scalar(seed)
    nonce = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % _ORDER
    commitment = _encode(_times(nonce, _BASE))
    challenge = int.from_bytes(hashlib.sha512(commitment + public + message).digest(), "little")
    return commitment + ((nonce + challenge * scalar) % _ORDER).to_bytes(32, "little")
