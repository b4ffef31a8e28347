"""The hello: both ends of a connection prove the job's key, except on connections between IMPI clients.

`protection_of` alone decides how a connection is protected. The decision does not depend on addresses, because an
attacker between the ends can choose them. The proofs of the hello cover the decision of each end (`aiompi.wire.hello`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import TYPE_CHECKING, Final

from aiompi.errors import InvalidArgumentError, RemoteProtocolError
from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi.wire.hello import Acceptor, Handshake, Protection

if TYPE_CHECKING:
    from aiompi.net.tls import SecureSocket

_ROOT: Final = 0


def protection_of(sock: socket.socket, settings: Settings) -> Protection:
    """Return how this end of a connection is protected."""
    if sock.family == socket.AF_UNIX:
        return Protection.LOCAL
    return Protection.PLAIN if settings.tls == "off" else Protection.ENCRYPTED


class Greeter:
    """Says hello over a connected socket, and performs the TLS handshake in it if the channel is to be encrypted.

    Call `advance` at once, and again whenever the socket is readable, until it returns True. The socket may be
    non-blocking, or have a time limit.

    Args:
        sock: the connection; the caller closes `socket` at the end.
        handshake: of this end, with the channel that `protection_of` returns.
        settings: have the certificate.

    Attributes:
        socket: the connection; when it is encrypted, another object for the same descriptor.
        handshake: the argument.
        silent: True as long as the other end has sent no byte.
    """

    def __init__(self, sock: socket.socket, handshake: Handshake, settings: Settings) -> None:
        self.socket = sock
        self.handshake = handshake
        self.silent = True
        self._settings = settings
        self._begun = False
        self._secure: SecureSocket | None = None  # set when the TLS handshake begins
        self._bound = handshake.channel is not Protection.ENCRYPTED  # True once the hello is for this channel

    def advance(self) -> bool:
        """Go on without waiting; return True once both ends have proven the key for this channel.

        Raises:
            RemoteProtocolError: the other end has not proven the key, or TLS failed.
            OSError: the connection has failed.
        """
        try:
            if not self._begun:
                self._begun = True
                if self.handshake.channel is Protection.LOCAL:
                    self._check_user()
                else:  # otherwise a message could wait 40 ms for the acknowledgement of the previous one
                    self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._flush()
            while not (self.handshake.done and self._bound):
                if not (self._bind() if self.handshake.done else self._receive()):
                    return False
        except OSError as error:
            if self._secure is not None:
                from aiompi.net import tls  # imports ssl, which is slow; TLS is in use here

                raise RemoteProtocolError(tls.explain(error)) from None
            if isinstance(error, ConnectionError):
                raise RemoteProtocolError(self._ended(reset=True)) from None
            raise
        return True

    def _check_user(self) -> None:
        """Check that the other end of a Unix socket belongs to the user of this process, or to root."""
        _, user = interfaces.credentials(self.socket)
        if user not in (own := os.geteuid(), _ROOT):
            self.silent = False
            raise RemoteProtocolError(
                f"the other end of its Unix socket belongs to user {user}, and this process to user {own}: all "
                "processes of a job on one host have to be of one user"
            )

    def _receive(self) -> bool:
        try:
            data = self.socket.recv(self.handshake.needed)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            raise RemoteProtocolError(self._ended(reset=False))
        self.silent = False
        try:
            self.handshake.receive_data(data)
        except RemoteProtocolError:
            with contextlib.suppress(OSError):
                self._flush()  # the other end learns from this why the connection ends
            raise
        self._flush()
        return True

    def _flush(self) -> None:
        data = self.handshake.data_to_send()
        # A hello is far smaller than the buffer of a new connection, so a partial write means an error.
        if data and self.socket.send(data) < len(data):
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))

    def _bind(self) -> bool:
        """Go on with the TLS handshake. The peer has proven the key before."""
        from aiompi.net import tls  # needed where TCP is used only

        try:
            if self._secure is None:
                server = isinstance(self.handshake, Acceptor)
                self.socket = self._secure = tls.secure(self.socket, server, self._settings)
            self._secure.do_handshake()
            self.handshake.bind(tls.binding(self._secure))
        except BlockingIOError:
            return False
        except InvalidArgumentError as error:
            raise RemoteProtocolError(str(error)) from None
        self._bound = True
        self._flush()
        return True

    def _ended(self, *, reset: bool) -> str:
        """Return a description of the end of the connection.

        Args:
            reset: True if the connection was reset: the other end has not read all data, for example because it was
                killed.
        """
        if not isinstance(self.handshake, Acceptor):
            return "it closed the connection during the hello: is the key of the job the right one?"
        if self._secure is not None:
            return "it ended before its connection was encrypted"
        if self.handshake.answered and not reset:  # so the other end has noticed first that the keys differ
            return "it ended at the proof of the key of the job: is its key the right one?"
        return "it ended before it had proven the key of the job"
