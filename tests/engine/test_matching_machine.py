"""Random programs of sends, receives, probes and cancels, on all ranks at once, against a model of what MPI allows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.engine import Mode
from support.matching_model import Fate, Mailbox, Message, Probe, Receive
from support.matching_operations import Buffer, Gaps, Objects, Probing, Receiving, Sending, Target, message_of
from support.matching_stages import STAGES, Path, Stage
from support.worlds import LIMIT

ATTACHED: Final = 2**20  # bytes for buffered sends, more than a program can fill
MANY: Final = 50  # with more states than this, let everything arrive

# Few different envelopes, and most traffic between the first ranks, so that operations meet.
RANKS = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 4])
SOURCES = st.one_of(st.just(ANY_SOURCE), RANKS)
TAGS = st.sampled_from([0, 0, 0, 1])
WANTED_TAGS = st.one_of(st.just(ANY_TAG), TAGS)
COMMS = st.sampled_from([0, 0, 0, 0, 1])
SIZES = st.sampled_from([0, 1, 40, LIMIT - 2, LIMIT - 1, 600, 6_000, 20_000])
WINDOWS = st.sampled_from([8192, 700, 0])
CAPACITIES = st.sampled_from([30_000, 30_000, 250, 20])
KINDS: Final[list[Any]] = [Objects, Buffer, Gaps]
TARGETS = st.builds(functools.partial, st.sampled_from(KINDS), CAPACITIES)
PICKS = st.integers(0, 99)
MOVES = st.lists(st.integers(0, 999), max_size=3)

End: TypeAlias = tuple[Mode, Fate | None]
#: the ends of sends that a run must reach to be worth its time
ENDS: Final[set[End]] = {
    (Mode.STANDARD, Fate.SENT),
    (Mode.STANDARD, Fate.CANCELLED),
    (Mode.BUFFERED, Fate.CANCELLED),
    (Mode.SYNCHRONOUS, Fate.SENT),
    (Mode.SYNCHRONOUS, Fate.CANCELLED),
    (Mode.READY, Fate.SENT),
    (Mode.READY, Fate.REFUSED),
}


def call(**arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a rule: a rank makes a call, the changes are compared with the model, and then some things arrive."""

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def run(self: MatchingMachine, moves: list[int], **arguments: Any) -> Any:
            self.sound = False
            result = function(self, **arguments)
            self.observe()
            for number in moves[: self.pace]:
                self.move(number)
            self.sound = True
            return result

        new_rule: Any = rule(moves=MOVES, **arguments)
        return new_rule(run)

    return decorate


SENDS: Final[Bundle[Sending]] = Bundle("sends")
RECEIVES: Final[Bundle[Receiving]] = Bundle("receives")


def send_rule(mode: Mode) -> Any:
    """Make a rule for each mode, so that some programs do without a mode."""

    def send(self: MatchingMachine, sizes: list[int], **arguments: Any) -> Any:
        return multiple(*[self.start_send(mode, size, **arguments) for size in sizes])

    send.__name__ = f"send_{mode.value}"
    sizes, cuts = st.lists(SIZES, min_size=1, max_size=3), st.sampled_from([0, 1, 100])
    return call(target=SENDS, source=RANKS, dest=RANKS, comm=COMMS, tag=TAGS, sizes=sizes, cut=cuts)(send)


def receive_rule(kind: Callable[[int], Target]) -> Any:
    """Make a rule for each kind of memory."""

    def receive(self: MatchingMachine, rank: int, source: int, comm: int, tag: int, capacity: int) -> Receiving:
        return self.start_receive(self.box(comm, rank), Receive(self.wanted(source), tag), kind(capacity))

    receive.__name__ = f"receive_{kind.__name__.lower()}"
    return call(target=RECEIVES, rank=RANKS, source=SOURCES, comm=COMMS, tag=WANTED_TAGS, capacity=CAPACITIES)(receive)


