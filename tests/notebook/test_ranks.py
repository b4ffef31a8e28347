"""Ranks of a notebook without a kernel: real processes, which the tests of a module share."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aiompi.base.usage import standing
from aiompi.errors import InvalidArgumentError
from aiompi.notebook import Ranks, RanksError
from aiompi.notebook.cell import Cell, Event, Failure, Result, Text
from aiompi.notebook.protocol import FENCE, INTERRUPT, Command
from aiompi.notebook.ranks import ranks_for

COUNT = 2


@pytest.fixture(scope="module")
def shared() -> Iterator[Ranks]:
    """Ranks of the asyncio face."""
    ranks = ranks_for(COUNT)
    ranks.start_now()
    yield ranks
    ranks.stop_now()


def run(ranks: Ranks, code: str, where: list[int] | None = None, limit: float | None = None) -> list[Event]:
    """Let ranks run a cell; return its events, by rank."""
    events: list[Event] = []
    ranks.run_now(code, where, limit, events.append)
    return sorted(events, key=lambda event: -1 if event.rank is None else event.rank)


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Text)]


def test_cells(shared: Ranks) -> None:
    """Variables stay, cells await and have results, and output keeps its order with them, as does that of processes."""
    assert texts(run(shared, "x = await comm.allreduce(comm.rank + 1)\nprint(x)")) == ["3", "3"]
    code = "import os, sys\nprint('a', end='')\ndisplay(x)\nos.system('echo b')\nprint('c', file=sys.stderr)\nx + 1"
    events = run(shared, "from IPython.display import display\n" + code, [1])
    printed = [event for event in events if event != Text(1, "c", is_error=True)]
    in_order = [event.text if isinstance(event, Text) else "shown" for event in printed]
    assert in_order == ["a", "shown", "b", "shown"]
    assert Text(1, "c", is_error=True) in events
    shown = [event.shown.data["text/plain"] for event in events if isinstance(event, Result)]
    assert shown == ["3", "4"]


def test_push_and_pull(shared: Ranks) -> None:
    """Values, functions of the program too, are copied; errors of either side name the rank."""

    async def exchange() -> None:
        await shared.push(add=lambda a, b: a + b, seven=7)
        assert await shared.pull("add(seven, comm.rank)") == [7, 8]
        assert await shared.pull("seven", [1]) == [7]
        with pytest.raises(RanksError, match="rank 0 raised NameError: name 'absent' is not defined"):
            await shared.pull("absent")
        with pytest.raises(RanksError, match=r"rank 1 raised TypeError: .* cannot be pickled"):
            await shared.pull("(each for each in '')", [1])
        with pytest.raises(TypeError, match="generator cannot be pickled"):
            await shared.push(it=(each for each in ""))
        with pytest.raises(InvalidArgumentError, match=r"ranks \[2\]: there are ranks 0 to 1"):
            await shared.pull("seven", [2])

    asyncio.run(exchange())


@pytest.mark.parametrize(
    "endless",
    ["while True: pass", "while True: print('x')", "await comm.recv()", "import time; time.sleep(1000)"],
)
def test_a_time_limit(shared: Ranks, endless: str) -> None:
    """It interrupts code and waits; then `comm` is in step although one rank has not come to a barrier."""
    events: list[Event] = []
    cell = f"if comm.rank: await comm.barrier()\nelse:\n    {endless}"
    with pytest.raises(TimeoutError, match=r"ranks 0-1 had not ended after 0.5 s"):
        shared.run_now(cell, None, 0.5, events.append)
    raised = {event.rank: event.raised for event in events if isinstance(event, Failure)}
    assert raised[0].name in ("KeyboardInterrupt", "CancelledError")
    assert "comm" in raised[1].traceback[-2]
    assert texts(run(shared, "print(await comm.allreduce(1))")) == ["2", "2"]


def test_a_cancelled_cell(shared: Ranks) -> None:
    """Cancelling the await interrupts the cell."""

    async def cancel() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(shared.run("await comm.recv()", show=lambda _: None), 0.5)

    asyncio.run(cancel())
    assert texts(run(shared, "print(comm.rank)")) == ["0", "1"]


def test_a_rank_that_does_not_react(shared: Ranks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An interrupt of a cell without a time limit names the ranks that go on, and they run cells again later."""
    monkeypatch.setattr("aiompi.notebook.ranks.GRACE", 0.2)
    go_on = tmp_path / "go on"
    cell = f"""
        import os, signal, time
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        print("begun", flush=True)
        while not os.path.exists({str(go_on)!r}):
            time.sleep(0.01)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    """

    def interrupt(_: Event) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(RanksError, match=r"rank 1 did not react to an interrupt for 0\.2 s") as raised:
        shared.run_now(textwrap.dedent(cell), [1], show=interrupt)
    assert isinstance(raised.value.__cause__, KeyboardInterrupt)
    with pytest.raises(RanksError, match="rank 1 still runs an earlier cell"):
        run(shared, "pass")
    go_on.touch()
    while "running a cell" in repr(shared):
        time.sleep(0.01)
    assert texts(run(shared, "print(comm.rank)")) == ["0", "1"]


