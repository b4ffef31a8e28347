"""Spans of OpenTelemetry for the messages between the members of a world or team.

    AiompiInstrumentor().instrument()

Calls and publications carry the context of their span, in the form of the configured propagators: W3C Trace Context and
Baggage unless OTEL_PROPAGATORS says otherwise. So all spans of a request are in one trace, even if they begin at
several members. Names and attributes follow the semantic conventions for RPC, messaging and databases.

A context from a peer may be hostile. If the context is too long or malformed, it is ignored, and a new trace begins.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgpack
from opentelemetry import propagate, trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import SpanKind, TracerProvider

import aiompi
from aiompi.talk import spans

#: most bytes of a context that is sent or read: W3C allows 8192 of baggage and 512 of state
_LONGEST: Final = 16_384
#: method of a handler that does not exist, after the semantic conventions
_OTHER: Final = "_OTHER"
#: name of this system in the attributes of spans
_SYSTEM: Final = "aiompi"

_log: Final = logging.getLogger("aiompi.opentelemetry")


class AiompiInstrumentor:
    """Switches the spans of this process on and off, as the instrumentors of other packages do.

    The command `opentelemetry-instrument` finds it by itself.

    Example:
        AiompiInstrumentor().instrument()
    """

    def instrument(self, *, tracer_provider: TracerProvider | None = None, **_options: object) -> None:
        """Make spans from now on.

        Args:
            tracer_provider: makes the spans; None for the global provider, which may be set later.
        """
        spans.active = _Spans(trace.get_tracer(_SYSTEM, aiompi.__version__, tracer_provider))

    def uninstrument(self, **_options: object) -> None:
        """Make no more spans."""
        spans.active = spans.Spans()


class _Spans(spans.Spans):
    """Makes spans.

    Args:
        tracer: of the package.
    """

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    @contextlib.contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: dict[str, Any]) -> Iterator[None]:
        with self._tracer.start_as_current_span(name, kind=kind, attributes=attributes) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    @contextlib.contextmanager
    def of_call(self, rank: int, peer: int, name: str) -> Iterator[bytes]:
        attributes = {"rpc.system.name": _SYSTEM, "rpc.method": name, "aiompi.rank": rank, "aiompi.peer.rank": peer}
        with self._span(name, SpanKind.CLIENT, attributes):
            yield _injected()

    @contextlib.contextmanager
    def of_handler(self, rank: int, name: str | None, context: bytes) -> Iterator[None]:
        method = name or _OTHER
        attributes = {"rpc.system.name": _SYSTEM, "rpc.method": method, "aiompi.rank": rank}
        token = attach(_extracted(context, Context()))  # not on top of this task's context, which is unrelated
        try:
            with self._span(method, SpanKind.SERVER, attributes):
                yield
        finally:
            detach(token)

    @contextlib.contextmanager
    def of_publication(self, rank: int, topic: str) -> Iterator[bytes]:
        with self._span(f"publish {topic}", SpanKind.PRODUCER, _messaging(rank, "publish", "send", topic)):
            yield _injected()

    def of_object(self, rank: int, topic: str, context: bytes) -> Callable[[], None]:
        before = get_current()
        parent = _extracted(context, before)
        attributes = _messaging(rank, "process", "process", topic)
        span = self._tracer.start_span(f"process {topic}", parent, SpanKind.CONSUMER, attributes)
        within = trace.set_span_in_context(span, parent)
        attach(within)

        def end() -> None:
            if get_current() is within:  # not if the iterator was handed to another task
                attach(before)
            span.end()

        return end

    @contextlib.contextmanager
    def of_write(self, rank: int, operation: str, name: str) -> Iterator[None]:
        operation = operation.replace(" ", "_")
        attributes = {
            "db.system.name": _SYSTEM,
            "db.operation.name": operation,
            "db.collection.name": name,
            "aiompi.rank": rank,
        }
        with self._span(f"{operation} {name}", SpanKind.CLIENT, attributes):
            yield


def _messaging(rank: int, operation: str, kind: str, topic: str) -> dict[str, Any]:
    return {
        "messaging.system": _SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
        "aiompi.rank": rank,
    }


def _injected() -> bytes:
    """Return the current context for a message: the fields of the propagators, packed; empty if there are none."""
    fields: dict[str, str] = {}
    propagate.inject(fields)
    context: bytes = msgpack.packb(fields) if fields else b""
    if len(context) > _LONGEST:
        _log.warning("a context of %d bytes is not sent: at most %d are", len(context), _LONGEST)
        return b""
    return context


def _extracted(context: bytes, base: Context) -> Context:
    """Return `base` extended by the context that a peer has sent; `base` itself if that context is malformed."""
    if not context:
        return base
    try:
        if len(context) > _LONGEST:
            raise ValueError(f"{len(context)} bytes")
        fields = msgpack.unpackb(context)
        if type(fields) is not dict or not all(type(text) is str for pair in fields.items() for text in pair):
            raise TypeError("no dict of texts")
        return propagate.extract(fields, base)
    except Exception as error:  # of any class, because the program chooses the propagators
        _log.debug("the context of a peer is ignored: %r", error)
        return base
