"""The core: the part of the message path that most calls take, in two implementations (forms) with the same interface.

The core serves calls with the arguments that most programs use, while the ring to the peer has room. For other calls,
and after errors, its methods return None or False, and the classes above it (`aiompi.engine`, `aiompi.coll`,
`aiompi.window`) serve the call: this is the general path.

The native form is Cython and C (`aiompi/core/native`), and is used if it could be built. The pure form is Python
(`aiompi/core/pure`), for machines where the native form cannot be built. AIOMPI_CORE=native or pure chooses one of
them.

Attributes:
    form: "native" or "pure": the form in use.
    why_pure: why the pure form is in use; empty for the native form.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

_PLACE: Final = os.path.dirname(__file__)


def _choose() -> tuple[str, str]:
    wanted = os.environ.get("AIOMPI_CORE", "")
    if wanted not in ("", "native", "pure"):
        raise ImportError(
            f"AIOMPI_CORE is {wanted!r}: it must be native or pure, or empty for the form that is there", name=__name__
        )
    if wanted == "pure":
        return "pure", "AIOMPI_CORE=pure asks for it"
    reason = _missing()
    if reason and wanted == "native":
        raise ImportError(f"AIOMPI_CORE=native asks for the native core, which is not there: {reason}", name=__name__)
    return ("pure", reason) if reason else ("native", "")


def _missing() -> str:
    """Return why there is no native core; empty if there is one."""
    try:
        import aiompi.core._native  # noqa: F401  # may be missing
    except ModuleNotFoundError:
        try:
            with open(os.path.join(_PLACE, "why_pure.txt"), encoding="utf8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return "it was not built when aiompi was installed"
    except ImportError as error:
        if error.name == __name__:  # built from other sources
            raise
        return str(error)  # built for another interpreter or machine
    return ""


form, why_pure = _choose()

if TYPE_CHECKING or form == "pure":
    from aiompi.core.pure.atomics import Atomics
    from aiompi.core.pure.awaitable import AwaitableCall
    from aiompi.core.pure.buffers import Exporter, Span, incoming, outgoing, overlap, plain_bytes
    from aiompi.core.pure.communicator import CommunicatorBase
    from aiompi.core.pure.contents import FOREIGN, MANY, OTHER, TUPLES, contents
    from aiompi.core.pure.driver import DriverBase
    from aiompi.core.pure.handle import RequestHandle, drop_done, pending_of, take_all
    from aiompi.core.pure.matching import MatchQueues, MessageBase
    from aiompi.core.pure.peer import PeerBase
    from aiompi.core.pure.plain import PlainCodec
    from aiompi.core.pure.polling import look
    from aiompi.core.pure.progress import ProgressBase
    from aiompi.core.pure.receive import PostedReceive
    from aiompi.core.pure.recorder import Recorder
    from aiompi.core.pure.request import Request
    from aiompi.core.pure.send import SendBase
    from aiompi.core.pure.window import WindowBase
else:
    from aiompi.core._native import (
        FOREIGN,
        MANY,
        OTHER,
        TUPLES,
        Atomics,
        AwaitableCall,
        CommunicatorBase,
        DriverBase,
        Exporter,
        MatchQueues,
        MessageBase,
        PeerBase,
        PlainCodec,
        PostedReceive,
        ProgressBase,
        Recorder,
        Request,
        RequestHandle,
        SendBase,
        Span,
        WindowBase,
        contents,
        drop_done,
        incoming,
        look,
        outgoing,
        overlap,
        pending_of,
        plain_bytes,
        take_all,
    )

__all__ = [
    "Atomics", "AwaitableCall", "CommunicatorBase", "DriverBase", "Exporter", "FOREIGN", "MANY", "MatchQueues",
    "MessageBase", "OTHER", "PeerBase", "PlainCodec", "PostedReceive", "ProgressBase", "Recorder", "Request",
    "RequestHandle", "SendBase", "Span", "TUPLES", "WindowBase", "contents", "drop_done", "form", "incoming", "look",
    "outgoing", "overlap", "pending_of", "plain_bytes", "take_all", "why_pure",
]  # fmt: skip
