"""Command lines and what they mean."""

from __future__ import annotations

import sys

import pytest

import aiompi
from aiompi import core
from aiompi_launcher.cli import parse
from aiompi_launcher.spec import RunSpec, Section, ServerAddress, ServerSpec, ServeSpec
from support.cases import cases


def run(line: str) -> RunSpec:
    spec = parse(line.split(), "aiompi-launch")
    assert isinstance(spec, RunSpec)
    return spec


def refuse(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        parse(line.split(), "aiompi-launch")
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_options_of_the_program_are_its_own():
    spec = run("-n 4 app.py -n 5 --timeout 3 --help -- : ".removesuffix(" : "))
    assert spec.programs == (Section(argv=("app.py", "-n", "5", "--timeout", "3", "--help", "--"), size=4),)
    assert spec.timeout is None


def test_module():
    assert run("-n 2 -m pkg.mod -n 5 -m x").programs[0].argv == (sys.executable, "-m", "pkg.mod", "-n", "5", "-m", "x")


def test_code():
    spec = parse(["--mpi4py", "-n", "2", "-c", "print(1)", "-c", "-n", ":", "-c", "2"], "aiompi-launch")
    assert isinstance(spec, RunSpec)
    assert [(program.argv, program.size) for program in spec.programs] == [
        ((sys.executable, "-c", "print(1)", "-c", "-n"), 2),
        ((sys.executable, "-c", "2"), 1),
    ]


@cases("words", ["-p", "-ho", "-hos", "-po -p=3 -n4 -nX --tag -m -c -- -client", "-5 - --=x -=3 -x"])
@cases(
    ("program", "expected"),
    [
        ("app.py", ["app.py"]),
        ("python -m pytest", ["python", "-m", "pytest"]),
        ("-m pytest", [sys.executable, "-m", "pytest"]),
        ("-c code", [sys.executable, "-c", "code"]),
        ("-- -strange", ["-strange"]),
    ],
)
@cases("options", ["-n 2", "--mpi4py", "-n2 --timeout=3", "-n 1 first : -n 2"])
def test_nothing_behind_the_name_of_a_program_is_looked_at(options: str, program: str, expected: list[str], words: str):
    assert run(f"{options} {program} {words}").programs[-1].argv == (*expected, *words.split())


@pytest.mark.parametrize("word", ["-p", "-po", "--tag", "--time=3", "-clien", "-mpkg", "--verb"])
def test_no_option_is_abbreviated(word: str, capsys: pytest.CaptureFixture[str]):
    assert f"unrecognized arguments: {word}" in refuse(f"{word} app.py", capsys)


def test_end_of_options():
    assert run("-n 2 -- -strange-name").programs[0].argv == ("-strange-name",)


def test_defaults():
    assert run("prog") == RunSpec(programs=(Section(argv=("prog",)),))


def test_several_programs_with_options_of_their_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EXPORTED", "e")
    spec = run("--tag-output -n 1 --env A=1 a.py x : -np 3 -wdir /tmp -x EXPORTED -x B=2=2 b : -m c")
    assert spec.tag_output
    assert spec.size == 5
    assert spec.programs == (
        Section(argv=("a.py", "x"), environ={"A": "1"}),
        Section(argv=("b",), size=3, directory="/tmp", environ={"EXPORTED": "e", "B": "2=2"}),
        Section(argv=(sys.executable, "-m", "c")),
    )
    assert [program.argv[0] for program in spec.processes()][:3] == ["a.py", "b", "b"]


def test_all_options_of_a_job():
    spec = run("--tag-output --output-dir out --stdin none --timeout 1.5 -v x")
    assert (spec.output_dir, spec.stdin_rank, spec.timeout, spec.verbose) == ("out", None, 1.5, True)


def test_serve():
    assert parse(["--serve", "3"], "") == ServeSpec(size=3)
    line = "--serve 3 --bind 0.0.0.0 --port 5000 --timeout 9 -v"
    assert parse(line.split(), "") == ServeSpec(size=3, bind="0.0.0.0", port=5000, timeout=9, verbose=True)


@pytest.mark.spec("I2.2.1-1")
@pytest.mark.parametrize("dashes", ["-", "--"])
def test_server(dashes: str):
    line = f"{dashes}server 2 {dashes}port 5000 {dashes}auth 3,1-0"
    assert parse(line.split(), "impirun") == ServerSpec(clients=2, port=5000, auth=(3, 1, 0))


@pytest.mark.spec("I2.2.2-1")
@pytest.mark.parametrize("dashes", ["-", "--"])
def test_client(dashes: str):
    spec = run(f"{dashes}client 1 host.example:5000 -np 4 prog -server 3")
    assert spec.server == ServerAddress(client_rank=1, host="host.example", port=5000)
    assert spec.programs == (Section(argv=("prog", "-server", "3"), size=4),)


def test_client_of_an_ipv6_server():
    assert run("--client 0 [::1]:5000 prog").server == ServerAddress(client_rank=0, host="::1", port=5000)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "no program to run"),
        ("-n 4", "no program to run"),
        ("-n 4 -m", "no program to run"),
        ("-n 4 -c", "no program to run"),
        ("a : : b", "no program to run"),
        ("-n 0 a", "0 is less than 1"),
        ("-n x a", "'x' is not a whole number"),
        ("--nosuch a", "unrecognized arguments"),
        ("a : --tag-output b", "unrecognized arguments"),
        ("--timeout -1 a", "not a positive number"),
        ("--timeout soon a", "not a positive number"),
        ("--timeout nan a", "not a positive number"),
        ("--env A a", "not of the form NAME=VALUE"),
        ("-x =3 a", "not of the form NAME=VALUE"),
        ("-x NO_SUCH_VARIABLE a", "NO_SUCH_VARIABLE is not set here"),
        ("--stdin 2 -n 2 a", "only ranks 0 to 1"),
        ("--stdin -1 a", "'-1' is not a whole number"),
        ("--port 1 a", "--port is for --serve and --server"),
        ("--bind ::1 a", "--bind is for --serve, --server and --client"),
        ("--client 0 h:1 --port 1 a", "--port is for --serve and --server"),
        ("--hosts-per-client 2 a", "--hosts-per-client is for --client"),
        ("--client 0 h:1 --hosts-per-client 0 a", "less than 1"),
        ("--client 0 h:1 --hosts-per-client 3 -n 1 a : -n 1 b", "there are only 2 ranks"),
        ("--auth 1 a", "--auth is for --server"),
        ("--serve 2 a", "takes no command"),
        ("--serve 2 -n 2", "--serve starts no program: it takes no -n"),
        ("--serve 2 --wdir /", "takes no --wdir"),
        ("--serve 2 -x A=1", "takes no -x and --env"),
        ("--serve 2 --env A=1", "takes no -x and --env"),
        ("--serve 2 --mpi4py", "takes no --mpi4py"),
        ("--server 2 --tag-output", "--server starts no program: it takes no --tag-output"),
        ("--server 2 --output-dir d", "takes no --output-dir"),
        ("--server 2 --stdin none", "takes no --stdin"),
        ("--start-timeout 1 a", "--start-timeout is for --serve, --server and --hosts"),
        ("--hosts a --hostfile b c", "--hosts and --hostfile exclude each other"),
        ("--client 0 h:1 --hosts a b", "--client and --hosts exclude each other"),
        ("--hosts a,-x b", "cannot be the name of a host"),
        ("--hostfile /nowhere a", "--hostfile /nowhere: No such file or directory"),
        ("--starter rsh a", "begins with none of ssh, srun, local"),
        ("--bind-to moon a", "invalid choice"),
        ("--serve 2 --hosts a", "takes no --hosts"),
        ("--serve 2 --start-timeout 0", "not a positive number of seconds"),
        ("--serve 2 --server 2", "exclude each other"),
        ("--serve 2 --port 65536", "not in 0 to 65535"),
        ("--client x h:1 a", "the rank must be a number"),
        ("--client 0 h a", "expected HOST:PORT"),
        ("--client 0 h:0 a", "expected HOST:PORT"),
        ("--client 0 :1 a", "expected HOST:PORT"),
        ("--client 0 h:99999 a", "expected HOST:PORT"),
    ],
)
def test_refused(line: str, message: str, capsys: pytest.CaptureFixture[str]):
    assert message in refuse(line, capsys)


