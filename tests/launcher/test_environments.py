"""Machines and sandboxes that lack something: the job runs, or one line says what is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import which

import pytest

from support.jobs import LAUNCHER, Site

PROGRAM = "from aiompi import MPI\nprint(MPI.COMM_WORLD.allreduce(1), flush=True)\n"
#: denies calls in every process of Python that finds it, as a filter of system calls does
DENIAL = """
import errno, fcntl, os, socket
def denied(*args, **options):
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
for name in os.environ["DENIED"].split():
    module, _, function = name.partition(".")
    setattr({"fcntl": fcntl, "os": os, "socket": socket}[module], function, denied)
"""


def denying(site: Site, *names: str) -> dict[str, str]:
    """Return variables by which processes are denied these calls."""
    place = site.directory / "denial"
    place.mkdir()
    (place / "sitecustomize.py").write_text(DENIAL)
    return {"DENIED": " ".join(names), "PYTHONPATH": f"{place}{os.pathsep}{site.environ['PYTHONPATH']}"}


@pytest.mark.parametrize("name", ["os.sched_getaffinity", "os.sched_setaffinity"])
def test_no_affinity(site: Site, name: str) -> None:
    environ = denying(site, name)
    assert site.ok(2, PROGRAM, env=environ).lines == ["2", "2"]
    result = site.launch("-n", "2", "--bind-to", "core", site.program(PROGRAM), env=environ).finish()
    said = "--bind-to core: it cannot be bound to CPUs: Operation not permitted"
    assert (result.code, result.err) == (126, f"aiompi-launch: rank 0 cannot be started: {said}\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "fcntl.flock",
            "cannot be locked (flock: Operation not permitted): set XDG_RUNTIME_DIR to another directory\n",
        ),
        ("socket.socketpair", "as a sandbox has to allow (socketpair): Operation not permitted\n"),
    ],
)
def test_calls_that_are_denied(site: Site, name: str, said: str) -> None:
    result = site.run(2, PROGRAM, env=denying(site, name))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("aiompi-launch: ")
    assert result.err.endswith(said)
    assert result.err.count("\n") == 1


def in_namespaces(site: Site, options: str, prepare: str, *words: str) -> tuple[int, str, str]:
    """Run a launcher in new namespaces, in which a script has prepared something."""
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    result = site.start(
        "unshare", *options.split(), "sh", "-c", f'{prepare} && exec "$@"', "sh", *LAUNCHER, *words
    ).finish()
    return result.code, result.out, result.err


@pytest.mark.parametrize("prefork", [(), ("--no-prefork",)])
def test_no_proc(site: Site, prefork: tuple[str, ...]) -> None:
    app = site.program(PROGRAM)
    done = in_namespaces(site, "-m", "mount -t tmpfs none /proc", *prefork, "-n", "2", app)
    assert done == (0, "2\n2\n", "")


@pytest.mark.skipif(which("ip") is None, reason="apt install iproute2")
def test_ipv6_alone(site: Site) -> None:
    app = site.program("import os\nos.environ['AIOMPI_TRANSPORTS'] = 'tcp'\n" + PROGRAM)
    done = in_namespaces(site, "-n", "ip link set lo up && ip addr del 127.0.0.1/8 dev lo", "-n", "2", app)
    assert done == (0, "2\n2\n", "")


@pytest.mark.parametrize(
    ("size", "said"),
    [("300k", "the files of --preload cannot be stored"), ("1200k", "the files for it cannot be stored in")],
    ids=["of the launcher", "of a host"],
)
def test_a_disk_that_is_full(site: Site, size: str, said: str) -> None:
    """What the launcher or the agent of a host cannot store is said in a line."""
    (site.directory / "large").write_bytes(os.urandom(2**20))
    full = site.base / "full"
    words = ("--starter", "local", "--preload", "large", "--hosts", "a,b", "env", "true")
    prepare = f"mkdir {full} && mount -t tmpfs -o size={size} none {full} && export XDG_RUNTIME_DIR={full}"
    code, out, err = in_namespaces(site, "-m", prepare, *words)
    full.rmdir()
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert said in err
    assert str(full) in err
    assert err.endswith("No space left on device\n")


def test_a_umask_that_denies_everything(site: Site) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user needs root")
    place = Path(site.base, "user")
    place.mkdir(mode=0o700)
    os.chown(place, 65534, 65534)
    Path(site.base).chmod(0o755)
    code = (
        "import os, sys\nfrom aiompi_launcher.start.directory import RunDirectory\nos.setuid(65534)\nos.umask(0o777)\n"
        "try:\n    RunDirectory({'XDG_RUNTIME_DIR': sys.argv[1]})\nexcept OSError as error:\n    print(error)\n"
    )
    result = site.start(sys.executable, "-c", code, str(place)).finish()
    left = os.listdir(place)
    place.rmdir()
    assert result.out == f"the umask denies this user its own files, as in {place}: set another one (umask 077)\n", (
        result
    )
    assert left == []
