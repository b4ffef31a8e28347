"""The messages of windows: requests by which an origin accesses memory that it has not mapped, and targets' answers.

A request is a message with the tag `REQUESTS`: a head, encoded with msgpack, and data. Its answer, if there is one, has
a tag that the request names. Messages between two ranks do not overtake each other, so a target serves the requests of
one origin in their order. An answer tells that all earlier requests are done.
"""

from __future__ import annotations

import enum
import struct
from typing import Any, Final

import msgpack

from aiompi.errors import RemoteProtocolError
from aiompi.wire.frame import Payload

#: tag of requests; answers have larger tags
REQUESTS: Final = 0
#: number of tags of answers
ANSWERS: Final = 2**20

#: the answer to a request for a lock: `GRANTED`, the rank of a failed holder, or a number below `GRANTED`: wait
LOCK_ANSWER: Final = struct.Struct("<i")
GRANTED: Final = -1

#: the answer to a flush after accesses outside of the attached memory: begin and end of the first such access
OUTSIDE: Final = struct.Struct("<qq")

_LENGTH: Final = struct.Struct("!I")
#: most bytes of a head, not counting the runs of an area
_MOST: Final = 2**26


class Kind(enum.IntEnum):
    """The kinds of requests, each with the arguments in its head."""

    PUT = 0  #: start, nbytes, runs
    GET = 1  #: start, nbytes, runs
    COMBINE = 2  #: start, nbytes, runs, operation, type, whether the message has operands, whether it is to be fetched
    SWAP = 3  #: start, nbytes
    FLUSH = 4  #: nothing; the answer is empty, or `OUTSIDE`
    LOCK = 5  #: whether alone
    UNLOCK = 6  #: nothing
    WAKE = 7  #: the rank whose lock has been released
    POST = 8  #: nothing
    COMPLETE = 9  #: nothing


def request(kind: Kind, answer: int, *arguments: Any, data: Payload = ()) -> tuple[Payload, int]:
    """Return the pieces of a request, and their length in bytes.

    Args:
        kind: kind of the request.
        answer: tag of the answer; 0 for a request without an answer.
        arguments: see `Kind`.
        data: pieces that follow the head.
    """
    head = msgpack.packb((int(kind), answer, *arguments))
    pieces = [_LENGTH.pack(len(head)) + head, *data]
    return pieces, sum(map(len, pieces))


def parsed(message: memoryview) -> tuple[Kind, int, list[Any], memoryview]:
    """Return kind, tag of the answer, arguments and data of a request.

    Raises:
        RemoteProtocolError: the message is no request.
    """
    if message.nbytes < _LENGTH.size:
        raise RemoteProtocolError(f"a message of {message.nbytes} bytes is no request for a window")
    (length,) = _LENGTH.unpack_from(message)
    end = _LENGTH.size + length
    if end > message.nbytes or length > _MOST:
        raise RemoteProtocolError("the head of a request for a window is longer than its message")
    try:
        head = msgpack.unpackb(message[_LENGTH.size : end], use_list=True, max_array_len=16, max_map_len=0)
        kind, answer, *arguments = head
        kind = Kind(kind)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"the head of a request for a window cannot be decoded: {error}") from None
    if type(answer) is not int or not 0 <= answer <= ANSWERS:
        raise RemoteProtocolError(f"{answer!r} is no tag of an answer")
    return kind, answer, arguments, message[end:]
