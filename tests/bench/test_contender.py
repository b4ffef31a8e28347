"""Conversations with contenders, also with those that misbehave."""

from __future__ import annotations

import os
import sys

import pytest

from aiompi import core
from aiompi.bench import contender as contender_module
from aiompi.bench.contender import BenchError, Contender, Conversation, apart, conversations, cores, forms

ECHO = "import sys, os\nfor line in sys.stdin: print(f'[{line.strip()}, {os.getpid()}]', flush=True)"

HISTORIAN = """
import json, sys
heard = []
for line in sys.stdin:
    heard.append(json.loads(line))
    print(json.dumps(heard), flush=True)
"""


DEAF = """
import sys, signal
for line in sys.stdin:
    if line == "null\\n":
        sys.exit(5)
signal.pause()
"""


def contender(program: str) -> Contender:
    return Contender("test", (sys.executable, "-c", program))


def gone(pid: int) -> bool:
    """Return True if a process has ended and has been waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_turns() -> None:
    with Conversation(contender(ECHO)) as conversation:
        first, pid = conversation.ask({"work": "a"})
        second, same = conversation.ask({"work": "b"})
        assert (first, second) == ({"work": "a"}, {"work": "b"})
        assert pid == same
    assert gone(pid)


def test_turns_may_overlap() -> None:
    with conversations(contender(ECHO), contender(ECHO)) as both:
        for number, conversation in enumerate(both):
            conversation.begin({"work": number})
        assert [conversation.finish()[0]["work"] for conversation in both] == [0, 1]


def test_each_process_gets_a_core() -> None:
    with conversations(contender(HISTORIAN)) as (conversation,):
        first, _ = conversation.ask({"work": "a"})
    assert first == {"work": "bind", "cores": cores()[:2]}


@pytest.mark.parametrize("processes", [2, 4, 6, 8, 12, 64])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_no_pair_shares_a_core(count: int, processes: int) -> None:
    there = list(range(7, 7 + count))
    placed = apart(there, processes)
    half = processes // 2
    assert all((one == other) == (count == 1) for one, other in zip(placed[:half], placed[half:], strict=True))
    shares = [placed.count(core) for core in there]
    assert max(shares) - min(shares) <= 1


def test_the_death_of_a_contender_is_told() -> None:
    with pytest.raises(BenchError, match="test: ended with exit code 7"), Conversation(contender("exit(7)")) as dead:
        dead.ask({"work": "a"})


def test_an_output_that_is_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contender_module, "_GRACE", 0.1)
    silent = Conversation(contender("import os, signal; os.close(1); signal.pause()"))
    with pytest.raises(BenchError, match="test: closed its output instead of answering"), silent:
        silent.ask({"work": "a"})


def test_what_is_no_answer_is_told() -> None:
    with (
        pytest.raises(BenchError, match="test: answered 'warning: slow'"),
        Conversation(contender("input(); print('warning: slow', flush=True); input()")) as talkative,
    ):
        talkative.ask({"work": "a"})


def test_a_work_for_a_dead_contender() -> None:
    with Conversation(contender("exit(7)")) as dead:
        dead._process.wait()
        with pytest.raises(BenchError, match="test: ended with exit code 7"):
            dead.begin({"work": "a"})


def test_silence_is_told_and_ended() -> None:
    silent = Conversation(contender("import signal; signal.pause()"))
    with pytest.raises(BenchError, match=r"test: no answer within 0\.01 s"), silent:
        silent.ask({"work": "a"}, patience=0.01)
    assert gone(silent._process.pid)


def test_a_contender_without_end_of_input_is_told_to_end() -> None:
    """The launcher of Open MPI does not pass the end of standard input to the ranks."""
    conversation = Conversation(contender(DEAF))
    conversation.close(30.0)
    assert conversation._process.returncode == 5


def test_an_interrupted_command_lets_contenders_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contender_module, "_SHORT_GRACE", 30.0)
    conversation = Conversation(contender(DEAF))
    with pytest.raises(KeyboardInterrupt), conversation:
        raise KeyboardInterrupt
    assert conversation._process.returncode == 5


def test_compiled_modules_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    program = "import sys; input(); print(int(sys.dont_write_bytecode))"
    with Conversation(contender(program)) as conversation:
        assert conversation.ask({}) == 0


def test_each_installed_form_has_its_variables() -> None:
    program = "import aiompi.core; input(); print(int(aiompi.core.form == 'native'))"
    assert core.form in forms()
    for form, variables in forms().items():
        command = ("env", "-C", "/", *variables, sys.executable, "-c", program)
        with Conversation(Contender(form, command)) as conversation:
            assert conversation.ask({}) == (form == "native")
