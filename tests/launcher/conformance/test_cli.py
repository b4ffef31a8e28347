"""aiompi-impi-tester as people and CI run it (IMPI 0.0, section 5.1)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aiompi_launcher.conformance.cli import main
from aiompi_launcher.conformance.command import TemplateError, fill, shown
from aiompi_launcher.conformance.setup import Setup, SetupError
from support.limits import LIMIT

PEER = [sys.executable, "-m", "aiompi_launcher.conformance.cli", "peer", "{client}", "{address}", "-np", "{np}"]


@pytest.mark.spec("I5.1-15", "I5.1-16", "I5.2-4")
def test_a_group_passes(capfd: pytest.CaptureFixture[str]):
    status = main(["run", "--group", "shutdown", "--test", "probe/probe", "--", *PEER])
    out, err = capfd.readouterr()
    assert (status, out.splitlines()[-1].endswith(" 0 fail, 0 indeterminate")) == (0, True)
    assert "PASS          probe/probe" in err


def test_the_launcher_is_found_beside_the_tester(tmp_path: Path):
    """PATH has neither the tester nor the launcher, as when it is started by its path."""
    words = [sys.executable, "-m", "aiompi_launcher.conformance.cli", "run", "--test", "probe/probe"]
    done = subprocess.run(words, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.spec("I5.1-14", "I5.1-17", "I5.1-20")
def test_a_wrong_client_fails(tmp_path: Path):
    output = tmp_path / "results.xml"
    words = ["run", "--test", "collectives/barrier_linear", "--quiet-limit", "2", "--format", "junit"]
    assert main([*words, "--output", str(output), "--", *PEER, "--fault", "barrier-tag"]) == 1
    suite = ElementTree.parse(output).getroot()[0]
    assert suite.get("failures") == "2"  # the barrier of MPI_Finalize is wrong as well
    test, _ = suite.iter("failure")
    assert "I4.10-2" in test.get("message", "")
    expected, actual = (test.text or "").split("actual")[:2]
    assert "00000003 0000006e" in expected  # pk_lsrank, pk_tag
    assert "00000003 0000006f" in actual


@pytest.mark.spec("I5.3-12")
def test_skipped_tests_are_indeterminate(capfd: pytest.CaptureFixture[str]):
    words = ["run", "--test", "flow/pairs_are_independent", "--format", "json", "--iut-procs", "1"]
    assert main([*words, "--", *PEER]) == 3
    found = {test["name"]: test for test in json.loads(capfd.readouterr().out)["tests"]}
    assert found["flow/pairs_are_independent"]["verdict"] == "indeterminate"
    assert "Test skipped" in found["flow/pairs_are_independent"]["reason"]


@pytest.mark.spec("I5.1-8", "I5.1-9")
def test_startup_only(capfd: pytest.CaptureFixture[str]):
    assert main(["startup", "--key", "5678", "--", *PEER, "--key", "5678"]) == 0
    err = capfd.readouterr().err
    for step in ("client 1 > COLL C_NHOSTS", "client 1 > DONE", "host rank 1", "FINI", "tag=110"):
        assert step in err
    assert "5678" not in err


@pytest.mark.spec("I5.1-14", "I2.3.3-21")
def test_a_wrong_key_is_told(capfd: pytest.CaptureFixture[str]):
    assert main(["startup", "--key", "1", "--", *PEER, "--key", "2"]) == 1
    out = capfd.readouterr().out
    assert "has another IMPI_AUTH_KEY" in out
    assert "rule I2.3.3-21, section 2.3.3" in out


@pytest.mark.spec("I5.4-3", "I5.4-11")
def test_after_a_hang_the_others_are_run_in_a_new_job(capfd: pytest.CaptureFixture[str]):
    words = ["run", "--test", "modes/bsend", "--test", "modes/rsend", "--quiet-limit", "2", "--format", "json"]
    assert main([*words, "--", *PEER, "--fault", "barrier-lost"]) == 1
    tests = json.loads(capfd.readouterr().out)["tests"]
    verdicts = {test["name"]: test["verdict"] for test in tests if "/" in test["name"]}
    assert verdicts == {"modes/bsend": "pass", "modes/rsend": "fail"}
    (hung,) = (test for test in tests if test["name"] == "modes/rsend")
    assert "ranks under test that have not reached the end" in hung["reason"]
    assert any("waits for Barrier" in report for report in hung["reports"])


def test_a_command_that_does_not_come(capfd: pytest.CaptureFixture[str]):
    words = ["run", "--test", "pt2pt/pairs"]
    assert main([*words, "--", sys.executable, "-c", "raise SystemExit(7)"]) == 1
    out = capfd.readouterr().out
    assert "ended with status 7 before all clients and hosts had joined" in out
    assert "INDETERMINATE pt2pt/pairs" in out


def test_a_command_that_waits(capfd: pytest.CaptureFixture[str]):
    words = ["run", "--test", "pt2pt/pairs", "--startup-limit", "0.5"]
    assert main([*words, "--", sys.executable, "-c", "import time; time.sleep(60)"]) == 1
    assert "not all clients and hosts have come within 0.5 s" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--group", "p2p"], "there is no group p2p"),
        (["run", "--clients", "0"], "clients is 0: at least 1"),
        (["run", "--first", "2"], "first is 2"),
        (["run", "--clients", "40"], "at most 32"),
        (["run", "--bind", "0.0.0.0"], "0.0.0.0 is no IPv4 address to which others can connect"),
        (["serve", "--bind", "localhost"], "localhost is no IPv4 address"),
        (["run", "--server", "here"], "'here' is not HOST:PORT"),
        (["run", "--server", "here:70000"], "there is no port 70000"),
        (["run", "--port", "70000"], "there is no port 70000"),
        (["run", "--key", str(2**64)], "is no number of 64 bits"),
        (["run", "--quiet-limit", "0"], "the limits are seconds"),
        (["run", "--output", "./no-such-folder/results.xml"], "no-such-folder"),
        (["serve", "--port", "70000"], "there is no port 70000"),
        (["list", "--scripts", "./no-such-folder"], "there are no scripts in no-such-folder"),
        (["run", "--test", "pt2pt/pairs", "--", "x", "{rank}"], "the placeholders are {client}"),
        (["run", "--test", "pt2pt/pairs", "--", "./no-such-command"], "no-such-command"),
        (["peer", "0", "127.0.0.1:1", "--fault", "bad"], "there is no fault bad"),
    ],
)
def test_wrong_use(words: list[str], message: str, capfd: pytest.CaptureFixture[str]):
    assert main(words) == 2
    assert message in capfd.readouterr().err


def test_list(capfd: pytest.CaptureFixture[str]):
    assert main(["list", "--group", "probe"]) == 0
    out = capfd.readouterr().out
    assert "probe/no_match" in out
    assert "I3.7.3-4; notices probe-matches" in out


@pytest.mark.spec("I5.1-12", "I5.1-13")
def test_command_lines():
    setup = Setup(iut_procs=3, key=7)
    template = ("impirun", "-client", "{client}", "{host}:{port}", "-np", "{np}", "{interpreter}")
    words = fill(template, setup, 1, ("192.0.2.1", 9000))
    assert words[:6] == ["impirun", "-client", "1", "192.0.2.1:9000", "-np", "3"]
    assert words[6:] == [sys.executable, "-m", "aiompi_launcher.conformance.interpreter"]
    assert shown(("a b", "{client}"), setup, 1, ("192.0.2.1", 9000)) == "IMPI_AUTH_KEY=7 'a b' 1"
    for word in ("{0}", "{rank}"):
        with pytest.raises(TemplateError):
            fill((word,), setup, 1, ("192.0.2.1", 9000))


def test_setups_that_are_none():
    with pytest.raises(SetupError, match="Setup: knows clients, hosts"):
        Setup().adjusted({"key": 1})


def test_the_manual_is_at_hand(capfd: pytest.CaptureFixture[str]):
    assert main(["manual"]) == 0
    assert "### Protocol" in capfd.readouterr().out


def test_an_interrupt_ends_everything_in_silence(tmp_path: Path):
    """While clients are waited for."""
    command = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]
    words = [
        sys.executable,
        "-m",
        "aiompi_launcher.conformance.cli",
        "run",
        "--test",
        "types/int",
        "-v",
        "--",
        *command,
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "here" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err) == (130, "", "")
