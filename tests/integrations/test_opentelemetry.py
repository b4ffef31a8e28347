"""Spans of OpenTelemetry: one trace across ranks, whatever peers send as its context."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import msgpack
import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import aiompi
from aiompi.integrations import opentelemetry
from aiompi.integrations.opentelemetry import AiompiInstrumentor
from support.limits import LIMIT


class Traces:
    """The spans of this process."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.span = self.provider.get_tracer("program").start_as_current_span

    @property
    def ended(self) -> list[ReadableSpan]:
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        """Return the only span whose kind and name are given."""
        (found,) = [span for span in self.ended if f"{span.kind.name} {span.name}" == name]
        return found

    @property
    def trees(self) -> list[Any]:
        """The traces: each span is its kind and name, before the list of its children if it has any."""
        return self._children(None)

    def _children(self, parent: int | None) -> list[Any]:
        found: list[Any] = []
        for span in self.ended:
            if (span.parent and span.parent.span_id) == parent:
                found.append(f"{span.kind.name} {span.name}")
                found += [children] if (children := self._children(span.get_span_context().span_id)) else []
        return found


@pytest.fixture
def traces() -> Iterator[Traces]:
    found = Traces()
    AiompiInstrumentor().instrument(tracer_provider=found.provider)
    yield found
    AiompiInstrumentor().uninstrument()


def current() -> Any:
    """Return the name of the span of the program, None if there is none."""
    return getattr(trace.get_current_span(), "name", None)


@pytest.mark.asyncio
async def test_a_call_is_one_trace_at_both_ranks(traces: Traces) -> None:
    caller, callee = aiompi.local_world(2)
    users: list[object] = []

    @callee.handler
    async def add(a: int, b: int) -> int:
        users.append(baggage.get_baggage("user"))
        with traces.span("query"):
            await asyncio.sleep(0)
            return a + b

    with traces.span("GET /"):
        token = context.attach(baggage.set_baggage("user", "ann"))
        assert await caller.call(1, "add", 20, 22, timeout=LIMIT) == 42
        context.detach(token)
        assert current() == "GET /"
    with traces.span("GET /both"):
        await asyncio.gather(caller.call(1, "add", 1, 2), caller.call(1, "add", 3, 4))
    assert users == ["ann", None, None]
    call = "CLIENT add", ["SERVER add", ["INTERNAL query"]]
    assert traces.trees == ["INTERNAL GET /", [*call], "INTERNAL GET /both", [*call, *call]]
    assert len({span.get_span_context().trace_id for span in traces.ended}) == 2
    client, server = traces.ended[1:3]
    method = {"rpc.system.name": "aiompi", "rpc.method": "add"}
    assert client.attributes == method | {"aiompi.rank": 0, "aiompi.peer.rank": 1}
    assert server.attributes == method | {"aiompi.rank": 1}
    assert server.parent is not None
    assert server.parent.is_remote
    assert client.instrumentation_scope is not None
    assert (client.instrumentation_scope.name, client.instrumentation_scope.version) == ("aiompi", aiompi.__version__)


@pytest.mark.asyncio
async def test_errors_of_calls_are_those_of_their_spans(traces: Traces) -> None:
    caller, callee = aiompi.local_world(2)
    cancelled = asyncio.Event()

    @callee.handler
    def divide(a: int, b: int) -> float:
        return a / b

    @callee.handler
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(ZeroDivisionError):
        await caller.call(1, "divide", 1, 0)
    with pytest.raises(LookupError):
        await caller.call(1, "whatever a peer likes")
    with pytest.raises(TimeoutError):
        await caller.call(1, "endless", timeout=0.5)
    await cancelled.wait()
    await asyncio.sleep(0)

    def errors(name: str) -> tuple[Any, StatusCode]:
        span = traces.named(name)
        assert span.attributes is not None
        return span.attributes.get("error.type"), span.status.status_code

    assert errors("CLIENT divide") == errors("SERVER divide") == ("ZeroDivisionError", StatusCode.ERROR)
    assert errors("SERVER _OTHER") == ("LookupError", StatusCode.ERROR)
    assert errors("CLIENT endless") == ("TimeoutError", StatusCode.ERROR)
    assert errors("SERVER endless") == ("CancelledError", StatusCode.UNSET)


@pytest.mark.asyncio
async def test_the_body_of_a_loop_over_a_subscription_is_part_of_the_trace_of_the_publisher(traces: Traces) -> None:
    publisher, reader = aiompi.local_world(2)
    news = reader.subscribe("news")
    with traces.span("POST /a"):
        await publisher.publish("news", "a", confirm=True)
    await publisher.publish("news", "b", confirm=True)
    async for text in news:
        assert current() == "process news"
        with traces.span(f"store {text}"):
            await asyncio.sleep(0)
        if text == "b":
            break
    assert len(traces.trees) == 3, "the last object is still in process"
    news.close()
    assert current() is None
    news.close()
    processed = ["CONSUMER process news", ["INTERNAL store a"]], ["CONSUMER process news", ["INTERNAL store b"]]
    assert traces.trees == [
        "INTERNAL POST /a",
        ["PRODUCER publish news", processed[0]],
        "PRODUCER publish news",
        processed[1],
    ]
    message = {"messaging.system": "aiompi", "messaging.destination.name": "news"}
    _, producer, _, consumer = traces.ended[:4]
    operation, kind = "messaging.operation.name", "messaging.operation.type"
    assert producer.attributes == message | {operation: "publish", kind: "send", "aiompi.rank": 0}
    assert consumer.attributes == message | {operation: "process", kind: "process", "aiompi.rank": 1}


