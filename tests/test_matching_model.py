"""The reference model accepts what MPI allows, and rejects everything else."""

from __future__ import annotations

import pytest

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.engine import Mode
from support.matching_model import Fate, Mailbox, Message, Probe, Receive

SENDERS = (0, 1)


def sent(mailbox: Mailbox, number: int, source: int = 0, tag: int = 0, mode: Mode = Mode.SYNCHRONOUS) -> Message:
    message = Message(number, source, tag, b"%d" % number, mode)
    mailbox.send(message)
    return message


def posted(mailbox: Mailbox, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Receive:
    receive = Receive(source, tag)
    mailbox.receive(receive)
    return receive


def see(mailbox: Mailbox, *got: tuple[Receive, Message], settled: bool = True) -> None:
    """Some receives have got messages, and all processes that must know of it do."""
    for receive, message in got:
        receive.found = frozenset([message])
        message.fate = Fate.SENT
    mailbox.advance(SENDERS, SENDERS if settled else (), settled)


def test_messages_of_one_sender_do_not_overtake() -> None:
    mailbox = Mailbox(ordered=False)
    messages = [sent(mailbox, 1), sent(mailbox, 2)]
    receives = [posted(mailbox), posted(mailbox)]
    with pytest.raises(AssertionError, match="not MPI"):
        see(mailbox, (receives[0], messages[1]), (receives[1], messages[0]))


def test_messages_with_other_tags_are_received_in_any_order() -> None:
    mailbox = Mailbox(ordered=True)
    first, second = sent(mailbox, 1, tag=1), sent(mailbox, 2, tag=2)
    see(mailbox, (posted(mailbox, tag=2), second), (posted(mailbox, tag=1), first))


@pytest.mark.parametrize("ordered", [False, True])
def test_order_between_senders_is_free_unless_it_is_known(ordered: bool) -> None:
    mailbox = Mailbox(ordered)
    first, second = sent(mailbox, 1, source=0), sent(mailbox, 2, source=1)
    mailbox.advance([0], [0], settled=True)
    mailbox.advance([1], [1], settled=True)
    receives = [posted(mailbox), posted(mailbox)]
    if ordered:
        with pytest.raises(AssertionError, match="not MPI"):
            see(mailbox, (receives[0], second), (receives[1], first))
    else:
        see(mailbox, (receives[0], second), (receives[1], first))


def test_a_message_is_received_once_and_never_lost() -> None:
    for count in (0, 2):
        mailbox = Mailbox(ordered=True)
        message = sent(mailbox, 1)
        receives = [posted(mailbox), posted(mailbox)]
        with pytest.raises(AssertionError, match="not MPI"):
            see(mailbox, *((receive, message) for receive in receives[:count]))


def test_a_synchronous_send_is_not_complete_without_its_receive() -> None:
    mailbox = Mailbox(ordered=True)
    sent(mailbox, 1).fate = Fate.SENT
    with pytest.raises(AssertionError, match="not MPI"):
        see(mailbox, settled=False)


def test_a_message_is_not_both_cancelled_and_received() -> None:
    mailbox = Mailbox(ordered=True)
    message = sent(mailbox, 1)
    mailbox.recall(message)
    receive = posted(mailbox)
    receive.found, message.fate = frozenset([message]), Fate.CANCELLED
    with pytest.raises(AssertionError, match="not MPI"):
        mailbox.advance(SENDERS, SENDERS, settled=True)


def test_a_cancelled_send_ends_in_any_case() -> None:
    mailbox = Mailbox(ordered=True)
    mailbox.recall(sent(mailbox, 1, mode=Mode.STANDARD))
    mailbox.advance([], [], settled=False)
    with pytest.raises(AssertionError, match="not MPI"):
        mailbox.advance(SENDERS, SENDERS, settled=True)


def test_a_matched_receive_is_not_cancelled() -> None:
    mailbox = Mailbox(ordered=True)
    message, receive = sent(mailbox, 1), posted(mailbox)
    see(mailbox, (receive, message))
    with pytest.raises(AssertionError, match="not MPI"):
        mailbox.withdraw(receive, cancelled=True)


@pytest.mark.parametrize("consumes", [False, True])
def test_a_probe_tells_what_a_receive_would_get(consumes: bool) -> None:
    mailbox = Mailbox(ordered=True)
    first, second = sent(mailbox, 1), sent(mailbox, 2)
    mailbox.advance(SENDERS, SENDERS, settled=True)
    mailbox.iprobe(Probe(0, 0, consumes), frozenset([first]))
    with pytest.raises(AssertionError, match="not MPI"):
        mailbox.iprobe(Probe(0, 0, consumes), frozenset([first if consumes else second]))
    with pytest.raises(AssertionError, match="not MPI"):
        mailbox.iprobe(Probe(0, 0, consumes), None)
