"""Blocks, and messages that are longer or shorter than the block that receives them."""

from __future__ import annotations

from functools import partial

import pytest

from aiompi.coll.block import Block, Bundle
from aiompi.errors import InternalError, InvalidCountError, TruncationError


def exchange(world, sent, block):
    """Send a block from rank 0 into one of rank 1."""

    def call(comm):
        async def run(channel):
            await (block.irecv(channel, 0) if channel.rank else sent.isend(channel, 1))

        return comm.start(run, "Test")

    return world(2).results(call)


def test_a_block_is_sent_from_and_received_into_its_own_memory(world):
    memory, other = bytearray(b"abc"), bytearray(3)
    block = Block(memoryview(other))
    exchange(world, Block(memoryview(memory)), block)
    assert other == memory
    assert block.payload[0].obj is other


def test_an_object_slot_takes_any_length_and_passes_on_what_came(world):
    block, last = Block(), Block()
    exchange(world, Block.holding((b"ab", memoryview(b"cde")), 5), block)
    assert block.nbytes == 5
    exchange(world, block, last)
    assert last.data == b"abcde"


def test_an_empty_message_fills_an_object_slot(world):
    block = Block.holding((b"old",), 3)
    exchange(world, Block(), block)
    assert (block.nbytes, block.data) == (0, b"")


@pytest.mark.spec("S4.1-3")
@pytest.mark.parametrize("eager_limit", [0, 65536])
@pytest.mark.parametrize(("sent", "error"), [(5, TruncationError), (3, InvalidCountError)])
def test_other_amounts_than_expected_are_reported_with_both_figures(sent, error, eager_limit, world):
    memory = bytearray(6)
    block = Block(memoryview(memory)[:4])
    with pytest.raises(error, match=f"Test on WORLD, rank 1: rank 0 sent {sent} bytes where 4 are expected"):
        exchange(partial(world, eager_limit=eager_limit), Block(memoryview(b"x" * sent)), block)
    assert memory[4:] == bytes(2)


def test_a_copy_has_memory_of_its_own():
    original = bytearray(b"abc")
    sized, whole = Block(memoryview(bytearray(3))), Block()
    for block in (sized, whole):
        block.copy(Block(memoryview(original)))
    original[:] = b"xyz"
    assert sized.data == whole.data == b"abc"


def test_copying_a_slot_to_itself_leaves_it_as_it_is():
    block = Block.holding((b"a", b"b"), 2)
    block.copy(block)
    assert block.payload == (b"a", b"b")


def test_a_part_of_a_block_shares_its_memory():
    memory = bytearray(b"abcdef")
    part = Block(memoryview(memory)).part(2, 4)
    part.copy(Block(memoryview(b"xy")))
    assert (part.nbytes, memory) == (2, b"abxyef")


def test_objects_cannot_be_cut():
    with pytest.raises(InternalError, match="cannot be cut"):
        Block.holding((b"abc",), 3).part(0, 1)


@pytest.mark.parametrize("lengths", [[], [3], [2, 0, 3]])
def test_a_bundle_is_one_message_into_all_its_slots(lengths, world):
    sent, received = ([Block(memoryview(bytearray(fill * n))) for n in lengths] for fill in (b"a", b"b"))
    ranks = world(2)

    def call(comm):
        async def run(channel):
            bundles = Bundle(sent), Bundle(received)
            await (bundles[1].irecv(channel, 0) if channel.rank else bundles[0].isend(channel, 1))

        return comm.start(run, "Test")

    ranks.results(call)
    assert [block.data for block in received] == [b"a" * n for n in lengths]
    assert ranks.sent[0] == {"messages": 1, "bytes": sum(lengths)}


def test_a_bundle_of_other_length_is_reported(world):
    sent, received = (Bundle([Block(memoryview(bytearray(n))) for n in (2, length)]) for length in (3, 4))
    with pytest.raises(InvalidCountError, match="rank 0 sent 5 bytes where 6 are expected here"):
        exchange(world, sent, received)
