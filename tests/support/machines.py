"""Three machines out of Linux namespaces, with sshd and Slurm, for tests of jobs on several hosts. They need root.

A `Machine` has a hostname, process ids, an address, `/tmp`, `/run`, `/dev/shm`, `/etc/hosts` and `/root/.ssh` of its
own. Its other files, the Python environment among them, are those of this machine, as if they came by NFS. All machines
are connected to one switch, and to nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from .jobs import ROOTS
from .limits import LIMIT

SIZE: Final = 3
#: program -> the Debian package that has it
PROGRAMS: Final = {"ip": "iproute2", "sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
SLURM: Final = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge"}
PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"

_WITH_TESTS: Final = ("setpriv", "--pdeathsig", "KILL")  # the process ends with that of the tests
_ISOLATED: Final = "/run /var/log /var/lib/slurm /var/spool /root/.ssh /dev/shm /tmp /etc/slurm /etc/munge"
_INIT: Final = """
set -e
exec 2>&1
hostname {name}
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
touch /mnt/hosts && printf '{hosts}' > /mnt/hosts && mount --bind /mnt/hosts /etc/hosts
[ ! -e /root/.bashrc ] || mount --bind /dev/null /root/.bashrc  # bash reads it if sshd starts it
number=0
for shared in {shared}; do  # hidden by the new /tmp otherwise
    number=$((number + 1)) && mkdir /mnt/$number && mount --bind $shared /mnt/$number
