from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.errors import RemoteProtocolError
from aiompi.impi.channel import Phase
from aiompi.impi.packet import Packet, PacketType
from support.cases import cases
from support.pairs import PROCS, Joined, Received, Side
from support.worlds import pattern

LIMITS = [(1, 1), (1, 2), (3, 3), (3, 4), (10, 20)]  # ackmark, hiwater
COUNTED = {"DATA", "DATASYNC", "SYNCACK", "CANCEL", "CANCELYES", "CANCELNO"}


def packet(kind: PacketType, srqid: int = 0, drqid: int = 0, length: int = 0, msglen: int | None = None) -> Packet:
    return Packet(kind, length, pk_srqid=srqid, pk_drqid=drqid, pk_msglen=length if msglen is None else msglen)


# Short messages (section 3.7.1).


@pytest.mark.spec("I3.5-9", "I3.5-10", "I3.5-11", "I3.5-12", "I3.5-13", "I3.7.1-1", "I3.7.1-7")
@cases("nbytes", [0, 1, 99, 100])
def test_a_short_message_is_one_packet_that_leaves_at_once(nbytes: int) -> None:
    world = Joined()
    message = world.left.send(pattern(nbytes), tag=5, cid=2**64 - 17)
    assert world.left.packets == [
        (
            Packet(
                PacketType.DATA, nbytes, PROCS[0], PROCS[1], 1, 0, nbytes,
                pk_lsrank=3, pk_tag=5, pk_cid=2**64 - 17, pk_seqnum=1,
            ),
            pattern(nbytes),
        )
    ]  # fmt: skip
    assert world.left.free == [message]
    world.run()
    assert world.right.received == [pattern(nbytes)]
    assert world.right.packets == []
    incoming = world.right.messages[0].incoming
    assert (incoming.lsrank, incoming.tag, incoming.cid, incoming.length) == (3, 5, 2**64 - 17, nbytes)


@pytest.mark.spec("I3.7.1-2", "I3.7.1-3", "I3.7.1-4", "I3.7.1-7")
@pytest.mark.parametrize("nbytes", [0, 100])
def test_a_synchronous_message_is_answered_once_it_is_matched(nbytes: int) -> None:
    world = Joined(accepting=False)
    message = world.left.send(pattern(nbytes), sync=True)
    plain = world.left.send(b"plain")
    world.run()
    assert world.left.kinds == ["DATASYNC", "DATA"]
    assert world.right.packets == []
    assert world.left.told == []
    world.right.match(1)
    assert world.right.packets == []
    world.right.match(0)
    assert world.right.packets == [(Packet(PacketType.SYNCACK, 0, PROCS[1], PROCS[0], message.srqid), b"")]
    world.run()
    assert world.left.told == [message]
    assert message.phase is Phase.ENDED
    assert plain.phase is Phase.SENT


@pytest.mark.spec("I3.5-1", "I3.7.1-5")
@cases("srqid", [0, 1, 2**63, 2**64 - 1])
def test_any_request_id_comes_back(srqid: int) -> None:
    world = Joined()
    world.right.get(packet(PacketType.DATASYNC, srqid=srqid))
    assert world.right.packets[-1][0].pk_srqid == srqid


def test_the_receivers_id_of_a_short_message_does_not_matter() -> None:
    world = Joined()
    message = world.left.send(b"", sync=True)
    world.left.get(packet(PacketType.SYNCACK, srqid=message.srqid, drqid=2**64 - 1))
    assert world.left.told == [message]
    assert world.left.kinds == ["DATASYNC"]


# Long messages (section 3.7.2).