def test_a_rank_that_gets_no_cpu(shared: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that is stopped, or on a busy machine, is not said to run code that does not return."""
    monkeypatch.setattr("aiompi.notebook.ranks.GRACE", 0.2)
    process = shared.pull_now("__import__('os').getpid()", [1])[0]

    states: list[str] = []

    def interrupt(event: Event) -> None:
        if event == Text(1, "stops", is_error=False):
            while standing(process)[0] != "T":
                time.sleep(0.01)
            monkeypatch.setattr("aiompi.notebook.processes.standing", lambda pid: (states[-1], 7.0))
            signal.raise_signal(signal.SIGINT)

    cell = "import os, signal\nprint('stops', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)"
    starved, busy = "rank 1 got no CPU meanwhile", "rank 1 runs code that does not return to Python"
    for state, reason in ("T", starved), ("R", starved), ("S", busy):
        states.append(state)
        with pytest.raises(RanksError, match=rf"rank 1 did not react to an interrupt for 0\.2 s: {reason}"):
            shared.run_now(cell, [1], show=interrupt)
        os.kill(process, signal.SIGCONT)
        while "running a cell" in repr(shared):
            time.sleep(0.01)


def test_a_new_communicator_that_takes_long(shared: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell itself has ended, and the error says so."""
    run(shared, "pass")  # takes earlier interrupts
    monkeypatch.setattr("aiompi.notebook.ranks.GRACE", 0.2)
    monkeypatch.setattr(shared._job, "signal", lambda _: None)  # the launcher gets no CPU for now
    shared.interrupt()
    with pytest.raises(RanksError, match=r"0\.2 s later there is no new `comm`: rank"):
        run(shared, "pass")
    monkeypatch.undo()
    assert shared._loop is not None
    for signum in INTERRUPT, FENCE:
        shared._loop.soon(shared._job.signal, signum)
    while "running a cell" in repr(shared):
        time.sleep(0.01)
    assert texts(run(shared, "print(await comm.allreduce(1))")) == ["2", "2"]


def test_an_interrupt_that_comes_late_ends_no_later_cell(shared: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    job, send = shared._job, shared._job.signal
    monkeypatch.setattr(job, "signal", lambda signum: asyncio.get_running_loop().call_later(0.5, send, signum))
    with pytest.raises(TimeoutError):
        run(shared, "import asyncio\nawait asyncio.sleep(0.3)", limit=0.1)
    assert texts(run(shared, "await asyncio.sleep(0.7)\nprint(comm.rank)")) == ["0", "1"]


def test_a_second_interrupt_of_a_cell_ends_no_later_cell(shared: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one ends the cell, and the second one is still on its way then."""
    job, send = shared._job, shared._job.signal
    signals: list[int] = []
    failures: list[Failure] = []

    def delayed(signum: int) -> None:
        signals.append(signum)
        asyncio.get_running_loop().call_later(0.0 if len(signals) == 1 else 0.5, send, signum)

    def again(event: Event) -> None:
        if isinstance(event, Failure) and not failures:
            shared.interrupt()
            failures.append(event)

    monkeypatch.setattr(job, "signal", delayed)
    with pytest.raises(TimeoutError):
        shared.run_now("while True: pass", limit=0.1, show=again)
    assert signals == [INTERRUPT, INTERRUPT, FENCE]
    assert texts(run(shared, "import asyncio\nawait asyncio.sleep(0.7)\nprint(comm.rank)")) == ["0", "1"]


def test_an_interrupt_before_the_command(shared: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the cell that was on its way to the ranks."""
    send = shared._job.send

    async def late(commands: Mapping[int, Command]) -> Cell:
        monkeypatch.undo()
        shared.interrupt()
        await asyncio.sleep(0.3)  # if the interrupt comes later even so, it ends the cell as well
        return await send(commands)

    monkeypatch.setattr(shared._job, "send", late)
    events = run(shared, "while True: pass")
    assert [event.raised.name for event in events if isinstance(event, Failure)] == ["KeyboardInterrupt"] * COUNT
    assert texts(run(shared, "print(comm.rank)")) == ["0", "1"]


def test_a_cell_that_is_cancelled_before_it_begins(shared: Ranks) -> None:
    """It does not run."""

    async def cancel() -> None:
        running = asyncio.ensure_future(shared.run("while True: pass", show=lambda _: None))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 60)

    for _ in range(5):
        asyncio.run(cancel())
    assert texts(run(shared, "print(comm.rank)")) == ["0", "1"]


def test_an_interrupt_ends_nothing_but_a_cell(shared: Ranks) -> None:
    """A task that displays while an interrupt waits for a cell goes on."""
    run(shared, "async def show():\n    while True:\n        display(1)\n        await asyncio.sleep(0.01)")
    run(shared, "import asyncio\ntask = asyncio.create_task(show())")
    shared.interrupt()
    time.sleep(0.2)
    run(shared, "await asyncio.sleep(0.1)\nassert not task.done()\ntask.cancel()")


@pytest.fixture(scope="module", params=["asyncio", "blocking"])
def each_face(request: pytest.FixtureRequest) -> Iterator[tuple[Ranks, str]]:
    """Ranks of either face, and the word before its calls."""
    if request.param == "asyncio":
        yield request.getfixturevalue("shared"), "await "
        return
    ranks = ranks_for(COUNT, blocking=True)
    ranks.start_now()
    yield ranks, ""
    ranks.stop_now()


@pytest.mark.parametrize(
    "loop",
    [
        "{}comm.allreduce(1)",
        "{0}comm.send(1, comm.rank); {0}comm.recv(source=comm.rank)",
        "{}comm.Sendrecv(bytes(2**23), comm.rank, recvbuf=bytearray(2**23))",
        "{}comm.recv()",
        "display(1)",
        "await __import__('asyncio').sleep(1)",
    ],
)
def test_quick_interrupts_of_a_loop(each_face: tuple[Ranks, str], loop: str) -> None:
    """Messages and events stay whole, wherever the interrupts come, also before the cell has begun at each rank."""
    ranks, word = each_face

    def interrupt(pause: float) -> None:
        begun.wait()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(pause)

    for pause in 0.0, 0.001, 0.003:
        begun = threading.Event()
        thread = threading.Thread(target=interrupt, args=[pause])
        thread.start()
        cell = f"print('begun', flush=True)\nwhile True: {loop.format(word)}"
        with contextlib.suppress(KeyboardInterrupt):  # at a second interrupt that comes after the end of the cell
            with pytest.raises(KeyboardInterrupt):
                ranks.run_now(cell, show=lambda _: begun.set())
            thread.join()
        thread.join()
        assert texts(run(ranks, f"print({word}comm.allreduce(1))")) == ["2", "2"]


def test_an_exception(shared: Ranks) -> None:
    """It is told with its traceback, and the others end, or are interrupted."""
    events: list[Event] = []
    with pytest.raises(RanksError, match=r"rank 1 of 2 raised an exception"):
        shared.run_now("1 / (1 - comm.rank)", show=events.append)
    [failure] = [event for event in events if isinstance(event, Failure)]
    assert (failure.rank, failure.raised.name, failure.raised.text) == (1, "ZeroDivisionError", "division by zero")
    assert any("1 - comm.rank" in _plain(line) for line in failure.raised.traceback)


def _plain(text: str) -> str:
    """Return a text without colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_output_between_cells(shared: Ranks) -> None:
    """What a task prints later comes with the next cell."""
    later = "async def later():\n    await asyncio.sleep(0.1)\n    print('late', flush=True)\n"
    run(shared, f"import asyncio\n{later}task = asyncio.create_task(later())", [0])
    time.sleep(0.4)
    assert "late" in texts(run(shared, "pass", [0]))


def test_interrupts_outside_of_the_code() -> None:
    """A rank reacts when it has just been started; an interrupt while IPython ends a cell changes nothing."""
    ranks = ranks_for(1)
    ranks.start_now()
    try:
        with pytest.raises(TimeoutError, match=r"rank 0 had not ended after 0\.2 s"):
            run(ranks, "await comm.recv()", limit=0.2)
        cell = """
            import os, signal
            def interrupt(_):
                del get_ipython().history_manager.store_output
                os.kill(os.getpid(), signal.SIGUSR1)
            get_ipython().history_manager.store_output = interrupt
        """
        assert run(ranks, textwrap.dedent(cell)) == []
        assert texts(run(ranks, "print(comm.rank)")) == ["0"]
    finally:
        ranks.stop_now()


def test_a_rank_that_dies() -> None:
    """The cell ends with the reason; a restart makes new ranks without variables. These are of the blocking face."""
    ranks = ranks_for(COUNT, blocking=True)
    ranks.start_now()
    try:
        run(ranks, "from mpi4py import MPI\nx = MPI.COMM_WORLD.allreduce(1)")
        assert ranks.pull_now("x") == [2, 2]
        with pytest.raises(RanksError, match=r"the ranks are gone: rank 1 was killed by signal 9 \(SIGKILL\)"):
            ranks.run_now("import os\nif comm.rank: os.kill(os.getpid(), 9)\ncomm.Barrier()", show=lambda _: None)
        with pytest.raises(
            RanksError, match=r"the ranks are gone: rank 1 was killed.* `%aiompi restart` starts new ones"
        ):
            ranks.pull_now("x")
        ranks.restart_now()
        with pytest.raises(RanksError, match="NameError"):
            ranks.pull_now("x")
        with pytest.raises(TimeoutError):
            run(ranks, "comm.recv()", [1], limit=0.5)
        assert texts(run(ranks, "print(comm.allreduce(1))")) == ["2", "2"]
        threading.Timer(0.5, ranks.stop_now).start()
        with pytest.raises(RanksError, match=r"the ranks are gone: they have been stopped\. `%aiompi restart`"):
            run(ranks, "comm.recv()")
    finally:
        ranks.stop_now()