class MatchingMachine(RuleBasedStateMachine):
    """A program of all ranks, call by call.

    Args:
        new_stage: makes the ranks.
        ends: gets how sends have ended.
        withheld: True if messages may be withheld.
    """

    def __init__(self, new_stage: Callable[..., Stage], ends: set[End], withheld: bool = False) -> None:
        super().__init__()
        self.withheld = withheld
        self.new_stage = new_stage
        self.ends = ends
        self.stage: Stage
        self.sound = False
        self.count = 0
        self.pending: list[Sending | Receiving | Probing] = []
        self.unclaimed: list[Sending] = []
        self.found: list[Probing] = []
        self.targets: list[Target] = []
        self.mailboxes: dict[tuple[int, int], Mailbox] = {}

    @initialize(
        size=st.integers(2, 5),
        window=WINDOWS,
        pace=st.integers(0, 3),
        narrow=st.booleans(),
        connected=st.booleans(),
    )
    def begin(self, size: int, window: int, pace: int, narrow: bool, connected: bool) -> None:
        self.stage = self.new_stage(size, narrow, eager_limit=LIMIT, eager_window=window)
        self.pace = 0 if self.stage.at_once else pace
        self.buffers = [bytearray(ATTACHED) for _ in range(size)]
        for engine, buffer in zip(self.stage.engines, self.buffers, strict=True):
            engine.attachment.attach(buffer, memoryview(buffer))
        ordered = self.stage.ordered and not self.withheld
        self.mailboxes = {(comm, rank): Mailbox(ordered) for comm in range(2) for rank in range(size)}
        if connected:
            self.settle_with(0)
        self.sound = True

    # Names: boxes are (communicator, rank in it).

    def box(self, comm: int, rank: int) -> tuple[int, int]:
        return comm, rank % self.stage.size

    def world_rank(self, comm: int, rank: int) -> int:
        return self.stage.size - 1 - rank if comm else rank

    def comm(self, box: tuple[int, int]) -> Any:
        """Return the communicator as the receiver sees it."""
        return self.stage.comms[self.world_rank(*box)][box[0]]

    def wanted(self, source: int) -> int:
        return source if source == ANY_SOURCE else source % self.stage.size

    # Observations.

    def observe(self, paths: list[Path] | None = None, settled: bool = False) -> None:
        """Compare all that can be observed with the model; something may have arrived on some paths."""
        settled = settled or self.stage.at_once
        for operation in [operation for operation in self.pending if operation.request.done()]:
            self.pending.remove(operation)
            operation.observe()
            if isinstance(operation, Probing) and operation.want.consumes:
                self.found.append(operation)
        for (comm, rank), mailbox in self.mailboxes.items():
            if not mailbox.messages:
                continue
            receiver = self.world_rank(comm, rank)
            ways = {source: (self.world_rank(comm, source), receiver) for source in range(self.stage.size)}
            possible = {source for source, way in ways.items() if settled or way in (paths or ())}
            certain = {
                source
                for source, way in ways.items()
                if (settled or self.stage.idle(way)) and not self.stage.withholds(*way)
            }
            mailbox.advance(certain | possible, certain, settled)

    def move(self, number: int) -> None:
        """Let something arrive somewhere."""
        self.observe(self.stage.move(number))
        if max(len(mailbox.states) for mailbox in self.mailboxes.values()) > MANY:
            self.settle_with(number)

    def settle_with(self, pick: int) -> None:
        for paths in self.stage.settle(pick):
            self.observe(paths)
        self.observe(settled=True)

    # Rules.

    send_standard = send_rule(Mode.STANDARD)
    send_buffered = send_rule(Mode.BUFFERED)
    send_synchronous = send_rule(Mode.SYNCHRONOUS)
    send_ready = send_rule(Mode.READY)

    def start_send(self, mode: Mode, size: int, source: int, dest: int, comm: int, tag: int, cut: int) -> Sending:
        box, (_, source) = self.box(comm, dest), self.box(comm, source)
        if mode is Mode.READY and self.withheld:
            mode = Mode.STANDARD  # without a receive it is not refused before its turn
        self.count += 1
        message = Message(self.count, source, tag, message_of(size, self.count), mode)
        sending = Sending(message, self.mailboxes[box], cut)
        sending.mailbox.send(message)
        own = self.comm((comm, source))
        sending.request = own.isend(sending.payload, len(message.content), box[1], tag, mode)
        if message.promise.local:
            assert sending.request.done()
            sending.give_back()
            self.unclaimed.append(sending)
        else:
            self.pending.append(sending)
        self.observe()
        return sending

    @precondition(lambda self: self.unclaimed)
    @call(pick=PICKS)
    def claim(self, pick: int) -> None:
        """Wait for a buffered send. It can then not be cancelled any more."""
        request = self.unclaimed.pop(pick % len(self.unclaimed)).request
        request.result()
        assert not request.cancel()

    receive_object = receive_rule(Objects)
    receive_buffer = receive_rule(Buffer)
    receive_gaps = receive_rule(Gaps)

    def start_receive(
        self, box: tuple[int, int], receive: Receive, target: Target, among: frozenset[Message] | None = None
    ) -> Receiving:
        receiving = self.new_receiving(box, receive, target)
        receiving.request = self.comm(box).irecv(
            target.memory, receive.source, receive.tag, target.decode, receiving.status
        )
        self.mailboxes[box].receive(receive, among)
        return receiving

    def new_receiving(self, box: tuple[int, int], receive: Receive, target: Target) -> Receiving:
        receiving = Receiving(receive, self.mailboxes[box], target)
        self.pending.append(receiving)
        self.targets.append(target)
        return receiving

    @call(rank=RANKS, source=SOURCES, comm=COMMS, tag=WANTED_TAGS)
    def probe(self, rank: int, source: int, comm: int, tag: int) -> None:
        """Start waiting for a message."""
        box, probe = self.box(comm, rank), Probe(self.wanted(source), tag, consumes=False)
        self.wait_for(box, probe, self.comm(box).probe(probe.source, tag))

    @call(rank=RANKS, source=SOURCES, comm=COMMS, tag=WANTED_TAGS)
    def mprobe(self, rank: int, source: int, comm: int, tag: int) -> None:
        """Start waiting for a message, to take it."""
        box, probe = self.box(comm, rank), Probe(self.wanted(source), tag)
        self.wait_for(box, probe, self.comm(box).mprobe(probe.source, tag, lambda message: message))

    def wait_for(self, box: tuple[int, int], probe: Probe, request: Any) -> None:
        probing = Probing(probe, self.mailboxes[box], box)
        probing.request = request
        self.pending.append(probing)
        probing.mailbox.probe(probe)

    @call(rank=RANKS, source=SOURCES, comm=COMMS, tag=WANTED_TAGS, into=st.none() | TARGETS)
    def iprobe(self, rank: int, source: int, comm: int, tag: int, into: Callable[[], Target] | None) -> None:
        """Probe for a message. A receive with the same arguments gets the same message."""
        box, source = self.box(comm, rank), self.wanted(source)
        comm = self.comm(box)
        found = self.look(box, Probe(source, tag, consumes=False), self.seen(lambda: comm.iprobe(source, tag)))
        if found and into is not None:
            self.start_receive(box, Receive(source, tag), into(), found.want.found)

    @call(rank=RANKS, source=SOURCES, comm=COMMS, tag=WANTED_TAGS)
    def improbe(self, rank: int, source: int, comm: int, tag: int) -> None:
        """Take a message that is there, to receive it later."""
        box, source = self.box(comm, rank), self.wanted(source)
        if found := self.take(box, source, tag):
            self.found.append(found)

    def take(self, box: tuple[int, int], source: int, tag: int) -> Probing | None:
        comm = self.comm(box)
        return self.look(box, Probe(source, tag), self.seen(lambda: comm.improbe(source, tag)[1]))

    def seen(self, look: Callable[[], Any]) -> Any:
        """Return what a probe finds that does not wait. Where messages are withheld, the first one only asks for it."""
        result = look()
        if result is None and self.withheld:
            self.settle_with(0)
            result = look()
        return result

    def look(self, box: tuple[int, int], probe: Probe, result: Any) -> Probing | None:
        """Note what a probe that does not wait has found."""
        probing = Probing(probe, self.mailboxes[box], box)
        if result is not None:
            probing.settle_for(result)
        probing.mailbox.iprobe(probe, probe.found)
        return None if result is None else probing

    @precondition(lambda self: self.found)
    @call(target=RECEIVES, pick=PICKS, into=TARGETS)
    def receive_matched(self, pick: int, into: Callable[[], Target]) -> Receiving:
        """Start the receive of a message that a matched probe has taken."""
        return self.start_matched(self.found.pop(pick % len(self.found)), into())

    def start_matched(self, probing: Probing, target: Target) -> Receiving:
        receive = Receive(probing.want.source, probing.want.tag)
        receiving = self.new_receiving(probing.box, receive, target)
        receiving.request = self.comm(probing.box).imrecv(
            probing.message, target.memory, target.decode, receiving.status
        )
        probing.mailbox.receive_matched(receive, probing.want)
        return receiving

    @precondition(lambda self: self.pending or self.unclaimed)
    @call(pick=PICKS)
    def cancel_pending(self, pick: int) -> None:
        """Cancel something that may not have ended."""
        operations = [*self.pending, *self.unclaimed]
        operation = operations[pick % len(operations)]
        if isinstance(operation, Sending):
            self.recall(operation)
        else:
            self.withdraw(operation)

    @call(receiving=RECEIVES)
    def cancel_receive(self, receiving: Receiving) -> None:
        """Cancel a receive in any state."""
        self.withdraw(receiving)

    def withdraw(self, receiving: Receiving | Probing) -> bool:
        """Cancel a receive or a probe. It is known at once whether that has succeeded."""
        request, ended = receiving.request, receiving not in self.pending
        cancelled: bool = request.cancel()
        if ended:
            assert not cancelled
            return False
        assert request.cancelled() == cancelled
        assert request.done() or not cancelled
        receiving.mailbox.withdraw(receiving.want, cancelled)
        if cancelled:
            self.pending.remove(receiving)
            assert request.result() is None or request.result().Is_cancelled()
        return cancelled

    @call(sending=SENDS)
    def cancel_send(self, sending: Sending) -> None:
        """Cancel a send in any state."""
        self.recall(sending)

    def recall(self, sending: Sending) -> None:
        """Cancel a send. It then completes, whether the message was recalled or not."""
        message, request = sending.message, sending.request
        if self.withheld and not self.stage.at_once:
            return  # what is withheld is cancelled before earlier messages have arrived, which the model does not know
        ended = message.fate is not None or (message.promise.local and sending not in [*self.unclaimed, *self.pending])
        again = message.recall
        accepted = request.cancel()
        assert not (ended and accepted)
        assert accepted or again or request.done()
        if accepted and not again:
            sending.mailbox.recall(message)
            if sending in self.unclaimed:
                self.unclaimed.remove(sending)
                self.pending.append(sending)

    @precondition(lambda self: not self.stage.at_once)
    @call(pick=PICKS)
    def settle(self, pick: int) -> None:
        """Let everything arrive."""
        self.settle_with(pick)

    # The end.

    def teardown(self) -> None:
        try:
            if self.sound:
                self.drain()
        finally:
            if hasattr(self, "stage"):
                self.stage.close()

    def drain(self) -> None:
        """Receive all remaining messages. Then every message has exactly one end, and nothing is left of it."""
        self.settle_with(0)
        for operation in list(self.pending):
            if isinstance(operation, (Receiving, Probing)):
                assert self.withdraw(operation), "it had a message, and was not complete"
        for probing in self.found:
            self.start_matched(probing, Objects(0))
        for box in self.mailboxes:
            while found := self.take(box, ANY_SOURCE, ANY_TAG):
                self.start_matched(found, Objects(0))
        self.settle_with(0)
        assert not self.pending
        for state in (state for mailbox in self.mailboxes.values() for state in mailbox.states):
            left = [*state.coming, *state.unexpected, *state.posted, *state.waiting]
            assert not left, state
        for target in self.targets:
            target.check()
        self.check_nothing_left()
        self.ends.update((message.mode, message.fate) for box in self.mailboxes.values() for message in box.messages)

    def check_nothing_left(self) -> None:
        for engine, buffer in zip(self.stage.engines, self.buffers, strict=True):
            assert not engine.sends
            assert not engine.arriving
            assert not engine.unawaited
            assert engine.attachment.detach().result() is buffer
        assert self.stage.balanced()


