"""The magics in a real kernel of Jupyter, with which a client speaks as a notebook does."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbclient.exceptions import CellExecutionError

from support import kernels


@pytest.fixture(scope="module")
def notebook() -> Iterator[kernels.Notebook]:
    """A notebook with three ranks."""
    with kernels.notebook() as made:
        made.run("%load_ext aiompi.notebook")
        assert made.text("%aiompi start 3") == "<3 ranks of a notebook: waiting for cells>\n"
        yield made


def test_cells(notebook: kernels.Notebook) -> None:
    """Output comes with its rank, rich results are those of the notebook, and variables travel."""
    assert sorted(notebook.text("%%mpi\nprint(await comm.allreduce(1) + comm.rank)").split("\n")) == [
        "", "[0] 3", "[1] 4", "[2] 5",
    ]  # fmt: skip
    notebook.run("words = ['a', 'b', 'c']\n%aiompi push words")
    [label, shown] = notebook.run("%%mpi --ranks 1\nfrom IPython.display import HTML\nHTML(words[comm.rank])")
    assert (label.text, shown.data["text/html"]) == ("[1]\n", "b")
    notebook.run("%%mpi --ranks 0,2\nword = words[comm.rank]")
    assert notebook.text("%aiompi pull word --ranks 0,2\nword") == "['a', 'c']\n"


def test_an_interrupt(notebook: kernels.Notebook) -> None:
    """The button of the notebook interrupts the ranks, which go on; each is shown with the line where it was."""
    kernel = int(notebook.text("import os\nos.getpid()"))
    threading.Timer(1.0, os.kill, (kernel, signal.SIGINT)).start()
    with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
        notebook.run("%%mpi\nif comm.rank == 1:\n    while True: pass\nawait comm.barrier()")
    assert sorted(notebook.text("%%mpi\nprint(await comm.allreduce(1))").split()) == ["3"] * 3 + ["[0]", "[1]", "[2]"]


def test_two_quick_interrupts(notebook: kernels.Notebook, tmp_path: Path) -> None:
    """Both are for the cell that runs; none ends the next one."""
    kernel = int(notebook.text("import os\nos.getpid()"))

    def interrupt(begun: Path, pause: float) -> None:
        while not begun.exists():
            time.sleep(0.01)
        for _ in range(2):
            os.kill(kernel, signal.SIGINT)
            time.sleep(pause)

    for pause in 0.0, 0.002, 0.02:
        begun = tmp_path / f"begun-{pause}"
        thread = threading.Thread(target=interrupt, args=[begun, pause], daemon=True)
        thread.start()
        with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
            notebook.run(f"%%mpi\nopen({str(begun)!r}, 'w').close()\nwhile True: pass")
        thread.join()
        text = notebook.text("%%mpi\nimport time\ntime.sleep(0.1)\nprint(await comm.allreduce(1))")
        assert sorted(text.split()) == ["3"] * 3 + ["[0]", "[1]", "[2]"]


def test_exceptions(notebook: kernels.Notebook) -> None:
    """Ranks with the same exception share its traceback; cells that follow do not run, as `error` in the reply says."""
    with pytest.raises(CellExecutionError):
        notebook.run("%%mpi\nif comm.rank:\n    1 / 0")
    text = kernels.text_of(notebook.client.nb.cells[-1].outputs)
    assert "ranks 1-2:\n" in text
    number = notebook.client.nb.cells[-1].execution_count
    assert f"Cell In[{number}], line 3\n      1 # %%mpi\n      2 if comm.rank:\n----> 3     1 / 0\n" in text
    assert text.count("ZeroDivisionError: division by zero") == 1
    assert "ranks 1-2 of 3 raised an exception" in text


def test_warnings(notebook: kernels.Notebook) -> None:
    """A warning is shown once, with its line, and at the end the other ranks that have warned of the same."""
    text = notebook.text("%%mpi\nimport warnings\nwarnings.warn('odd')\nif comm.rank == 1: warnings.warn('once')")
    cell = f"Cell In[{notebook.client.nb.cells[-1].execution_count}]"
    assert len(re.findall(rf"^\[\d\] {re.escape(cell)}:3: UserWarning: odd$", text, re.MULTILINE)) == 1
    assert f"[1] {cell}:4: UserWarning: once\n[1]   if comm.rank == 1: warnings.warn('once')\n" in text
    assert re.search(rf"^ranks [012][-,] ?[012], too: {re.escape(cell)}:3: UserWarning: odd$", text, re.MULTILINE)


def test_an_exception_for_which_others_wait(notebook: kernels.Notebook) -> None:
    """It is shown while the others go on; an interrupt then shows where they were, and no line of this library."""
    kernel = int(notebook.text("import os\nos.getpid()"))
    threading.Timer(4.0, os.kill, (kernel, signal.SIGINT)).start()
    with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
        notebook.run("%%mpi\nif comm.rank == 1:\n    1 / 0\nawait comm.barrier()")
    text = kernels.text_of(notebook.client.nb.cells[-1].outputs)
    early, told, late = text.partition("ranks 0, 2 still run this cell")
    assert told
    assert "ZeroDivisionError: division by zero" in early
    assert "CancelledError" in late
    assert "run_cell_magic" not in text
    assert [each.traceback for each in notebook.client.nb.cells[-1].outputs if each.output_type == "error"] == [
        ["KeyboardInterrupt"]
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%aiompi", "the following arguments are required: command"),
        ("%aiompi begin", "invalid choice: 'begin'"),
        ("%aiompi start none", "invalid int value: 'none'"),
        ("%aiompi start 0", "a number of ranks from 1 on"),
        ("%aiompi push absent", "the notebook has no variable absent"),
        ("%aiompi pull absent", "rank 0 raised NameError: name 'absent' is not defined"),
        ("%%mpi --ranks x\n1", "'x' are no ranks, such as 0,2-3"),
        ("%%mpi --ranks 3\n1", "there are ranks 0 to 2"),
        ("%%mpi --limit 'x\n1", "No closing quotation"),
    ],
)
def test_wrong_lines(notebook: kernels.Notebook, line: str, said: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(CellExecutionError) as caught:
        notebook.run(line)
    assert said in str(caught.value)
    assert len(kernels.text_of(notebook.client.nb.cells[-1].outputs).splitlines()) == 1


def test_the_end_of_the_kernel(notebook: kernels.Notebook) -> None:
    """Ranks end when the kernel is killed."""
    notebook.run("%%mpi\nimport os\npid = os.getpid()")
    pids = [int(pid) for pid in re.findall(r"\d+", notebook.text("%aiompi pull pid\npid"))]
    assert len(pids) == 3
    kernel = int(notebook.text("import os\nos.getpid()"))
    os.kill(kernel, signal.SIGKILL)
    deadline = time.monotonic() + kernels.LIMIT
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)
