"""Which form of the core a program gets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiompi import core
from support.limits import LIMIT

SHOW = "from aiompi import core; print(core.form, core.Request.__module__, core.why_pure, sep='|')"


def start(place: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "AIOMPI_CORE"} | variables
    return subprocess.run(
        (sys.executable, "-c", SHOW), cwd=place, env=environ, capture_output=True, text=True, timeout=LIMIT, check=False
    )


def test_pure_on_request(tmp_path: Path) -> None:
    assert start(tmp_path, AIOMPI_CORE="pure").stdout == (
        "pure|aiompi.core.pure.request|AIOMPI_CORE=pure asks for it\n"
    )


def test_native_where_it_was_built(tmp_path: Path) -> None:
    form, module, why = start(tmp_path).stdout.strip().split("|")
    if form == "native":
        assert (module, why) == ("aiompi.core._native", "")
        assert start(tmp_path, AIOMPI_CORE="native").stdout.startswith("native|")
    else:
        assert module == "aiompi.core.pure.request"
        assert why
        refused = start(tmp_path, AIOMPI_CORE="native")
        assert refused.returncode
        assert refused.stderr.splitlines()[-1].endswith(f"asks for the native core, which is not there: {why}")


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    refused = start(tmp_path, AIOMPI_CORE="fast")
    assert refused.stderr.splitlines()[-1] == (
        "ImportError: AIOMPI_CORE is 'fast': it must be native or pure, or empty for the form that is there"
    )


@pytest.mark.skipif(core.form == "pure", reason="this form has no native classes")
def test_native_classes_have_what_tools_show() -> None:
    import inspect

    assert "source" in inspect.signature(core.MatchQueues.take_posted).parameters
    assert (core.Request.__doc__ or "").startswith("An operation in progress")
    assert core.Request[int].__origin__ is core.Request  # type: ignore[attr-defined]
