"""A rank that speaks the control protocol and nothing else. Its arguments are steps, done in order:

    join card cards finalize finalized leave    say or expect that message
    left=RANK  abort=CODE,REASON  aborted       the same
    eof                                         expect the end of the connection
    print=TEXT  err=TEXT                        write a line
    exit=CODE  kill=SIGNAL  pause               end, or wait to be ended

`RANK:STEP` is for that rank only.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from aiompi.wire import control, hello


class Agent:
    """The connection to the launcher."""

    def __init__(self) -> None:
        self.decoder = control.Decoder()
        self.inbox: list[control.Message] = []
        kind, _, address = os.environ[control.ENV_CONTROL].partition(":")
        if kind == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address)
        else:
            host, _, port = address.rpartition(":")
            self.socket = socket.create_connection((host, int(port)))
        key = hello.parse_key(os.environ[control.ENV_KEY])
        rank = int(os.environ.get(control.ENV_RANK, hello.RANK_ANY))
        handshake = hello.Connector(key, role=hello.ROLE_CONTROL, rank=rank, target=hello.RANK_AGENT)
        self.socket.sendall(handshake.data_to_send())
        while not handshake.done:
            handshake.receive_data(self.socket.recv(handshake.needed) or sys.exit("refused"))
        self.socket.sendall(handshake.data_to_send())

    def send(self, message: control.Message) -> None:
        self.socket.sendall(control.encode(message))

    def expect(self, kind: type) -> control.Message:
        while not self.inbox:
            data = self.socket.recv(65536)
            if not data:
                sys.exit(f"end of connection instead of {kind.__name__}")
            self.inbox += self.decoder.receive_data(data)
        message = self.inbox.pop(0)
        if not isinstance(message, kind):
            sys.exit(f"{message} instead of {kind.__name__}")
        return message


def main() -> None:
    rank = os.environ.get(control.ENV_RANK, "")
    agent: Agent | None = None
    for word in sys.argv[1:]:
        owner, colon, step = word.partition(":")
        if not colon or not owner.isdigit():
            step = word
        elif owner != rank:
            continue
        verb, _, value = step.partition("=")
        if verb == "join":
            agent = Agent()
            agent.send(control.Join(os.getpid()))
            welcome = agent.expect(control.Welcome)
            assert isinstance(welcome, control.Welcome)
            rank = str(welcome.rank)
        else:
            act(agent, verb, value, rank)


def act(agent: Agent | None, verb: str, value: str, rank: str) -> None:
    match verb:
        case "print":
            print(value, flush=True)
        case "err":
            print(value, file=sys.stderr, flush=True)
        case "exit":
            os._exit(int(value))
        case "kill":
            os.kill(os.getpid(), int(value))
        case "pause":
            signal.pause()
        case _:
            assert agent is not None
            talk(agent, verb, value, rank)


def talk(agent: Agent, verb: str, value: str, rank: str) -> None:
    match verb:
        case "card":
            agent.send(control.Card({"rank": rank}))
        case "cards":
            cards = agent.expect(control.Cards)
            assert isinstance(cards, control.Cards)
            assert [card["rank"] for card in cards.cards] == [str(r) for r in range(len(cards.cards))]
        case "finalize":
            agent.send(control.Finalize())
        case "finalized":
            agent.expect(control.Finalized)
        case "leave":
            agent.send(control.Leave())
        case "left":
            assert agent.expect(control.Left) == control.Left(int(value))
        case "abort":
            code, _, reason = value.partition(",")
            agent.send(control.Abort(int(code), reason))
        case "aborted":
            message = agent.expect(control.Abort)
            assert isinstance(message, control.Abort)
            print(f"rank {rank} was told: {message.reason}", flush=True)
        case "eof":
            assert agent.socket.recv(1) == b""
        case _:
            sys.exit(f"no such step: {verb}")


main()