@pytest.mark.spec(
    "I3.5-3", "I3.5-12", "I3.7.1-8", "I3.7.2-1", "I3.7.2-2", "I3.7.2-3", "I3.7.2-4", "I3.7.2-6", "I3.7.2-7", "I3.7.2-8",
    "I3.7.2-10",
)  # fmt: skip
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("nbytes", [101, 200, 201, 1000])
def test_a_long_message_waits_for_its_receiver_after_its_first_packet(nbytes: int, sync: bool) -> None:
    world = Joined(accepting=False)
    data = pattern(nbytes)
    message = world.left.send(data, tag=9, cid=4, sync=sync)
    world.run()
    assert [(p.pk_type, body) for p, body in world.left.packets] == [(PacketType.DATASYNC, data[:100])]
    assert world.right.messages[0].incoming.length == nbytes
    assert (world.left.free, world.right.packets) == ([], [])
    world.right.match()
    ((ack, _),) = world.right.packets
    assert ack == Packet(PacketType.SYNCACK, 0, PROCS[1], PROCS[0], message.srqid, ack.pk_drqid)
    world.run()
    assert world.right.received == [data]
    assert world.left.told == [message]
    assert world.left.free == [message]
    assert message.phase is Phase.ENDED
    rest = world.left.packets[1:]
    assert [body for _, body in rest] == [data[at : at + 100] for at in range(100, nbytes, 100)]
    for number, (header, body) in enumerate(rest):
        assert header == Packet(
            PacketType.DATA, len(body), PROCS[0], PROCS[1], message.srqid, ack.pk_drqid, nbytes,
            pk_lsrank=3, pk_tag=9, pk_cid=4, pk_seqnum=number + 2,
        )  # fmt: skip


@pytest.mark.spec("I2.3.5-26", "I3.5-3")
@pytest.mark.parametrize("datalen", [1, 7, 1024])
@given(nbytes=st.integers(0, 3000))
def test_packets_are_full_but_the_last(datalen: int, nbytes: int) -> None:
    world = Joined(datalen=datalen)
    world.left.send(pattern(nbytes))
    world.run()
    assert world.right.received == [pattern(nbytes)]
    lengths = [len(body) for header, body in world.left.packets if header.pk_type <= PacketType.DATASYNC]
    whole, rest = divmod(nbytes, datalen)
    assert lengths == [datalen] * whole + ([rest] if rest or not whole else [])


@pytest.mark.spec("I3.7.2-5")
@pytest.mark.parametrize("drqid", [0, 1, 2**64 - 1])
def test_the_receivers_id_is_repeated_bit_by_bit(drqid: int) -> None:
    world = Joined()
    message = world.left.send(pattern(150))
    world.left.get(packet(PacketType.SYNCACK, srqid=message.srqid, drqid=drqid))
    assert world.left.packets[-1][0].pk_drqid == drqid


@pytest.mark.spec("I3.5-4", "I3.7.2-9")
def test_long_messages_arrive_beside_each_other() -> None:
    """Their packets are told apart by the receiver's id, in whatever order they are matched and their packets come."""
    world = Joined(accepting=False)
    for seed in range(3):
        world.left.send(pattern(150, seed))
    world.left.send(b"short")
    world.run()
    for index in (2, 0, 1):
        world.right.match(index)
    acks = [header for header, _ in world.right.packets]
    assert len({ack.pk_drqid for ack in acks}) == 3
    for ack in (acks[1], acks[2], acks[0]):
        for at in (100, 110):
            nbytes = 10 if at == 100 else 40
            header = packet(PacketType.DATA, ack.pk_srqid, ack.pk_drqid, nbytes, 150)
            world.right.get(header, pattern(150, ack.pk_srqid - 1)[at : at + nbytes])
    assert world.right.received == [*(pattern(150, seed) for seed in range(3)), b"short"]


@pytest.mark.spec("I3.7.2-7")
def test_packets_that_are_not_full_are_accepted() -> None:
    world = Joined()
    world.right.get(packet(PacketType.DATASYNC, 5, 0, 1, 10), b"a")
    drqid = world.right.packets[-1][0].pk_drqid
    for body in (b"bcd", b"", b"efghij"):
        world.right.get(packet(PacketType.DATA, 5, drqid, len(body), 10), body)
    assert world.right.received == [b"abcdefghij"]


