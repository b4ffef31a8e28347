"""Leave to copy, which a rank gives where Yama asks for it: the kernel is told of the agent, and of nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aiompi.core._native import name_tracer
from aiompi.driver.blocking import BlockingDriver
from aiompi.engine import Engine
from aiompi.errors import InternalError
from aiompi.settings import Settings
from aiompi.transport import template
from aiompi.transport.shared_memory import SharedMemory, admission
from support.limits import LIMIT


class Kernel:
    """What a rank tells the kernel, in a mode of Yama."""

    def __init__(self, patch: pytest.MonkeyPatch, directory: Path) -> None:
        self._file = directory / "ptrace_scope"
        self.named: list[int] = []
        patch.setattr(admission, "SCOPE", str(self._file))
        patch.setattr(admission, "name_tracer", self.named.append)
        self.set("1\n")

    def set(self, mode: str) -> None:
        self._file.write_text(mode)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    return Kernel(monkeypatch, tmp_path_factory.mktemp("kernel"))


def test_an_agent_is_named_that_is_an_ancestor(kernel: Kernel) -> None:
    assert admission.admit(os.getppid())
    assert kernel.named == [os.getppid()]


@pytest.mark.parametrize("mode", ["0\n", "2\n", "3\n", "", "one\n"])
def test_nobody_is_named_in_other_modes(kernel: Kernel, mode: str) -> None:
    kernel.set(mode)
    assert not admission.admit(os.getppid())
    assert kernel.named == []


def test_nobody_is_named_without_yama(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "SCOPE", "/proc/sys/kernel/yama/none")
    assert not admission.admit(os.getppid())
    assert kernel.named == []


def test_no_process_is_named_that_is_no_ancestor(kernel: Kernel) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        for process in (child.pid, os.getpid(), 0, 2**22 + 1):
            assert not admission.admit(process)
        child.communicate()
    assert kernel.named == []


def test_ancestors_are_found_whatever_processes_are_called() -> None:
    name = Path("/proc/self/comm")
    before = name.read_text()
    try:
        name.write_text("x) S 1 (y")
        assert next(admission._ancestors()) == os.getppid()
    finally:
        name.write_text(before)


def test_what_the_kernel_refuses_is_no_error(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: int) -> None:
        raise PermissionError

    monkeypatch.setattr(admission, "name_tracer", refuse)
    assert not admission.admit(os.getppid())
    admission.withdraw()


def test_all_processes_are_never_named() -> None:
    for anyone in (-1, -2, -(2**31)):
        with pytest.raises(InternalError, match="a tracer is one process"):
            name_tracer(anyone)


def test_the_kernel_gets_the_number(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The real call: with Yama the naming, and without it the refusal, of a process that there is."""
    trace = tmp_path_factory.mktemp("strace") / "trace"
    call = "import os\nfrom aiompi.core._native import name_tracer\nprint(os.getppid())\n"
    call += "for pid in (os.getppid(), 0):\n try: name_tracer(pid)\n except OSError: pass\n"
    command = ["strace", "-f", "-e", "trace=prctl", "-o", str(trace), sys.executable, "-c", call]
    try:
        traced = subprocess.run(command, check=True, timeout=LIMIT, capture_output=True, text=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("strace is not installed, or may trace nothing")
    assert re.findall(r"prctl\(PR_SET_PTRACER, (\d+)", trace.read_text()) == [traced.stdout.strip(), "0"]


def rank(kernel: Kernel, agent: int, **settings: bool) -> SharedMemory:
    engine = Engine(0, 2, Settings(**settings), BlockingDriver())  # type: ignore[arg-type]
    return SharedMemory(engine, template.Site(agent=agent))


def test_a_rank_names_its_agent_before_others_know_it_and_nobody_after_its_end(kernel: Kernel) -> None:
    transport = rank(kernel, os.getppid())
    assert kernel.named == []
    transport.address()
    assert kernel.named == [os.getppid()]
    transport.close()
    assert kernel.named == [os.getppid(), 0]


@pytest.mark.parametrize("setting", ["single_copy", "pickle"])
def test_a_rank_names_nobody_that_does_not_copy_or_takes_only_data(kernel: Kernel, setting: str) -> None:
    transport = rank(kernel, os.getppid(), **{setting: False})
    transport.address()
    transport.close()
    assert kernel.named == []
