"""The protocol between two processes of different clients (IMPI 0.0, chapter 3). Sans I/O.

A `Pair` is one process's side of its traffic with one other process. It splits messages into packets, obeys flow
control, and handles incoming packets. The hosts in between forward packets unchanged.

    pair     the two directions between two processes
    message  outgoing and incoming messages, and their phases

A message of at most `datalen` bytes is one packet: DATA, or in synchronous mode DATASYNC, which the receiver answers
with SYNCACK once the message is matched. A longer message begins with a full DATASYNC in every mode, and continues
after the SYNCACK:

    sender                                                      receiver
    DATASYNC srqid, datalen bytes                         -->
                                                          <--   SYNCACK srqid, drqid       it has been matched
    DATA srqid, drqid, datalen bytes                      -->
    DATA srqid, drqid, the rest                           -->
"""

from aiompi.impi.channel.message import Incoming, Outgoing, Phase
from aiompi.impi.channel.pair import Limits, Pair, PairUser

__all__ = ["Incoming", "Limits", "Outgoing", "Pair", "PairUser", "Phase"]