def test_sequence_numbers_counts_and_types_do_not_matter() -> None:
    world = Joined()
    for number in (9, 3, 2**64 - 1):
        header = packet(PacketType.DATA, 1, 0, 1)._replace(pk_seqnum=number, pk_count=-number // 2, pk_dtype=number)
        world.right.get(header, b"x")
    assert world.right.received == [b"x"] * 3


@pytest.mark.spec("I3.5-17", "I3.7.2-12")
@cases(
    ("wrong", "data", "message"),
    [
        (packet(PacketType.DATA, 1, 77, 5, 150), b"abcde", "continues message 77, which is not arriving here"),
        (packet(PacketType.DATA, 1, 1, 51, 150), bytes(51), "brings 51 bytes of message 1, which misses only 50"),
        (packet(PacketType.SYNCACK, 5), b"", "answers message 5, which is not in progress"),
        (packet(PacketType.CANCELYES, 5), b"", "answers message 5, which is not in progress"),
        (packet(PacketType.CANCELNO, 5), b"", "answers message 5, which is not in progress"),
        (packet(PacketType.CANCELYES, 1), b"", "message 1 has been matched, or not cancelled"),
        (packet(PacketType.CANCELNO, 1), b"", "message 1 has not been cancelled"),
    ],
)
def test_packets_that_make_no_sense_are_refused(wrong: Packet, data: bytes, message: str) -> None:
    world = Joined()
    world.left.send(b"", sync=True)
    world.left.get(packet(PacketType.DATASYNC, 1, 0, 100, 150), bytes(100))
    with pytest.raises(RemoteProtocolError, match=message):
        world.left.get(wrong, data)


def test_a_message_that_is_complete_takes_no_more() -> None:
    world = Joined()
    world.right.get(packet(PacketType.DATASYNC, 1, 0, 100, 150), bytes(100))
    drqid = world.right.packets[-1][0].pk_drqid
    rest = packet(PacketType.DATA, 1, drqid, 50, 150)
    world.right.get(rest, bytes(50))
    with pytest.raises(RemoteProtocolError, match="not arriving"):
        world.right.get(rest, bytes(50))


@pytest.mark.spec("I3.7.1-4", "I3.7.2-8", "I3.7.4-6")
@pytest.mark.parametrize("nbytes", [5, 150])
def test_a_second_acknowledgement_is_refused(nbytes: int) -> None:
    world = Joined()
    message = world.left.send(pattern(nbytes), sync=True)
    ack = packet(PacketType.SYNCACK, message.srqid)
    world.left.get(ack)
    with pytest.raises(RemoteProtocolError, match=f"message {message.srqid}, which is not in progress"):
        world.left.get(ack)


@pytest.mark.spec("I3.7.1-4")
def test_an_acknowledgement_of_a_message_that_did_not_ask_is_refused() -> None:
    world = Joined()
    message = world.left.send(b"plain")
    with pytest.raises(RemoteProtocolError, match="not in progress"):
        world.left.get(packet(PacketType.SYNCACK, message.srqid))
    world.left.pair.cancel(message)
    with pytest.raises(RemoteProtocolError, match="acknowledges message 1 twice, or unasked"):
        world.left.get(packet(PacketType.SYNCACK, message.srqid))


def test_the_memory_of_a_message_can_be_given_back_while_it_waits() -> None:
    world = Joined(accepting=False)
    memory = bytearray(pattern(1000))
    message = world.left.send(memory)
    world.run()
    message.detach()
    memory[:] = bytes(1000)
    world.right.match()
    world.run()
    assert world.right.received == [pattern(1000)]


@pytest.mark.spec("I3.7.2-2", "I3.7.2-3", "I3.7.2-7")
@pytest.mark.parametrize("room", [0, 1, 2, 9, 100])
@pytest.mark.parametrize("detached", [False, True])
def test_what_waits_for_its_receive_can_be_written_ahead(room: int, detached: bool) -> None:
    """It leaves as if it had not been; what there was no room for comes from the memory of the message."""
    world = Joined(accepting=False)
    world.left.room = room
    memory = bytearray(pattern(950))
    message = world.left.send(memory)
    world.run()
    ahead = [data for (data,) in message.ahead]
    assert ahead == [pattern(950)[at : at + 100] for at in range(100, 950, 100)][:room]
    assert (world.left.kinds, message.left) == (["DATASYNC"], 850)
    if detached:
        message.detach()
    memory[: None if detached else 100 * (1 + room)] = bytes(950 if detached else len(memory[: 100 * (1 + room)]))
    world.right.match()
    world.run()
    assert world.right.received == [pattern(950)]
    assert [header.pk_len for header, _ in world.left.packets] == [100] * 9 + [50]
    assert not message.ahead


@pytest.mark.parametrize("whole", [False, True])
def test_an_interrupt_while_data_are_written_ahead_loses_none(whole: bool) -> None:
    world = Joined(accepting=False)
    message = world.left.send(pattern(350))

    def interrupted(data: Sequence[bytes | memoryview]) -> list[bytes]:
        if whole and not message.ahead:
            return [b"".join(data)]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        message.write_ahead(100, interrupted)
    world.run()
    world.right.match()
    world.run()
    assert world.right.received == [pattern(350)]


def test_short_messages_and_those_on_their_way_are_not_written_ahead() -> None:
    world = Joined(hiwater=3, ackmark=3, accepting=False)
    world.left.room = 100
    short, synchronous, long = (world.left.send(pattern(nbytes), sync=nbytes == 50) for nbytes in (100, 50, 1000))
    assert [len(message.ahead) for message in (short, synchronous, long)] == [0, 0, 9]
    held = world.left.send(pattern(1000))
    assert not held.ahead, "its first packet waits for flow control"


# Flow control (section 3.6).


@pytest.mark.spec("I3.6-1", "I3.6-5", "I3.6-9")
@cases(("ackmark", "hiwater"), LIMITS)
def test_without_acknowledgements_exactly_hiwater_packets_leave(ackmark: int, hiwater: int) -> None:
    world = Joined(ackmark=ackmark, hiwater=hiwater)
    for number in range(3 * hiwater):
        world.left.send(bytes([number]))
    assert world.left.kinds == ["DATA"] * hiwater
    assert world.left.pair.unacknowledged == hiwater
    assert not world.left.pair.idle
    for _ in range(10 * hiwater):
        world.left.get(packet(PacketType.PROTOACK))
    assert len(world.left.kinds) == 3 * hiwater
    assert world.left.pair.idle


@pytest.mark.spec("I3.6-3", "I3.6-4", "I3.6-7")
@cases(("ackmark", "hiwater"), LIMITS)
def test_every_ackmark_packets_one_acknowledgement(ackmark: int, hiwater: int) -> None:
    """On arrival, whether they have been matched or not; it lowers the counter by ackmark."""
    world = Joined(ackmark=ackmark, hiwater=hiwater, accepting=False)
    for number in range(1, hiwater + 1):
        world.left.send(b"")
        world.to_right()
        assert world.right.kinds == ["PROTOACK"] * (number // ackmark)
    if world.right.packets:
        assert world.right.packets[0][0] == Packet(PacketType.PROTOACK, 0, PROCS[1], PROCS[0])
        world.left.get(packet(PacketType.PROTOACK))
        assert world.left.pair.unacknowledged == hiwater - ackmark


@pytest.mark.spec("I3.6-2", "I3.6-4")
def test_what_is_counted() -> None:
    """Everything but PROTOACK."""
    world = Joined(ackmark=1, hiwater=50)
    right = world.right
    right.accepting = False
    for number, kind in enumerate(PacketType):
        if kind in (PacketType.FINI, PacketType.SYNCACK, PacketType.CANCELYES, PacketType.CANCELNO):
            continue
        before = right.kinds.count("PROTOACK")
        right.get(packet(kind, srqid=number))
        assert right.kinds.count("PROTOACK") - before == (kind.name in COUNTED), kind
    for answer in (PacketType.SYNCACK, PacketType.CANCELYES, PacketType.CANCELNO):
        message = right.send(b"", sync=True)
        if answer is not PacketType.SYNCACK:
            right.pair.cancel(message)
        before = right.kinds.count("PROTOACK")
        right.get(packet(answer, srqid=message.srqid))
        assert right.kinds.count("PROTOACK") == before + 1, answer
    sent = Counter(right.kinds)
    assert right.pair.unacknowledged == sum(sent[kind] for kind in COUNTED)


@pytest.mark.spec("I3.6-8", "I3.6-10")
@cases(("ackmark", "hiwater"), LIMITS)
def test_acknowledgements_pass_what_is_held_back(ackmark: int, hiwater: int) -> None:
    """Both directions stand at hiwater."""
    world = Joined(ackmark=ackmark, hiwater=hiwater)
    for side in (world.left, world.right):
        for number in range(5 * hiwater):
            side.send(bytes([number]))
        assert side.kinds == ["DATA"] * hiwater
    world.to_right()
    assert world.right.kinds == ["DATA"] * hiwater + ["PROTOACK"] * (hiwater // ackmark)
    world.run()
    for side in (world.left, world.right):
        assert side.received == [bytes([number]) for number in range(5 * hiwater)]
        assert side.pair.idle


@pytest.mark.spec("I3.6-7", "I3.7.1-3")
def test_an_answer_is_not_stuck_behind_unmatched_messages() -> None:
    world = Joined(accepting=False)
    for number in range(50):
        world.right.send(bytes([number]))
    asked = world.left.send(b"?", sync=True)
    world.run()
    world.right.match()
    world.run()
    assert world.left.told == [asked]


@pytest.mark.spec("I3.6-10", "I3.5-15")
def test_packets_of_a_pair_keep_their_order() -> None:
    world = Joined(ackmark=2, hiwater=3)
    sent = [pattern(nbytes, nbytes) for nbytes in (5, 350, 0, 100, 201, 7)]
    for data in sent:
        world.left.send(data)
    world.run()
    assert world.right.received == sent


@pytest.mark.spec("I3.6-11")
def test_one_acknowledgement_too_many_is_told_once_and_forgiven() -> None:
    world = Joined()
    world.left.send(b"")
    for _ in range(3):
        world.left.get(packet(PacketType.PROTOACK))
    assert world.left.pair.unacknowledged == 0
    (told,) = world.left.oddities
    assert "PROTOACK" in told
    assert "acknowledges packets that were not sent" in told


# Cancel (section 3.7.4).


@pytest.mark.spec("I3.7.4-2", "I3.6-5")
@pytest.mark.parametrize("nbytes", [5, 150])
def test_a_message_that_has_not_left_is_cancelled_here(nbytes: int) -> None:
    world = Joined(ackmark=1, hiwater=1)
    world.left.send(b"first")
    message, after = world.left.send(pattern(nbytes), sync=True), world.left.send(b"after")
    assert world.left.pair.cancel(message)
    assert world.left.cancelled_ones == [message]
    world.run()
    assert world.right.received == [b"first", b"after"]
    assert "CANCEL" not in world.left.kinds
    assert after.phase is Phase.SENT


@pytest.mark.spec("I3.7.4-1", "I3.7.4-3", "I3.7.4-4", "I3.7.4-9")
@cases(("nbytes", "sync"), [(5, False), (5, True), (150, False), (150, True)])
def test_a_message_that_is_not_matched_is_taken_back(nbytes: int, sync: bool) -> None:
    world = Joined(accepting=False)
    message = world.left.send(pattern(nbytes), sync=sync)
    assert world.left.pair.cancel(message)
    assert world.left.pair.cancel(message)
    assert world.left.packets[1:] == [(Packet(PacketType.CANCEL, 0, PROCS[0], PROCS[1], message.srqid), b"")]
    assert world.left.cancelled_ones == []
    world.run()
    assert world.right.packets == [(Packet(PacketType.CANCELYES, 0, PROCS[1], PROCS[0], message.srqid), b"")]
    assert world.right.messages == []
    assert world.left.cancelled_ones == [message]
    assert (world.left.told, world.left.not_cancelled_ones) == ([], [])


@pytest.mark.spec("I3.7.4-3", "I3.7.4-5", "I3.7.4-6", "I3.7.4-8")
@cases(("nbytes", "sync"), [(5, False), (5, True), (350, False), (350, True)])
def test_a_message_that_is_matched_is_delivered(nbytes: int, sync: bool) -> None:
    """The CANCEL meets the SYNCACK."""
    world = Joined()
    message = world.left.send(pattern(nbytes), sync=sync)
    assert world.left.pair.cancel(message)
    world.run()
    acknowledged = sync or nbytes > 100
    assert world.right.kinds == ["SYNCACK"] * acknowledged + ["CANCELNO"]
    assert world.left.not_cancelled_ones == [message]
    assert world.left.told == [message] * acknowledged
    assert world.right.received == [pattern(nbytes)]
    assert message.phase is Phase.ENDED
    assert not world.left.pair.cancel(message)


@pytest.mark.spec("I3.7.4-2")
def test_a_message_that_is_known_to_be_matched_cannot_be_cancelled() -> None:
    world = Joined(ackmark=1, hiwater=1)
    message = world.left.send(pattern(350))
    while message.phase is not Phase.FLOWING:
        assert world.step()
    assert not world.left.pair.cancel(message)
    world.run()
    assert "CANCEL" not in world.left.kinds
    assert world.right.received == [pattern(350)]


@pytest.mark.spec("I3.7.4-1", "I3.7.4-2")
@pytest.mark.parametrize(("nbytes", "sync"), [(5, True), (350, False)])
def test_a_cancel_that_flow_control_holds_back_is_not_sent_after_the_acknowledgement(nbytes: int, sync: bool) -> None:
    world = Joined(ackmark=1, hiwater=1)
    message = world.left.send(pattern(nbytes), sync=sync)
    assert world.left.pair.cancel(message)
    world.left.get(packet(PacketType.SYNCACK, message.srqid, 9))
    assert world.left.told == [message]
    assert world.left.not_cancelled_ones == [message]
    for _ in range(5):
        world.left.get(packet(PacketType.PROTOACK))
        if message.phase is Phase.ENDED:
            break
    assert "CANCEL" not in world.left.kinds
    assert b"".join(body for _, body in world.left.packets) == pattern(nbytes)


@pytest.mark.spec("I3.7.4-7")
@cases("matched", [None, 0, 1, 2])
def test_of_several_messages_with_one_id_the_newest_is_meant(matched: int | None) -> None:
    """That is not matched, and is of this pair."""
    world = Joined(accepting=False)
    for text in (b"one", b"two", b"three"):
        world.right.get(packet(PacketType.DATA, 7, 0, len(text)), text)
    world.right.get(packet(PacketType.DATA, 8, 0, 1), b"x")
    if matched is not None:
        world.right.match(matched)
    world.right.get(packet(PacketType.CANCEL, 7))
    assert world.right.kinds == ["CANCELYES"]
    gone = b"two" if matched == 2 else b"three"
    assert world.right.received == [text for text in (b"one", b"two", b"three", b"x") if text != gone]


@pytest.mark.spec("I3.7.4-8")
def test_a_cancel_of_what_is_not_here_is_answered_no() -> None:
    world = Joined()
    world.right.get(packet(PacketType.CANCEL, 2**64 - 1))
    assert world.right.packets == [(Packet(PacketType.CANCELNO, 0, PROCS[1], PROCS[0], 2**64 - 1), b"")]


@pytest.mark.parametrize("nbytes", [5, 150])
def test_a_peer_that_never_gives_back_answers_no_and_acknowledges_later(nbytes: int) -> None:
    world = Joined()
    message = world.left.send(pattern(nbytes), sync=True)
    world.left.pair.cancel(message)
    world.left.get(packet(PacketType.CANCELNO, message.srqid))
    assert world.left.not_cancelled_ones == [message]
    assert message.phase is Phase.UNMATCHED
    world.left.get(packet(PacketType.SYNCACK, message.srqid, 9))
    assert world.left.told == [message]
    assert message.phase is Phase.ENDED
    assert b"".join(body for _, body in world.left.packets) == pattern(nbytes)


@pytest.mark.spec("I3.7.4-6")
def test_taken_back_after_it_was_matched_is_refused() -> None:
    world = Joined()
    message = world.left.send(b"", sync=True)
    world.left.pair.cancel(message)
    world.left.get(packet(PacketType.SYNCACK, message.srqid))
    with pytest.raises(RemoteProtocolError, match="has been matched"):
        world.left.get(packet(PacketType.CANCELYES, message.srqid))


@pytest.mark.spec("I3.7.4-4")
def test_a_message_in_hand_is_not_given_back_until_it_is_exposed_again() -> None:
    world = Joined(accepting=False)
    message = world.left.send(b"probed")
    world.run()
    incoming = world.right.messages[0].incoming
    world.right.pair.forbid_recall(incoming)
    world.left.pair.cancel(message)
    world.run()
    assert world.right.kinds == ["CANCELNO"]
    again = world.left.send(b"probed again")
    world.run()
    incoming = world.right.messages[1].incoming
    world.right.pair.forbid_recall(incoming)
    world.right.pair.allow_recall(incoming)
    world.left.pair.cancel(again)
    world.run()
    assert world.left.cancelled_ones == [again]
    assert world.right.received == [b"probed"]


# Everything at once.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "ssend", "cancel", "match", "move"]),
        st.booleans(),
        st.integers(0, 400),
    ),
    max_size=60,
)


@pytest.mark.spec("I3.1-2", "I3.5-1", "I3.5-15", "I3.6-5", "I3.6-10", "I3.7.4-3")
@given(
    steps=STEPS,
    limits=st.sampled_from(LIMITS),
    cut=st.sampled_from([1, 7, 130, 10**6]),
    seed=st.integers(0, 999),
    room=st.sampled_from([0, 3, 1000]),
)
def test_random_conversations(
    steps: list[tuple[str, bool, int]], limits: tuple[int, int], cut: int, seed: int, room: int
) -> None:
    """Whatever is sent, cancelled and matched in whatever order: messages arrive once, whole and in order, or not at
    all; every question is answered; flow control is obeyed and everything becomes quiet."""
    ackmark, hiwater = limits
    world = Joined(50, ackmark, hiwater, cut, seed, accepting=False)
    sides = world.left, world.right
    world.left.room = world.right.room = room
    sent: dict[int, list[tuple[object, bytes]]] = {0: [], 1: []}
    asked: dict[int, list[object]] = {0: [], 1: []}
    for action, which, number in steps:
        side = sides[which]
        if action in ("send", "ssend"):
            data = pattern(number, len(sent[which]))
            sent[which].append((side.send(data, sync=action == "ssend"), data))
        elif action == "cancel" and sent[which]:
            message, _ = sent[which][number % len(sent[which])]
            if message not in asked[which] and side.pair.cancel(message):  # type: ignore[arg-type]
                asked[which].append(message)
        elif action == "match":
            if waiting := unmatched(side):
                side.pair.match(waiting[number % len(waiting)].incoming)
        else:
            for _ in range(number):
                world.step()
        assert all(it.pair.unacknowledged <= hiwater for it in sides)
    while world.step() or any(unmatched(side) for side in sides):
        for side in sides:
            for message in unmatched(side):
                side.pair.match(message.incoming)
    for which, side in enumerate(sides):
        check_conversation(side, sides[1 - which], sent[which], asked[which], ackmark)


def unmatched(side: Side) -> list[Received]:
    return [message for message in side.messages if not message.incoming.matched]


def check_conversation(
    side: Side, other: Side, sent: list[tuple[object, bytes]], asked: list[object], ackmark: int
) -> None:
    """Check what one side has sent and cancelled, after everything has become quiet."""
    kept = [data for message, data in sent if message not in side.cancelled_ones]
    assert other.received == kept
    assert all(message.complete for message in other.messages)
    answered = [*side.cancelled_ones, *side.not_cancelled_ones]
    assert sorted(map(id, answered)) == sorted(map(id, asked))
    assert side.pair.idle
    assert not side.oddities
    counted = sum(kind in COUNTED for kind in side.kinds)
    assert side.pair.unacknowledged == counted - ackmark * other.kinds.count("PROTOACK")