SETTINGS: Final = settings(
    max_examples=25,
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.spec("S3.4-1", "S3.4-2", "S3.4-4", "S3.4-6", "S3.5-1", "S3.5-2", "S3.5-3", "S3.5-4", "S3.5-5", "S3.5-8")
@pytest.mark.spec(
    "S3.5-11", "S3.6-11", "S3.7.3-3", "S3.7.3-11", "S3.7.4-1", "S3.8-1", "S3.8-3", "S3.8-4", "S3.8-5", "S3.8-6"
)
@pytest.mark.spec("S3.8-7", "S3.8-8", "S3.8-9", "S3.8-11", "S3.8-13", "S3.8-14", "S3.8-15", "S3.8-16", "S3.8-17")
@pytest.mark.parametrize("stage", STAGES)
def test_what_happens_is_what_mpi_allows(stage: str) -> None:
    run_programs(stage, [*STAGES].index(stage), ENDS)


@pytest.mark.filterwarnings("ignore:rank . has announced")
@pytest.mark.parametrize(("stage", "most"), [("loopback", 3), ("loopback-delayed", 1)])
def test_withheld_messages_change_nothing_of_that(stage: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiompi.engine.peer.MAX_ANNOUNCED", most)
    run_programs(stage, 5 + most, {(Mode.STANDARD, Fate.SENT), (Mode.SYNCHRONOUS, Fate.SENT)}, withheld=True)


def run_programs(stage: str, first: int, due: set[End], withheld: bool = False) -> None:
    """Each stage has programs of its own, from the seed `first` on: most faults are of the code that all share."""
    ends: set[End] = set()
    machine: Any = functools.partial(MatchingMachine, STAGES[stage], ends, withheld)
    for number in range(first, 80, 10):  # the programs of a seed depend on the modules that are loaded
        run_state_machine_as_test(seed(number)(machine), settings=SETTINGS)
        if ends >= due:
            break
    assert ends >= due, "some ends of a send are not reached any more: the programs have become too simple"
