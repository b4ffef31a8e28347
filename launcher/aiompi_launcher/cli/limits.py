"""The launcher's requirements of its environment."""

from __future__ import annotations

import resource
import socket
from typing import Final

_MIN_DESCRIPTORS: Final = 32


def check_limits() -> None:
    """Check that the launcher itself can work in this environment.

    Raises:
        OSError: it cannot.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= limit < _MIN_DESCRIPTORS:
        cause = f"only {limit} files may be open, and the launcher needs at least {_MIN_DESCRIPTORS}"
        raise OSError(f"{cause}: raise this limit (ulimit -n)")
    try:
        for end in socket.socketpair():
            end.close()
    except OSError as error:
        raise OSError(
            f"pairs of sockets cannot be made, as a sandbox has to allow (socketpair): {error.strerror}"
        ) from None
