"""A rank that speaks the control protocol and nothing else. Its arguments are steps, done in order:

    join card cards finalize finalized leave    say or expect that message
    left=RANK  abort=CODE,REASON  aborted       the same
    refused                                     join, and expect to be refused
    hangup                                      close the connection
    print=TEXT  err=TEXT  read                  write or read a line
    child=STEP                                  do that step in a child process
    exit=CODE  kill=SIGNAL  pause               end, or wait to be ended

What is not expected is skipped if it is Left.

`RANK:STEP` is for that rank only.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from aiompi.errors import RemoteProtocolError
from aiompi.net.handshake import Greeter, protection_of
from aiompi.settings import load
from aiompi.wire import control, hello
from aiompi.wire.variables import ENV_CONTROL, ENV_KEY, ENV_RANK


class Agent:
    """The connection to the launcher."""

    def __init__(self) -> None:
        self.size = 0
        self.decoder = control.Decoder()
        self.inbox: list[control.Message] = []
        kind, _, address = os.environ[ENV_CONTROL].partition(":")
        if kind == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address)
        else:
            host, _, port = address.rpartition(":")
            self.socket = socket.create_connection((host, int(port)))
        key = hello.parse_key(os.environ[ENV_KEY])
        rank = int(os.environ.get(ENV_RANK, hello.RANK_ANY))
        settings = load()
        channel = protection_of(self.socket, settings)
        handshake = hello.Connector(key, role=hello.ROLE_CONTROL, rank=rank, target=hello.RANK_AGENT, channel=channel)
        greeter = Greeter(self.socket, handshake, settings)
        try:
            while not greeter.advance():
                pass
        except RemoteProtocolError:
            sys.exit("refused")
        self.socket = greeter.socket

    def send(self, message: control.Message) -> None:
        self.socket.sendall(control.encode(message))

    def expect(self, kind: type) -> control.Message:
        while not (self.inbox and self._next(kind)):
            data = self.socket.recv(65536)
            if not data:
                sys.exit(f"end of connection instead of {kind.__name__}")
            self.inbox += self.decoder.receive_data(data)
        message = self.inbox.pop(0)
        if not isinstance(message, kind):
            sys.exit(f"{message} instead of {kind.__name__}")
        return message

    def _next(self, kind: type) -> bool:
        """Return True if there is a message to look at."""
        while self.inbox and kind is not control.Left and isinstance(self.inbox[0], control.Left):
            del self.inbox[0]
        return bool(self.inbox)


def main() -> None:
    rank = os.environ.get(ENV_RANK, "")
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
            agent.size = welcome.size
        else:
            act(agent, verb, value, rank)


def act(agent: Agent | None, verb: str, value: str, rank: str) -> None:
    match verb:
        case "print":
            print(value, flush=True)
        case "err":
            print(value, file=sys.stderr, flush=True)
        case "read":
            sys.stdin.readline()
        case "child":
            subprocess.run([sys.executable, __file__, value], check=True)
        case "refused":
            agent = Agent()
            agent.send(control.Join(os.getpid()))
            tell(agent, "the process for rank " + rank)
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
            agent.send(control.Card({"appnum": int(rank)}))
        case "cards":
            cards = agent.expect(control.Cards)
            assert isinstance(cards, control.Cards)
            # Cards of ranks that only the IMPI host reaches are empty.
            assert [card.get("appnum", r) for r, card in enumerate(cards.cards)] == list(range(agent.size))
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
            tell(agent, f"rank {rank}")
        case "hangup":
            agent.socket.close()
        case _:
            sys.exit(f"no such step: {verb}")


def tell(agent: Agent, name: str) -> None:
    message = agent.expect(control.Abort)
    assert isinstance(message, control.Abort)
    print(f"{name} was told: {message.reason}", flush=True)


main()
