"""`JobTable`: the state table of a job without processes, for tests."""

from __future__ import annotations

from aiompi.wire import control
from aiompi_launcher.job.actions import Action, Blame, Closed, Due, Exit, Fence, Publish, Send, StartTimer
from aiompi_launcher.job.states import RankState, World
from aiompi_launcher.job.table import Job


class JobTable:
    """A job that remembers what it wanted done. Unless it is a part of a larger world, it has it to itself."""

    def __init__(self, size: int, *, spawned: bool = True, world: World | None = None, survives: bool = False) -> None:
        self.job = Job(size, directory="/run/test", spawned=spawned, survives=survives)
        self.done: list[Action] = []
        self.alone = world is None
        if world is not None:
            self.job.enrol(world)
        self.collect()
        if spawned:
            for rank in self.job.ranks:
                self.job.started(rank.number, 100 + rank.number)

    def collect(self) -> list[Action]:
        new: list[Action] = []
        while actions := self.job.actions():
            new += [action for action in actions if not (self.alone and self._answer(action))]
        self.done += new
        return new

    def _answer(self, action: Action) -> bool:
        """Do as the rest of the world does when there is none."""
        match action:
            case Publish(cards):
                self.job.introduce(cards)
            case Fence():
                self.job.fenced()
            case _:
                return False
        return True

    def receive(self, rank: int, *events: control.Message | Closed) -> list[Action]:
        for event in events:
            self.job.received(rank, event)
        return self.collect()

    def exit(self, rank: int, status: int = 0) -> list[Action]:
        self.job.exited(rank, status)
        return self.collect()

    def expire(self, due: Due) -> list[Action]:
        (timer,) = {action.timer for action in self.all(StartTimer) if action.timer.due is due}
        self.job.expired(timer)
        return self.collect()

    def all(self, kind: type) -> list:
        return [action for action in self.done if isinstance(action, kind)]

    def sent(self, kind: type) -> list[int]:
        """Ranks that were sent a message of a kind."""
        return [send.number for send in self.all(Send) if isinstance(send.message, kind)]

    def run_up(self) -> JobTable:
        """Bring all ranks to RUNNING."""
        for rank in range(len(self.job.ranks)):
            self.receive(rank, control.Join(100 + rank), control.Card({"at": rank}))
        assert {rank.state for rank in self.job.ranks} == {RankState.RUNNING}
        return self

    @property
    def verdict(self) -> str:
        (report,) = self.all(Blame)
        return report.text

    @property
    def code(self) -> int:
        (end,) = self.all(Exit)
        return end.code
