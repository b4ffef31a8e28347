"""The README is true: its programs run, and its tables agree with the code."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest
from jobs import Result, Site

from aiompi import settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# <!-- file: NAME --> and then a block of Python
PROGRAMS = dict(re.findall(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
RING = [f"rank {rank} got {(rank - 1) % 4}, the sum is 6" for rank in range(4)]


def ended_well(result: Result) -> list[str]:
    assert (result.code, result.err) == (0, "")
    return result.lines


def rows(heading: str) -> list[list[str]]:
    """Cells of the table in a section, without its head."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_python_block_is_a_program() -> None:
    assert README.count("```python") == len(PROGRAMS) == 7


@pytest.mark.parametrize("name", ["ring_async.py", "ring_blocking.py"])
def test_launched_program(site: Site, name: str) -> None:
    path = site.program(PROGRAMS[name], name)
    assert ended_well(site.launch("-n", "4", path).finish()) == RING
    assert ended_well(site.start(sys.executable, path).finish()) == ["rank 0 got 0, the sum is 0"]


def test_service(site: Site) -> None:
    path = site.program(PROGRAMS["ring_service.py"])
    launcher = site.launch("--serve", "4")
    launcher.expect("\n", 2)  # the address, and on standard error the key file
    name, _, value = launcher.err.split()[-1].partition("=")
    assert name == "AIOMPI_KEY_FILE"
    services = [site.start(sys.executable, path, launcher.out.strip(), env={name: value}) for _ in range(4)]
    assert sorted(line for service in services for line in ended_well(service.finish())) == RING
    assert launcher.finish().code == 0


def test_local_world(site: Site) -> None:
    result = site.start(sys.executable, site.program(PROGRAMS["local.py"])).finish()
    assert ended_well(result) == ["nothing yet", "{'numbers': (1, 2, 3)}"]


@pytest.mark.parametrize("size", ["1", "4"])
def test_tasks_for_other_ranks(site: Site, size: str) -> None:
    path = site.program(PROGRAMS["pool.py"], "pool.py")
    assert ended_well(site.launch("-n", size, "-m", "aiompi.futures", path).finish()) == ["24502500"]
    path = site.program(PROGRAMS["pool_async.py"], "pool_async.py")
    assert ended_well(site.launch("-n", size, path).finish()) == ["1024"]


def test_job_that_hangs(site: Site) -> None:
    """The output, except for the times, and of the second report: with a shorter wait than the reader's."""
    (expected,) = re.findall(r"^<!-- output: .*hang.py -->\n```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    job = site.launch("-n", "4", site.program(PROGRAMS["hang.py"], "hang.py"), env={"AIOMPI_DEBUG": "0.5"})
    first, *_, last = expected.splitlines(keepends=True)
    job.expect(last, 2)
    job.signal(signal.SIGTERM)
    printed = first + job.finish().err.split(first)[2][: len(expected) - len(first)]
    assert re.sub(r"\d\.\d s", "5.0 s", printed) == expected


def test_options_of_the_launcher(site: Site) -> None:
    usage = site.launch("--help").finish().out.partition("\nexamples:")[0]
    entries = re.findall(r"^  (-\S.*?)(?:  |$)", usage, re.MULTILINE)
    known = {word for entry in entries for word in re.findall(r"(?:^|, )(-[-\w]+)", entry)}
    cells = " ".join(row[0] for row in rows("The launcher"))
    assert set(re.findall(r"`(-[-\w]+)", cells)) == known


def test_settings() -> None:
    """Names and defaults; a default reads as the variable would."""
    table = {name.strip("`"): default.strip("`") for name, default, _ in rows("Settings")}
    assert list(table) == [f"AIOMPI_{name.upper()}" for name in settings.Settings.__dataclass_fields__]
    assert settings.load(table) == settings.Settings()


def test_every_example_is_listed() -> None:
    listed = re.findall(r"\]\((examples/[^)]+)\)", "".join(row[0] for row in rows("Examples")))
    assert sorted(listed) == sorted(f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/pages/explanation/architecture.md",
        "docs/pages/explanation/message-path.md",
        "docs/pages/howto/mpi4py.md",
        "launcher/aiompi_launcher/conformance/README.md",
    ],
)
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    targets = re.findall(r"\]\(([^)#]+?)\)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (path.parent / target).exists()] == []
