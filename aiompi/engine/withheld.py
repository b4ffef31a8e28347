"""Messages beyond the bound of announcements: the sender withholds them until the receiver asks for them.

A sender has at most MAX_ANNOUNCED unanswered announcements (see `peer`). It withholds all further messages, and says
so. From then on, a receive or a probe that matches no announced message asks for a withheld message: the first one with
the context and the tag of the receive or probe, where ANY_TAG stands for any tag. The sender answers at once, or when
it sends such a message. Only one question per context and tag is open at a time, so the receiver keeps no more messages
than it has asked for. Each answered announcement lets the sender announce the next withheld message unasked. So every
receive gets its message, however many other messages were sent before.

Order. A message is *early* if it is announced before another message of its context that was sent earlier. A receive
with its tag can match an early message, because all earlier messages with this tag have been announced. A receive with
ANY_TAG does not match an early message until its turn comes. The sender tells the receiver about the turn in two
cases: the sender would now announce the message unasked, or a receive with ANY_TAG asks and this message is the first
of its context.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, TypeAlias

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.core.awaits import warn_unraisable
from aiompi.engine.credit import CreditedEndpoint
from aiompi.engine.message import Message
from aiompi.engine.send import Mode
from aiompi.errors import RemoteProtocolError
from aiompi.wire import frame

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.matching import Matcher
    from aiompi.engine.send import Send

#: most open questions of a peer; a rank that waits for messages of more tags asks no further questions
MAX_QUESTIONS = 2**20
#: taken from the credit while messages are withheld, so that none is sent eagerly
_NO_CREDIT: Final = 2**61
#: most stale ids in the queues, beyond the ids of messages that are still withheld
_SPARE: Final = 1024

#: states of a withheld message: not announced; announced early; announced, and in turn
_SILENT, _EARLY, _IN_TURN = range(3)

#: a message: context, source, tag, mode and note
Envelope: TypeAlias = "tuple[int, int, int, Mode, int]"
#: a question: a context, and a tag or ANY_TAG
Question: TypeAlias = tuple[int, int]


class _Held:
    __slots__ = ("envelope", "request", "state")

    def __init__(self, request: Send, envelope: Envelope) -> None:
        self.request = request
        self.envelope = envelope
        self.state = _SILENT


class Withheld:
    """The messages that this rank withholds from a peer, in their order.

    Args:
        number: counts the periods of withholding, so that late questions of an earlier period are recognised.
    """

    __slots__ = ("_held", "_peer", "_queued", "_queues", "_questions", "number")

    def __init__(self, peer: WithholdingEndpoint, number: int) -> None:
        self._peer = peer
        self.number = number
        self._held: OrderedDict[int, _Held] = OrderedDict()
        # Ids of messages in their order, by context and tag, and by context and ANY_TAG; made at the first question.
        # Ids of messages that are no longer withheld are skipped.
        self._queues: dict[Question, deque[int]] = {}
        self._queued = -1
        self._questions: set[Question] = set()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, request: Send, envelope: Envelope) -> None:
        """Withhold a message, or announce it if it has been asked for already."""
        held = self._held[request.srqid] = _Held(request, envelope)
        if self._queued >= 0:
            self._enqueue(held)
            for tag in (envelope[2], ANY_TAG):
                if held.state == _SILENT and (envelope[0], tag) in self._questions:
                    self._answer((envelope[0], tag))

    def ask(self, question: Question) -> None:
        """Answer a question now, or as soon as a matching message is sent."""
        if len(self._questions) >= MAX_QUESTIONS:
            raise RemoteProtocolError(f"rank {self._peer.rank} asks for messages of more than {MAX_QUESTIONS} tags")
        self._questions.add(question)
        if self._queued < 0 or self._queued > 4 * len(self._held) + _SPARE:
            self._queues.clear()
            self._queued = 0
            for held in self._held.values():
                self._enqueue(held)
        self._answer(question)

    def release(self) -> None:
        """Announce the first withheld message; if it was announced early, tell the receiver that its turn has come."""
        srqid, held = self._held.popitem(last=False)
        if held.state == _SILENT:
            self._peer.announce(held.request, *held.envelope)
        elif held.state == _EARLY:
            self._peer.emit(frame.TURN, srqid=srqid)

    def take(self, srqid: int) -> bool:
        """Remove a message that will not be sent; return False if the message has already been announced."""
        held = self._held.get(srqid)
        if held is None or held.state != _SILENT:
            return False
        del self._held[srqid]
        return True

    def answered(self, srqid: int) -> None:
        """Forget a message that the peer has answered."""
        self._held.pop(srqid, None)

    def _enqueue(self, held: _Held) -> None:
        context, _, tag, _, _ = held.envelope
        for key in ((context, tag), (context, ANY_TAG)):
            self._queues.setdefault(key, deque()).append(held.request.srqid)
            self._queued += 1

    def _first(self, question: Question) -> _Held | None:
        """Return the message that answers a question."""
        queue = self._queues.get(question)
        passed = _IN_TURN if question[1] == ANY_TAG else _EARLY  # a message in this or a later state is no answer
        while queue:
            held = self._held.get(queue[0])
            if held is not None and held.state < passed:
                return held
            queue.popleft()
            self._queued -= 1
        return None

    def _answer(self, question: Question) -> None:
        context, wanted = question
        held = self._first(question)
        if held is None:
            return
        self._questions.discard(question)
        of_any_tag, in_turn = wanted == ANY_TAG, held is self._first((context, ANY_TAG))
        request, early = held.request, held.state == _EARLY
        held.state = _IN_TURN if in_turn else _EARLY
        if early:
            self._peer.emit(frame.TURN, context=context, length=1, srqid=request.srqid)
            return
        kind = frame.RTS_ANY if of_any_tag else frame.RTS_ASKED if in_turn else frame.RTS_EARLY
        _, source, tag, mode, note = held.envelope
        if mode is Mode.READY:
            kind |= frame.READY
        self._peer.emit(kind, tag, source, context, request.nbytes, request.srqid, note)


class Questions:
    """The open questions of this rank to a withholding peer, and the early messages that have come.

    Args:
        number: number of the period of withholding; see `Withheld`.
    """

    __slots__ = ("_number", "_open", "_peer", "early")

    def __init__(self, peer: WithholdingEndpoint, number: int) -> None:
        self._peer = peer
        self._number = number
        self._open: set[Question] = set()
        self.early: dict[int, Message] = {}

    def ask(self, context: int, tag: int) -> None:
        """Ask for a message, unless this question is already open."""
        question = (context, tag)
        if question not in self._open and len(self._open) < MAX_QUESTIONS:
            self._open.add(question)
            self._peer.emit(frame.ASK, tag, context=context, length=self._number)

    def close(self, context: int, tag: int) -> None:
        """Record that a question is answered."""
        try:
            self._open.remove((context, tag))
        except KeyError:
            raise RemoteProtocolError(
                f"rank {self._peer.rank} answers to a question for a message that was not put to it"
            ) from None

    def in_turn(self, srqid: int) -> None:
        """Record that the turn of an early message has come, if it is still queued: any receive matches it now."""
        message = self.early.pop(srqid, None)
        if message is None:
            return
        matcher = message.matcher
        if not matcher.holds_early(message):
            message.early = False
            return  # a matched probe has taken the message
        matcher.remove(message)
        message.early = False
        receive = matcher.take_posted(message.source, message.tag)
        if receive is None:
            matcher.add_unexpected(message)
        else:
            message.peer.forbid_recall(message)
            message.peer.deliver(message, receive)


class WithholdingEndpoint(CreditedEndpoint):
    """A peer from which this rank withholds messages beyond the bound of announcements, and vice versa.

    Attributes:
        questions: the open questions of this rank to the peer; None while the peer withholds no message.
    """

    __slots__ = ("_times", "questions")

    _withheld: Withheld | None

    def __init__(self, engine: Engine, rank: int, credit: int, most: int) -> None:
        super().__init__(engine, rank, credit)
        self._max_announced = most
        self._times = 0
        self.questions: Questions | None = None

    @abstractmethod
    def announce(self, request: Send, context: int, source: int, tag: int, mode: Mode, note: int) -> None:
        """Announce a message."""

    @abstractmethod
    def _matcher(self, context: int, source: int) -> Matcher:
        """Return the queues of the context of an arriving message, and check its source."""

    @abstractmethod
    def _keep(self, message: Message) -> None:
        """Keep a message for which no receive is posted."""

    # At the sender.

    def _withhold(self, request: Send, envelope: Envelope) -> None:
        """Withhold a message and all later messages, until the peer asks for them or answers announcements."""
        if self._withheld is None:
            self._times += 1
            self._withheld = Withheld(self, self._times)
            self.credit -= _NO_CREDIT
            self.emit(frame.WITHHELD, length=self._times)
            warn_unraisable(
                f"rank {self.engine.rank} has announced {self._max_announced} messages that rank {self.rank} has not "
                "begun to receive; those that follow are announced one by one, as they are asked for, which is slower"
            )
        self._withheld.add(request, envelope)

    def _release(self, srqid: int) -> None:
        """Announce withheld messages, because an announcement was answered."""
        withheld = self._withheld
        if withheld is None:
            return
        withheld.answered(srqid)
        while withheld and self._unanswered - len(withheld) < self._max_announced:
            withheld.release()
        if not withheld and self._withheld is withheld:
            self._withheld = None
            self.credit += _NO_CREDIT
            self.emit(frame.WITHHELD)

    def _asked_for(self, header: tuple[int, ...], payload: memoryview) -> None:
        tag, context, number = header[1], header[4], header[5]
        if self._withheld is not None and self._withheld.number == number:
            self._withheld.ask((context, tag))

    # At the receiver.

    def _withholds(self, header: tuple[int, ...], payload: memoryview) -> None:
        number, engine = header[5], self.engine
        if (self.questions is None) == (not number):
            raise RemoteProtocolError(f"rank {self.rank} begins or ceases twice to withhold messages")
        if number:
            self.questions = Questions(self, number)
            engine.withholding.add(self)
            for matcher in [*engine.contexts.values()]:
                for receive in matcher.posted():
                    engine.ask(matcher, receive.want_tag, receive.peer_rank)
                for probe in matcher.probes:
                    engine.ask(matcher, probe.want_tag, probe.peer_rank)
        else:
            self._end_questions()

    def _end_questions(self) -> None:
        questions, self.questions = self.questions, None
        self.engine.withholding.discard(self)
        if questions is not None:
            for srqid in [*questions.early]:
                questions.in_turn(srqid)

    def _take_asked(self, header: tuple[int, ...], payload: memoryview) -> None:
        """Match a message that this rank has asked for, or keep it."""
        kind, tag, source, _, context, length, srqid, note = header
        of_any_tag, early = kind & ~frame.READY == frame.RTS_ANY, kind & ~frame.READY == frame.RTS_EARLY
        wanted = ANY_TAG if of_any_tag else tag
        questions, matcher = self._answered_question(context, wanted), self._matcher(context, source)
        receive = matcher.take_tagged(source, tag) if early else matcher.take_posted(source, tag)
        if receive is not None:
            receive.note = note
            self.fetch(receive, source, tag, length, srqid, None)
        elif kind & frame.READY:
            self.emit(frame.NOTREADY, srqid=srqid)
        else:
            message = Message(self, matcher, source, tag, length, srqid, rts=True, sync=False)
            message.note, message.asked, message.early = note, True, early
            if early:
                questions.early[srqid] = message
            self._keep(message)
        self._ask_again(matcher, wanted)

    def _in_turn(self, header: tuple[int, ...], payload: memoryview) -> None:
        context, answers, srqid = header[4], header[5], header[6]
        questions = self.questions
        if answers:
            questions = self._answered_question(context, ANY_TAG)
        if questions is not None:
            questions.in_turn(srqid)
        if answers:
            self._ask_again(self.engine.matcher(context), ANY_TAG)

    def _answered_question(self, context: int, tag: int) -> Questions:
        questions = self.questions
        if questions is None:
            raise RemoteProtocolError(f"rank {self.rank} answers to a question although it withholds nothing")
        questions.close(context, tag)
        return questions

    def _ask_again(self, matcher: Matcher, tag: int) -> None:
        if self.questions is not None and matcher.waits_for(self.rank, tag):
            self.questions.ask(matcher.context, tag)


def asks(matcher: Matcher, peer: WithholdingEndpoint, peer_rank: int) -> bool:
    """Return True if a receive from this rank of the world, or from any source, may match messages of a peer."""
    return peer_rank == peer.rank or (peer_rank == ANY_SOURCE and matcher.knows(peer.rank))
