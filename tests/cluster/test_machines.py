"""The machines themselves: what tests of jobs on several hosts rely on."""

from __future__ import annotations

import signal
from pathlib import Path

from support.machines import Machines, end, until


def test_each_machine_has_its_own_names_processes_and_files(machines: Machines, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    for machine in machines:
        script = f"import socket; print(socket.gethostname()); open({str(shared)!r}, 'a').write('x')"
        done = machine.python("-c", script)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"{machine.name}\n"
    assert shared.read_text() == "xxx"


def test_a_machine_logs_in_to_another(machines: Machines) -> None:
    for target in (machines[1].name, machines[2].address):
        done = machines[0].run("ssh", "-o", "BatchMode=yes", target, "hostname")
        assert done.returncode == 0, done
        assert done.stdout.startswith("node")


def test_slurm_runs_a_step_on_all_machines(slurm: Machines) -> None:
    done = slurm[0].run("srun", "-N3", "-n4", "hostname")
    assert sorted(set(done.stdout.split())) == ["node1", "node2", "node3"], done


def test_what_is_left_is_found(machines: Machines) -> None:
    left = machines[1].popen("sh", "-c", "touch /tmp/left; exec sleep 60")
    until(lambda: list(machines[1].processes().values()) == ["sleep 60 "])
    assert machines[1].files() == ["left"]
    assert not machines[0].processes()
    end(left)
    assert left.wait() == -signal.SIGKILL
    left.communicate()
    machines[1].run("rm", "/tmp/left")


def test_a_cut_cable_and_a_killed_machine(doomed: Machines) -> None:
    one, two, three = doomed
    reach = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1")
    two.cut()
    assert one.run(*reach, two.name, "true").returncode == 255
    two.mend()
    until(lambda: one.run(*reach, two.name, "true").returncode == 0)
    three.kill()
    assert not three.alive
    assert one.run(*reach, three.name, "true").returncode == 255