@pytest.mark.asyncio
async def test_each_of_the_waiting_objects_has_its_own_context(traces: Traces) -> None:
    (world,) = aiompi.local_world(1)
    news = world.subscribe("news", bound=1)
    for name in "abc":
        with traces.span(name):
            await world.publish("news", name)
    for name in "abc":
        assert await asyncio.create_task(anext(news)) == name  # in a task of its own, which has the span alone
        assert current() is None
    del news
    publication = "PRODUCER publish news", ["CONSUMER process news"]
    assert traces.trees == ["INTERNAL a", [*publication], "INTERNAL b", [*publication], "INTERNAL c", [*publication]]


@pytest.mark.asyncio
async def test_tasks_that_share_a_subscription_have_their_own_spans(traces: Traces) -> None:
    (world,) = aiompi.local_world(1)
    work = world.subscribe("work")
    done = asyncio.Event()

    async def serve() -> None:
        async for job in work:
            if job == "long":
                await done.wait()
            with traces.span(job):
                assert trace.get_current_span().parent.is_remote is False  # type: ignore[attr-defined]
            assert current() == "process work"

    servers = [asyncio.create_task(serve()) for _ in range(2)]
    for job in ("long", "a", "b"):
        await world.publish("work", job, confirm=True)
    async with asyncio.timeout(LIMIT):
        while len(traces.ended) < 7:  # publications, and two jobs
            await asyncio.sleep(0)
        done.set()
        work.close()
        await asyncio.gather(*servers)
    jobs = [["CONSUMER process work", [f"INTERNAL {job}"]] for job in ("long", "a", "b")]
    assert traces.trees == [part for job in jobs for part in ("PRODUCER publish work", job)]


@pytest.mark.asyncio
async def test_writes_of_shared_dicts_have_spans(traces: Traces) -> None:
    worlds = aiompi.local_world(2)
    visits, _ = [world.shared_dict("visits") for world in worlds]
    with traces.span("GET /"):
        await visits.set("text", "a")
        await visits.compare_and_set("text", "a", "b")
        with pytest.raises(aiompi.InvalidArgumentError):
            await visits.add("text")
    assert visits["text"] == "b"
    writes = ["CLIENT set visits", "CLIENT compare_and_set visits", "CLIENT add visits"]
    assert traces.trees == ["INTERNAL GET /", writes]
    write = {"db.system.name": "aiompi", "db.collection.name": "visits", "aiompi.rank": 0}
    assert traces.named(writes[1]).attributes == write | {"db.operation.name": "compare_and_set"}
    assert traces.named(writes[2]).status.status_code is StatusCode.ERROR


HEADER = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"


@pytest.mark.parametrize(
    "sent",
    [
        b"\xc1",
        b"\x91" * 5000,
        msgpack.packb([HEADER]),
        msgpack.packb({"traceparent": 7}),
        msgpack.packb({b"traceparent": HEADER}),
        msgpack.packb({"traceparent": HEADER[:-1]}),
        msgpack.packb({"traceparent": "00-" + "0" * 32 + HEADER[35:]}),
        msgpack.packb({"traceparent": HEADER, "baggage": "x" * 20_000}),
        msgpack.packb({"traceparent": "\ud800" + HEADER}, unicode_errors="surrogatepass"),
    ],
    ids=lambda sent: repr(sent[:30]),
)
@pytest.mark.asyncio
async def test_a_malformed_context_of_a_peer_is_ignored(
    traces: Traces, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    caller, callee = aiompi.local_world(2)
    callee.handler(abs)
    news = callee.subscribe("news")
    monkeypatch.setattr(opentelemetry, "_injected", lambda: sent)
    assert await caller.call(1, "abs", -1, timeout=LIMIT) == 1
    await caller.publish("news", 1)
    assert await anext(news) == 1
    news.close()
    assert traces.trees == ["CLIENT abs", "SERVER abs", "PRODUCER publish news", "CONSUMER process news"]


@pytest.mark.asyncio
async def test_a_propagator_that_fails_or_says_too_much_fails_no_call(
    traces: Traces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (world,) = aiompi.local_world(1)
    world.handler(abs)
    monkeypatch.setattr(propagate, "inject", lambda fields: fields.update(long="x" * 2**14))
    assert await world.call(0, "abs", -1) == 1
    assert "bytes is not sent: at most 16384 are" in caplog.text
    monkeypatch.undo()

    def extract(fields: object, base: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(propagate, "extract", extract)
    assert await world.call(0, "abs", -2) == 2
    assert traces.trees == ["CLIENT abs", "SERVER abs"] * 2


def test_opentelemetry_instrument_finds_the_instrumentor() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    (group,) = [name for name in project["entry-points"] if name == "opentelemetry_instrumentor"]
    ((name, value),) = project["entry-points"][group].items()
    instrumentor = EntryPoint(name, value, group).load()()
    instrumentor.instrument(skip_dep_check=True)
    instrumentor.uninstrument()


def test_nothing_is_imported_before_it_is_used() -> None:
    program = """
import asyncio, sys
import aiompi

async def main():
    (world,) = aiompi.local_world(1)
    world.handler(abs)
    assert await world.call(0, "abs", -1) == 1

if sys.argv[1] == "off":
    asyncio.run(main())
    assert "opentelemetry" not in sys.modules
else:
    from aiompi.integrations.opentelemetry import AiompiInstrumentor
    AiompiInstrumentor().instrument()
    assert not {"aiompi.engine", "aiompi.face", "cloudpickle"} & sys.modules.keys()
"""
    for state in ("off", "on"):
        subprocess.run([sys.executable, "-c", program, state], check=True, timeout=LIMIT)