done
mkdir -p -m 700 /root/.ssh
if [ -e /root/.bashrc ]; then mount --bind /dev/null /root/.bashrc; fi  # what a login starts is left behind otherwise
for place in {isolated}; do [ -d $place ] || continue; mount -t tmpfs -o mode=755 tmpfs $place; done
chmod 1777 /tmp /dev/shm && chmod 700 /root/.ssh
number=0
for shared in {shared}; do number=$((number + 1)) && mkdir -p $shared && mount --bind /mnt/$number $shared; done
mkdir -p /run/sshd /run/munge /var/log/munge /var/lib/slurm /var/spool/slurmctld /var/spool/slurmd
ip link set lo up
echo ready
exec sleep infinity
"""
#: how processes of daemons call themselves, from OpenSSH 9.8 on with a program for each session
_OF_DAEMONS: Final = ("sshd:", "sshd -", "sshd-session:", "sshd-auth:", "slurmstepd:")
#: Slurm opens this name, which Debian has in libpmix-dev only
_LINK_PMIX: Final = """
library=$(echo /usr/lib/*/pmix2/lib)
[ -d $library ] && [ ! -e $library/libpmix.so ] || exit 0
mkdir /mnt/upper /mnt/work
mount -t overlay -o lowerdir=$library,upperdir=/mnt/upper,workdir=/mnt/work overlay $library
ln -s libpmix.so.2 $library/libpmix.so
"""
_SLURM_CONF: Final = """
ClusterName=namespaces
SlurmctldHost=node1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
MpiParams=ports=20000-20999
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
SchedulerType=sched/builtin
SlurmdTimeout=20
KillWait=3
MessageTimeout=30
NodeName=node[1-{size}] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def lacking(programs: Mapping[str, str] = PROGRAMS) -> str:
    """Return why machines with these programs cannot be made here, empty if they can."""
    if os.geteuid() != 0:
        return "machines out of namespaces need root"
    missing = {package for program, package in programs.items() if shutil.which(program, path=PATH) is None}
    if missing:
        return f"apt install {' '.join(sorted(missing))}"
    return "" if _allowed() else "namespaces are not allowed here"


@functools.cache
def _allowed() -> bool:
    tried = subprocess.run(["unshare", "-m", "-u", "-n", "-p", "-i", "-f", "true"], capture_output=True, check=False)
    return tried.returncode == 0


class Machine:
    """One machine.

    Attributes:
        number: 1 for the first.
        name: its hostname.
        address: by which the others reach it.
        pid: its first process, as seen from outside.
    """

    def __init__(self, number: int, shared: Iterable[Path], switch: int) -> None:
        self.number = number
        self.name = _name(number)
        self.address = _address(number)
        names = "127.0.0.1 localhost\\n" + "".join(f"{_address(n)} {_name(n)}\\n" for n in range(1, SIZE + 1))
        hidden = " ".join(str(path) for path in shared if path.is_relative_to("/tmp"))
        script = _INIT.format(name=self.name, hosts=names, shared=hidden, isolated=_ISOLATED)
        self._init = subprocess.Popen(
            [*_WITH_TESTS, "unshare", "-m", "-u", "-n", "-p", "-i", "-f", "--kill-child", "sh", "-c", script],
            env={"PATH": PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it complains when it is killed
            text=True,
        )
        assert self._init.stdout is not None
        with self._init.stdout as out:
            said = out.readline()
        assert said == "ready\n", said
        pid = self._init.pid
        self.pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        self._namespace = os.readlink(f"/proc/{self.pid}/ns/pid")
        _ip(switch, f"link add port{number} type veth peer name eth0 netns {self.pid}")
        _ip(switch, f"link set port{number} master switch up")
        _ip(self.pid, f"addr add {self.address}/24 dev eth0")
        self.mend()
        self._daemons: set[int] = set(self._pids())

    def popen(self, *argv: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        """Start a process on this machine, in a process group of its own, which `end` ends.

        Args:
            argv: program and arguments.
            env: variables besides PATH, HOME and PYTHONPATH.
            options: of `subprocess.Popen`; both outputs are pipes by default. `cwd` is a directory of the machine.
        """
        enter = ["nsenter", "-t", str(self.pid), "-m", "-u", "-n", "-p", "-i", "-r", "-W", options.pop("cwd", "/")]
        variables = {"PATH": PATH, "HOME": "/root", "PYTHONPATH": os.pathsep.join(ROOTS), "OPENBLAS_NUM_THREADS": "1"}
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*enter, *argv], env=variables | dict(env or {}), text=True, start_new_session=True, **(pipes | options)
        )

    def run(self, *argv: str, limit: float = LIMIT, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a process on this machine to its end."""
        return finish(self.popen(*argv, **options), limit)

    def python(self, *argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run Python on this machine to its end."""
        return self.run(sys.executable, *argv, **options)

    def cut(self) -> None:
        """Pull the cable out."""
        _ip(self.pid, "link set eth0 down")

    def mend(self) -> None:
        """Put the cable in again."""
        _ip(self.pid, "link set eth0 up")

    def kill(self) -> None:
        """Switch the machine off, with all its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._init.wait(LIMIT)

    @property
    def alive(self) -> bool:
        return self._init.poll() is None

    def path(self, name: str) -> Path:
        """Return the path by which the tests find a file of this machine, such as /tmp."""
        return Path(f"/proc/{self.pid}/root{name}")

    def daemon(self, *argv: str) -> None:
        """Start a daemon; its processes do not count as left behind."""
        done = self.run(*argv)
        assert done.returncode == 0, done
        self._daemons.update(self._pids())

    def processes(self) -> dict[int, str]:
        """Return what runs on the machine besides daemons: pid as seen from outside -> command line."""
        found = {}
        for pid in self._pids() - self._daemons:
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if command and not command.startswith(_OF_DAEMONS):
                    found[pid] = command
        return found

    def files(self) -> list[str]:
        """Return the names in /tmp, besides those of files that all machines share, and in /dev/shm."""
        names = [os.listdir(self.path(place)) for place in ("/tmp", "/dev/shm")]
        return sorted(name for name in names[0] + names[1] if not os.path.exists(f"/tmp/{name}"))

    def settle(self, limit: float = LIMIT) -> None:
        """Wait until no process and no file is left.

        Raises:
            AssertionError: something is.
        """
        deadline = time.monotonic() + limit
        while left := [*self.processes().items(), *self.files()]:
            assert time.monotonic() < deadline, f"left on {self.name}: {left}"
            time.sleep(0.05)

    def clean(self) -> None:
        """End the processes that a failed test has left."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _pids(self) -> set[int]:
        found = set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/ns/pid") == self._namespace:
                    found.add(int(name))
        return found


class Machines(list[Machine]):
    """The machines of one test, and their switch.

    Args:
        shared: directories below /tmp that all of them see.
    """

    def __init__(self, shared: Iterable[Path]) -> None:
        super().__init__()
        self._switch = subprocess.Popen(
            [*_WITH_TESTS, "unshare", "-n", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE
        )
        assert self._switch.stdout is not None
        self._switch.stdout.readline()
        for command in ("link set lo up", "link add switch type bridge", "link set switch up"):
            _ip(self._switch.pid, command)
        self._places = [*shared, Path(sys.prefix), Path(sys.base_prefix), *map(Path, ROOTS)]

    def start(self) -> None:
        for number in range(1, SIZE + 1):
            self.append(Machine(number, self._places, self._switch.pid))

    def close(self) -> None:
        for machine in self:
            machine.kill()
        with self._switch:
            self._switch.kill()

    def start_sshd(self, place: Path) -> None:
        """Let root log in from each machine to each other without a password; `place` gets the keys."""
        for name in ("user", "host"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
            subprocess.run(command, check=True, capture_output=True)
        user, host = ((place / name).with_suffix(".pub").read_text() for name in ("user", "host"))
        for machine in self:
            home = machine.path("/root/.ssh")
            _write(home / "id_ed25519", (place / "user").read_text())
            _write(home / "authorized_keys", user)
            _write(home / "known_hosts", "".join(f"{each.name},{each.address} {host}" for each in self))
            key = machine.path("/run/sshd.key")
            _write(key, (place / "host").read_text())
            options = ("UsePAM=no", "MaxStartups=100", "StrictModes=no", "PidFile=/run/sshd.pid")
            settings = [word for option in options for word in ("-o", option)]
            machine.daemon(
                "/usr/sbin/sshd", "-f", "/dev/null", "-h", "/run/sshd.key", "-E", "/var/log/sshd.log", *settings
            )

    def start_slurm(self) -> None:
        """Start Slurm, whose controller is on the first machine."""
        key = os.urandom(128)
        for machine in self:
            machine.run("sh", "-c", _LINK_PMIX)
            _write(machine.path("/etc/slurm/slurm.conf"), _SLURM_CONF.format(size=len(self)))
            _write(machine.path("/etc/slurm/cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
            machine.path("/etc/munge/munge.key").write_bytes(key)
            machine.run("chown", "-R", "munge:munge", "/etc/munge", "/run/munge", "/var/log/munge")
            machine.run("chmod", "600", "/etc/munge/munge.key")
            machine.daemon("munged", "--force", "--seed-file=/run/munge/seed")
            if machine is self[0]:
                machine.daemon("slurmctld")
            machine.daemon("slurmd")
        until(lambda: self[0].run("srun", f"-N{len(self)}", "true").returncode == 0)


@contextlib.contextmanager
def machines(shared: Iterable[Path]) -> Iterator[Machines]:
    """Context manager with new machines."""
    made = Machines(shared)
    try:
        made.start()
        yield made
    finally:
        made.close()


def end(process: subprocess.Popen[str]) -> None:
    """Kill what `Machine.popen` has started, and its children in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def finish(process: subprocess.Popen[str], limit: float = LIMIT) -> subprocess.CompletedProcess[str]:
    """Wait for the end of what `Machine.popen` has started."""
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        raise AssertionError(f"{process.args!r} hangs; it has printed {out!r}, {err!r}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def until(true: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + limit
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _name(number: int) -> str:
    return f"node{number}"


def _address(number: int) -> str:
    return f"10.99.0.{number}"


def _ip(pid: int, command: str) -> None:
    """Run `ip` in the network namespace of a process."""
    subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *command.split()], check=True, env={"PATH": PATH})


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)
