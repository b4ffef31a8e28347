"""The agent whose descendants a rank lets copy, where Yama asks for that: the process that has started it."""

from __future__ import annotations

import sys

import pytest

from aiompi import core
from support.jobs import KEY, Site, in_face

pytestmark = pytest.mark.skipif(core.form == "pure", reason="it has no shared memory")

#: the beginning of a program whose rank finds this mode of Yama, and prints which processes it names
YAMA = """
from aiompi.transport.shared_memory import admission
named = []
admission.SCOPE = {scope!r}
admission.name_tracer = named.append
"""
#: what it prints then: the processes that it has named, and its ancestors with their command lines
TELL = """
def command(pid):
    with open(f"/proc/{pid}/cmdline") as file:
        return file.read().replace(chr(0), " ")
await comm.barrier()
chain = {pid: command(pid) for pid in admission._ancestors()}
text = " ".join(f"{pid}={chain.get(pid, 'no ancestor')}" for pid in named) or "nobody"
sys.stdout.write(text + chr(10))
"""


def program(site: Site, face: str = "native", mode: str = "1\n") -> str:
    scope = site.directory / "ptrace_scope"
    scope.write_text(mode)
    return site.program(YAMA.format(scope=str(scope)) + in_face(face, TELL))


def test_ranks_name_the_launcher_that_has_forked_them(site: Site) -> None:
    job = site.launch("-n", "3", program(site, "blocking"))
    result = job.finish()
    assert (result.code, result.err) == (0, "")
    assert len(result.lines) == 3
    assert all(line.startswith(f"{job.process.pid}=") and "aiompi_launcher" in line for line in result.lines)


def test_ranks_name_the_launcher_behind_other_programs(site: Site) -> None:
    job = site.launch("-n", "2", "sh", "-c", 'sh -c "$0 $1; true"; true', sys.executable, program(site))
    result = job.finish()
    assert (result.code, result.err) == (0, "")
    assert [line.partition("=")[0] for line in result.lines] == [str(job.process.pid)] * 2


def test_ranks_of_other_hosts_name_the_agent_there(site: Site) -> None:
    job = site.launch("--starter", "local", "--hosts", "a:2,b:2", "-n", "4", program(site))
    result = job.finish()
    assert (result.code, result.err) == (0, "")
    agents = [line.partition("=")[0] for line in result.lines]
    assert sorted(map(agents.count, set(agents))) == [2, 2]
    assert str(job.process.pid) not in agents
    assert all("agent" in line for line in result.lines)


def test_ranks_name_nobody_where_that_is_not_needed(site: Site) -> None:
    result = site.launch("-n", "2", program(site, mode="0\n")).finish()
    assert (result.code, result.lines) == (0, ["nobody", "nobody"])


def test_ranks_that_join_by_themselves_name_nobody(site: Site) -> None:
    job, address = site.serve(2)
    scope = site.directory / "ptrace_scope"
    scope.write_text("1\n")
    text = f"""
        import asyncio
        async def run():
            async with aiompi.init({address!r}) as comm:
                await comm.barrier()
                sys.stdout.write(str(named))
        asyncio.run(run())
    """
    path = site.program(
        YAMA.format(scope=str(scope)) + "import sys, aiompi\n" + "\n".join(line[8:] for line in text.splitlines())
    )
    ranks = [site.start(sys.executable, path, env={"AIOMPI_KEY": KEY}) for _ in range(2)]
    assert [rank.finish().out for rank in ranks] == ["[]", "[]"]
    assert job.finish().code == 0
