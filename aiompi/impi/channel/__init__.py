"""What two processes of different clients say to each other (IMPI 0.0, chapter 3). Sans I/O.

A `Pair` is one process's side of its traffic with one other: it makes packets of messages, obeys flow control, and
sorts what comes. The hosts in between pass packets on as they are.

    pair     the two directions between two processes
    message  messages on their way, out and in, with the phases that they go through

A message of at most `datalen` bytes is one packet; DATASYNC in synchronous mode, which SYNCACK answers once the
message is matched. A longer one begins with a full DATASYNC whatever its mode, and goes on when the SYNCACK has come:

    sender                                                      receiver
    DATASYNC srqid, datalen bytes                         -->
                                                          <--   SYNCACK srqid, drqid       it has been matched
    DATA srqid, drqid, datalen bytes                      -->
    DATA srqid, drqid, the rest                           -->
"""

from aiompi.impi.channel.message import Incoming, Outgoing, Phase
from aiompi.impi.channel.pair import Limits, Pair, PairUser

__all__ = ["Incoming", "Limits", "Outgoing", "Pair", "PairUser", "Phase"]
