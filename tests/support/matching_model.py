"""What MPI allows to happen: a reference model of matching (sections 3.4, 3.5, 3.7.4 and 3.8), too simple to be wrong.

Between two observations it is unknown which messages have arrived, and in which order those of different senders have.
Therefore the model of a mailbox is a set of possible states. A call changes each of them, arrivals add more, and an
observation removes those that do not explain it. If none is left, MPI does not allow what was observed. The model
accepts every legal outcome and nothing else.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.engine import Mode


@dataclasses.dataclass(frozen=True)
class Promise:
    """The promises of a mode of sending (section 3.4).

    Attributes:
        local: the send is complete when it has been started.
        matched: a send that has succeeded has met its receive.
        refused: a message that does not find its receive posted is dropped, and its send fails.
    """

    local: bool = False
    matched: bool = False
    refused: bool = False


PROMISES: Final = {
    Mode.STANDARD: Promise(),
    Mode.BUFFERED: Promise(local=True),
    Mode.SYNCHRONOUS: Promise(matched=True),
    Mode.READY: Promise(matched=True, refused=True),
}


class Fate(enum.Enum):
    """The end of a send."""

    SENT = enum.auto()
    CANCELLED = enum.auto()
    REFUSED = enum.auto()


@dataclasses.dataclass(eq=False)
class Message:
    """A message, and the state of its send.

    Attributes:
        number: its position among all messages in the order of sending.
        source, tag, content: the envelope and the bytes that the receiver gets.
        mode: the mode of its send.
        recall: True if its sender has tried to cancel it.
        fate: the end of its send, None while it is pending.
    """

    number: int
    source: int
    tag: int
    content: bytes
    mode: Mode
    recall: bool = False
    fate: Fate | None = None

    @property
    def promise(self) -> Promise:
        return PROMISES[self.mode]

    def __repr__(self) -> str:
        return (
            f"<message {self.number}: {self.mode.value} from {self.source}, tag {self.tag}, {len(self.content)} bytes>"
        )


@dataclasses.dataclass(eq=False)
class Want:
    """An operation that waits for a message: a receive or a probe.

    Attributes:
        source, tag: wanted envelope; may be wildcards.
        consumes: True if no other operation gets the message.
        found: once complete, the messages that look like the one it has got; one of them is it.
    """

    source: int
    tag: int
    consumes: bool = True
    found: frozenset[Message] | None = None

    def takes(self, message: Message) -> bool:
        return self.source in (ANY_SOURCE, message.source) and self.tag in (ANY_TAG, message.tag)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} from {self.source}, tag {self.tag}>".lower()


class Receive(Want):
    """A receive."""


class Probe(Want):
    """A probe; a matched probe consumes the message."""


class Recall(NamedTuple):
    """A request to give a message back; it arrives behind the message."""

    message: Message

    @property
    def source(self) -> int:
        return self.message.source


Item: TypeAlias = Message | Recall


class State(NamedTuple):
    """One possible state of a mailbox.

    Attributes:
        coming: what has been sent and has not arrived. What one sender has sent arrives in order.
        unexpected: messages that have arrived without a receive, in order of arrival.
        posted: receives without a message, in the order in which they were started.
        waiting: probes without a message.
        met: the message that each operation has got.
        gone: messages that no receive will get, and why.
    """

    coming: tuple[Item, ...] = ()
    unexpected: tuple[Message, ...] = ()
    posted: tuple[Want, ...] = ()
    waiting: tuple[Want, ...] = ()
    met: frozenset[tuple[Want, Message]] = frozenset()
    gone: frozenset[tuple[Message, Fate]] = frozenset()

    def received(self) -> set[Message]:
        """Return the messages that are matched with a receive."""
        return {message for want, message in self.met if isinstance(want, Receive)}


class Mailbox:
    """All possible states of one receiver in one communicator.

    Args:
        ordered: True if a wildcard gets the message that arrived first; otherwise it gets one of any sender, in order.
    """

    def __init__(self, ordered: bool) -> None:
        self.states = {State()}
        self.messages: list[Message] = []
        self._wants: list[Want] = []
        self._ordered = ordered

    # Calls.

    def send(self, message: Message) -> None:
        """Note that a send has been started."""
        self.messages.append(message)
        self._change("send", lambda state: [state._replace(coming=(*state.coming, message))])

    def recall(self, message: Message) -> None:
        """Note that a pending send has been cancelled; one without an acknowledgement need not be recallable."""
        message.recall = True

        def change(state: State) -> Iterator[State]:
            yield state._replace(coming=(*state.coming, Recall(message)))
            if not message.promise.matched:
                yield state

        self._change("cancel a send", change)

    def receive(self, receive: Receive, among: Collection[Message] | None = None) -> None:
        """Note that a receive has been started; if messages are there, it gets one of `among`."""
        self._wants.append(receive)
        self._change("receive", lambda state: self._start(state, receive, among))

    def receive_matched(self, receive: Receive, probe: Probe) -> None:
        """Note that the receive of a message of a matched probe has been started."""
        self._wants.append(receive)

        def change(state: State) -> list[State]:
            return [_meet(state, receive, message) for want, message in state.met if want is probe]

        self._change("receive a matched message", change)

    def probe(self, probe: Probe) -> None:
        """Note that a probe has been started that waits for a message."""
        self._wants.append(probe)
        self._change("probe", lambda state: self._start(state, probe, None))

    def iprobe(self, probe: Probe, found: frozenset[Message] | None) -> None:
        """Note that a probe that does not wait has found one of some messages, or nothing."""
        if found is not None:
            probe.found = found
            self._wants.append(probe)

        def change(state: State) -> Iterable[State]:
            if found is not None:
                return (_meet(state, probe, message) for message in self._available(state, probe) if message in found)
            return () if self._available(state, probe) else (state,)

        self._change(f"iprobe that finds {found}", change)

    def withdraw(self, want: Want, cancelled: bool) -> None:
        """Note that a receive or a probe has been cancelled, or that it was too late for that."""

        def change(state: State) -> list[State]:
            pending = want in state.posted or want in state.waiting
            if pending is not cancelled:
                return []
            return [state._replace(posted=_without(state.posted, want), waiting=_without(state.waiting, want))]

        self._change(f"cancel a receive ({cancelled=})", change)

    def advance(self, senders: Collection[int], certain: Collection[int], settled: bool) -> None:
        """Note that messages may have arrived.

        Args:
            senders: senders of which any number of messages may have arrived.
            certain: those of them of which everything has arrived.
            settled: True if everything that follows from the arrivals has happened.
        """
        reached: set[State] = set()
        todo = [state for state in self.states if _possible(state, settled)]
        while todo:
            state = todo.pop()
            if state not in reached:
                reached.add(state)
                following = (self._arrive(state, item) for item in _heads(state, senders))
                todo.extend(new for new in following if _possible(new, settled))
        arrived = {state for state in reached if not _heads(state, certain)}
        self._keep(f"observe ({settled=})", {state for state in arrived if self._explained(state, settled)})

    # Knowledge of the model.

    def lookalikes(self, source: int, tag: int, nbytes: int, begin: bytes = b"") -> frozenset[Message]:
        """Return the messages with an envelope whose content begins so."""
        found = frozenset(
            m
            for m in self.messages
            if (m.source, m.tag, len(m.content)) == (source, tag, nbytes) and m.content.startswith(begin)
        )
        assert found, f"no rank has sent a message of {nbytes} bytes from {source} with tag {tag} and this content"
        return found

    # Transitions.

    def _start(self, state: State, want: Want, among: Collection[Message] | None) -> Iterator[State]:
        available = self._available(state, want)
        for message in available:
            if among is None or message in among:
                yield _meet(state, want, message)
        if available:
            return
        if isinstance(want, Receive):
            yield state._replace(posted=(*state.posted, want))
        else:
            yield state._replace(waiting=(*state.waiting, want))

    def _available(self, state: State, want: Want) -> list[Message]:
        """Return the unexpected messages of which a receive would get one: the earliest, if need be of each sender."""
        matching = [message for message in state.unexpected if want.takes(message)]
        if self._ordered:
            return matching[:1]
        return list({message.source: message for message in reversed(matching)}.values())

    def _arrive(self, state: State, item: Item) -> State:
        state = state._replace(coming=_without(state.coming, item))
        if isinstance(item, Recall):
            if item.message not in state.unexpected:
                return state
            left = _without(state.unexpected, item.message)
            return state._replace(unexpected=left, gone=state.gone | {(item.message, Fate.CANCELLED)})
        for receive in state.posted:
            if receive.takes(item):
                return _meet(state._replace(posted=_without(state.posted, receive)), receive, item)
        if item.promise.refused:
            return state._replace(gone=state.gone | {(item, Fate.REFUSED)})
        return self._tell_probes(self._keep_unexpected(state, item), item)

    def _keep_unexpected(self, state: State, message: Message) -> State:
        unexpected = (*state.unexpected, message)
        if not self._ordered:  # so that states differ only where it matters
            unexpected = tuple(sorted(unexpected, key=lambda m: m.number))
        return state._replace(unexpected=unexpected)

    def _tell_probes(self, state: State, message: Message) -> State:
        for probe in state.waiting:
            if probe.takes(message):
                state = _meet(state._replace(waiting=_without(state.waiting, probe)), probe, message)
                if probe.consumes:
                    break
        return state

    # Observations.

    def _explained(self, state: State, settled: bool) -> bool:
        """Return True if all complete operations are so in this state and, if all is settled, no others are."""
        satisfied = {want for want, _ in state.met}
        if not all(want in satisfied for want in self._wants if want.found is not None):
            return False
        received, gone = state.received(), dict(state.gone)
        taken = {message for want, message in state.met if want.consumes}
        for message in self.messages:
            if message.fate is Fate.SENT and (message in gone or (message.promise.matched and message not in received)):
                return False
            if message.fate in (Fate.CANCELLED, Fate.REFUSED) and gone.get(message) is not message.fate:
                return False
            if settled and message.fate is None and _due(message, received, taken):
                return False
        return True

    def _change(self, event: str, change: Callable[[State], Iterable[State]]) -> None:
        self._keep(event, {new for state in self.states for new in change(state)})

    def _keep(self, event: str, states: set[State]) -> None:
        if not states:
            before = "\n  ".join(map(str, self.states))
            ends = [(message, message.fate) for message in self.messages]
            found = [(want, want.found) for want in self._wants]
            raise AssertionError(f"{event}: not MPI; sends {ends}, wants {found}; it could be\n  {before}")
        self.states = states


def _due(message: Message, received: set[Message], taken: set[Message]) -> bool:
    """Return True if the end of the send must be known; that of a buffered one only if it was recalled."""
    if message in received:
        return message.recall or not message.promise.local
    return message.recall and message not in taken


def _heads(state: State, senders: Collection[int]) -> list[Item]:
    """Return what can arrive next of each sender."""
    return list({item.source: item for item in reversed(state.coming) if item.source in senders}.values())


def _possible(state: State, settled: bool) -> bool:
    """Return True if nothing differs from what was observed and, if `settled`, nothing is still to be observed."""
    for want, message in state.met:
        if want.found is None:
            if settled:
                return False
        elif message not in want.found:
            return False
    return all(message.fate is fate or (message.fate is None and not settled) for message, fate in state.gone)


def _meet(state: State, want: Want, message: Message) -> State:
    unexpected = _without(state.unexpected, message) if want.consumes else state.unexpected
    return state._replace(unexpected=unexpected, met=state.met | {(want, message)})


def _without(items: tuple[Any, ...], item: Any) -> tuple[Any, ...]:
    return tuple(other for other in items if other is not item)
