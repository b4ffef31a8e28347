"""The agents that one process has started: `Branches` starts them and routes messages to the hosts behind them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from typing import Final

from aiompi.wire import liveness
from aiompi_launcher.hosts import messages
from aiompi_launcher.hosts.channel import Channel
from aiompi_launcher.hosts.messages import HOST_SHIFT, Message
from aiompi_launcher.hosts.starters import StartedAgent
from aiompi_launcher.start.watchdog import KILL_GRACE

_GRACE: Final = KILL_GRACE + 2.0  # seconds for agents to end processes and close their channels
_LAST_WORDS: Final = 0.5  # seconds to wait for the error text of a starter whose agent has ended
_TAIL: Final = 4096
_PIECE: Final = 2**20


class Branch:
    """An agent, and the hosts behind it.

    Args:
        started: its starter.
        archive: path of the file from which the agent unpacks files; empty if there are no files.
        on_message: called with each message of the agent.
        on_lost: called with this object and the reason if the agent ends too early.
        curb: limits reading; called with the agent's channel after each message.
    """

    def __init__(
        self,
        started: StartedAgent,
        archive: str,
        on_message: Callable[[Message], object],
        on_lost: Callable[[Branch, str], object],
        curb: Callable[[Channel], object],
    ) -> None:
        self.plan = plan = started.plan
        self.process = started.process
        self._on_message, self._on_lost, self._curb = on_message, on_lost, curb
        self._address = ""
        self._loop = asyncio.get_running_loop()
        self._errors = b""
        pipes = self.process.stdin, self.process.stdout, self.process.stderr
        stdin, stdout, self._stderr = (os.dup(pipe.fileno()) for pipe in pipes if pipe is not None)
        for pipe in pipes:
            if pipe is not None:
                pipe.close()
        os.set_blocking(self._stderr, False)
        self._loop.add_reader(self._stderr, self._read_errors)
        self.channel = Channel((stdout, stdin), self._received, self._ended, plan.silence, self._why_lost)
        self.channel.write(messages.banner())
        self.channel.send(messages.Launch(plan.pack()))
        self._sending = self._loop.create_task(self._send_files(archive)) if archive else None
        self._limit = self._loop.call_later(plan.patience, self._expire)

    async def _send_files(self, archive: str) -> None:
        with open(archive, "rb") as file:
            while data := file.read(_PIECE):
                self.channel.send(messages.Files(data))
                await self.channel.flush()
        self.channel.send(messages.Files(b""))

    @property
    def hosts(self) -> list[int]:
        """Indices of all its hosts."""
        return [part.host for part in self.plan.parts]

    def close(self) -> None:
        """Close the channel; the agent then ends all processes."""
        self._limit.cancel()
        self.channel.close()
        if self._stderr >= 0:
            self._loop.remove_reader(self._stderr)
            os.close(self._stderr)
            self._stderr = -1

    def kill(self) -> None:
        """Kill the starter if it still runs."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _received(self, message: Message) -> None:
        if isinstance(message, messages.Ready) and message.host == self.plan.parts[0].host:
            self._address = message.address
            self._limit.cancel()
            self.channel.watched = True
        self._on_message(message)
        self._curb(self.channel)

    def _expire(self) -> None:
        noise = self.channel.noise
        said = f"; it printed {noise[-200:]!r}" if noise and not self.channel.begun else ""
        self._lost(f"it did not answer within {self.plan.patience:g} s (--start-timeout){said}")

    def _why_lost(self) -> str:
        if liveness.is_stopped(self.process.pid):
            return f"process {self.process.pid}, by which it is reached, is stopped"
        return liveness.CUT_OFF if self._address and liveness.is_unanswered(self._address) else ""

    def _ended(self, reason: str) -> None:
        if reason:
            self._lost(reason, words=False)
        else:  # the starter is about to print the reason
            self._loop.create_task(self._listen())

    async def _listen(self) -> None:
        deadline = self._loop.time() + _LAST_WORDS
        while (self._stderr >= 0 or self.process.poll() is None) and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        code = self.process.poll()
        self._lost("its agent has ended" if not code else f"{self.plan.starter[0]} has ended with status {code}")

    def _lost(self, reason: str, *, words: bool = True) -> None:
        if self._stderr >= 0:
            self._read_errors()
        said = self._errors.decode(errors="backslashreplace").strip() if words else ""
        self.close()
        self.kill()
        self._on_lost(self, said or reason)

    def _read_errors(self) -> None:
        try:
            data = os.read(self._stderr, _TAIL)
        except BlockingIOError:
            return
        self._errors = (self._errors + data)[-_TAIL:]
        if not data:
            self._loop.remove_reader(self._stderr)
            os.close(self._stderr)
            self._stderr = -1


class Branches:
    """The agents that this process has started.

    Args:
        started: their starters.
        archive: as in `Branch`.
        on_message: called with each message of an agent.
        curb: called with the channel of an agent after each message.
    """

    def __init__(
        self,
        started: Sequence[StartedAgent],
        archive: str,
        on_message: Callable[[Message], object],
        curb: Callable[[Channel], object] = lambda channel: None,
    ) -> None:
        self._on_message = on_message
        self._closed = False
        self._branches = [Branch(each, archive, on_message, self._on_lost, curb) for each in started]
        self._by_host = {host: branch for branch in self._branches for host in branch.hosts}
        parts = (part for branch in self._branches for part in branch.plan.parts)
        self._hosts = {rank: part.host for part in parts for rank in part.ranks}

    def send(self, message: Message) -> None:
        """Send a message to the hosts that it concerns."""
        match message:
            case messages.Post(connections, data):
                for branch, those in self._grouped(connections, [number >> HOST_SHIFT for number in connections]):
                    branch.channel.send(messages.Post(those, data))
            case messages.SignalRanks(ranks, signum):
                for branch, those in self._grouped(ranks, [self._hosts.get(rank, -1) for rank in ranks]):
                    branch.channel.send(messages.SignalRanks(those, signum))
            case messages.HangUp(connection):
                self._send_to(connection >> HOST_SHIFT, message)
            case messages.InputData(rank) | messages.Grant(rank):
                self._send_to(self._hosts.get(rank, -1), message)
            case _:
                for branch in self._branches:
                    branch.channel.send(message)

    async def end(self) -> None:
        """Tell all agents to end their processes, and wait for them; kill the starters of agents that do not answer."""
        self.send(messages.EndJob())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _GRACE
        self._closed = True
        while self._branches and loop.time() < deadline:
            await asyncio.sleep(0.005)
        for branch in self._branches:
            branch.close()
        deadline = loop.time() + _LAST_WORDS
        while any(branch.process.poll() is None for branch in self._branches) and loop.time() < deadline:
            await asyncio.sleep(0.01)
        for branch in self._branches:
            branch.kill()

    def _grouped(self, targets: Sequence[int], hosts: Sequence[int]) -> list[tuple[Branch, list[int]]]:
        found: dict[Branch, list[int]] = {}
        for target, host in zip(targets, hosts, strict=True):
            branch = self._by_host.get(host)
            if branch is not None:
                found.setdefault(branch, []).append(target)
        return list(found.items())

    def _send_to(self, host: int, message: Message) -> None:
        branch = self._by_host.get(host)
        if branch is not None:
            branch.channel.send(message)

    def _on_lost(self, branch: Branch, cause: str) -> None:
        self._branches.remove(branch)
        for host in branch.hosts:
            del self._by_host[host]
        if not self._closed:
            self._on_message(messages.HostsLost(branch.hosts, cause))