@pytest.mark.spec("I2.2.1-8")
@pytest.mark.parametrize("line", ["--server 0", "--server 33", "--server two", "--server 1 --port x"])
def test_refused_servers(line: str, capsys: pytest.CaptureFixture[str]):
    assert "usage:" in refuse(line, capsys)


def test_hosts_of_a_client():
    spec = run("--client 1 h:9 --hosts-per-client 3 --bind 10.0.0.1,10.0.0.2 -n 3 a")
    assert spec.server == ServerAddress(client_rank=1, host="h", port=9, hosts=3, bind=("10.0.0.1", "10.0.0.2"))


@pytest.mark.spec("I2.3.3-13")
@pytest.mark.parametrize("preference", ["", ",", "x", "1-", "1;0"])
def test_refused_preferences(preference: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(["--server", "1", "--auth", preference], "impirun")
    assert "usage:" in capsys.readouterr().err


def test_help_fits_a_terminal(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        parse(["--help"], "aiompi-launch")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "--tag-output" in text
    assert max(map(len, text.splitlines())) <= 120


def test_version_names_the_form(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        parse(["--version"], "aiompi-launch")
    assert caught.value.code == 0
    why = f": {core.why_pure}" if core.why_pure else ""
    assert capsys.readouterr().out == f"aiompi {aiompi.__version__}, {core.form} core{why}\n"
