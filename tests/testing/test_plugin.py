"""The plugin for pytest: sessions of pytest that run tests with several ranks, and what they report."""

from __future__ import annotations

import re
import sys

import pytest

pytest_plugins = ["pytester"]

#: in each session only pytest and the plugin
PLAIN = ("-p", "aiompi.testing", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load no plugins into the sessions but those that they name, whatever is installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


def run(pytester: pytest.Pytester, text: str, *args: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=text)
    return pytester.runpytest_subprocess(*PLAIN, *args)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the lines of the summary be long."""
    monkeypatch.setenv("COLUMNS", "160")


def text_of(result: pytest.RunResult) -> str:
    """The output with numbers of seconds left out, which differ from run to run."""
    return re.sub(r"for \d+\.\d s", "for # s", result.stdout.str())


def test_ranks_are_tasks_of_one_process(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import asyncio, os
        import pytest

        seen = []

        @pytest.fixture
        async def total(world):
            return await world.allreduce(1)

        @pytest.fixture
        async def ranks(world, total):
            yield [*range(total)]
            seen.extend(await world.allgather(world.rank))

        @pytest.fixture
        def last(ranks):
            yield ranks[-1]

        @pytest.fixture(scope="module")
        async def shared():
            pass

        @pytest.mark.mpi(ranks=[1, 2, 5])
        async def test_sum(world, mpi_ranks):
            seen.append(os.getpid())
            assert await world.allreduce(1) == world.size == mpi_ranks

        def test_one_process():
            assert seen == [os.getpid()] * 8

        class TestClass:
            @pytest.mark.parametrize("word", ["a", "b"])
            @pytest.mark.mpi(ranks=2)
            async def test_method(self, world, word, tmp_path, capsys):
                assert await world.bcast((word, tmp_path) if world.rank == 0 else None) == (word, tmp_path)

        async def test_one_rank(world):
            assert world.size == 1

        @pytest.mark.mpi(ranks=2)
        async def test_fixtures_of_each_rank(world, last, total):
            assert (last, total) == (1, 2)
            seen.clear()

        def test_fixtures_have_ended():
            assert seen == [0, 1, 0, 1]

        @pytest.mark.mpi(ranks=2)
        async def test_module(world, shared):
            pass

        @pytest.mark.xfail(raises=ZeroDivisionError, strict=True)
        @pytest.mark.mpi(ranks=2)
        async def test_xfail(world):
            if world.rank == 1:
                1 / 0
            await world.barrier()

        @pytest.mark.mpi(ranks=2)
        async def test_skip(world):
            if world.rank == 1:
                pytest.skip("not here")
            await world.barrier()

        @pytest.mark.mpi(ranks=2)
        def test_world_is_awaited(world):
            pass
        """,
        "-W", "error", "--strict-markers", "-k", "not awaited",
    )  # fmt: skip
    result.assert_outcomes(passed=9, xfailed=1, skipped=1, deselected=1, errors=1)
    assert "\neach rank makes `shared` for one test, so its scope cannot be 'module'\n" in text_of(result)


def test_a_failing_task_is_reported_with_its_rank(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.mpi(ranks=3)
        async def test_fails(world):
            print("hello from", world.rank)
            numbers = [1, 2, world.rank]
            await world.barrier()
            if world.rank == 1:
                assert numbers == [1, 2, 3]
            await world.recv(source=1, tag=7)

        @pytest.mark.mpi(ranks=2, timeout=0.2)
        async def test_hangs(world):
            await world.recv(source=1 - world.rank, tag=5)

        @pytest.mark.mpi(ranks=3, timeout=0.2)
        async def test_ends_early(world):
            if world.rank:
                await world.barrier()
        """,
    )
    result.assert_outcomes(failed=3)
    text = text_of(result)
    assert "- rank 1 of 3 -" in text
    assert ">           assert numbers == [1, 2, 3]\nE           assert [1, 2, 1] == [1, 2, 3]" in text
    assert "rank 2: recv(source=1, tag=7) on MPI_COMM_WORLD at test_it.py:10 for # s, waiting for rank 1" in text
    assert re.search("Captured stdout of rank 2 call -+\nhello from 2\n", text)
    assert "FAILED test_it.py::test_fails[3] - rank 1 of 3: assert [1, 2, 1] == [1, 2, 3]" in text
    assert "The test has not ended after 0.2 s. The ranks wait:\n  rank 0: recv(source=1, tag=5)" in text
    assert "ranks wait in a circle: rank 0 for rank 1, rank 1 for rank 0" in text
    place = "in recv(source={}, tag=5) at test_it.py:14"
    assert f"_hangs[2] - Hang: rank 0 {place.format(1)}; rank 1 {place.format(0)}\n" in text
    assert "rank 0 has not come to barrier #1 on MPI_COMM_WORLD: it is in no MPI call; it has ended the test\n" in text
    assert "_early[3] - Hang: ranks 1-2 in barrier #1 at test_it.py:19; rank 0 at the end of the test\n" in text


def test_ranks_are_processes_that_later_tests_use_again(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import os, sys, time
        import pytest
        from aiompi import MPI

        @pytest.fixture(scope="session")
        def first_pid(comm):
            return os.getpid()

        def test_here(comm):
            assert comm.size == 1

        @pytest.mark.mpi(ranks=2)
        def test_first(comm, first_pid, mpi_tmp_path, request):
            assert comm.allgather(os.getpid()).index(first_pid) == comm.rank
            assert comm.bcast(mpi_tmp_path) == mpi_tmp_path
            (mpi_tmp_path / str(comm.rank)).touch()
            comm.Barrier()
            assert len(os.listdir(mpi_tmp_path)) == comm.size == MPI.COMM_WORLD.size == 2

        @pytest.mark.parametrize("number", [1])
        @pytest.mark.mpi(ranks=2)
        def test_second(first_pid, number):
            assert os.getpid() == first_pid

        @pytest.mark.mpi(ranks=2)
        def test_leaves_a_message(comm):
            if comm.rank == 0:
                comm.send("lost", dest=1)

        @pytest.mark.mpi(ranks=2)
        def test_meets_no_message(comm):
            assert comm.sendrecv("mine", dest=comm.rank, source=MPI.ANY_SOURCE) == "mine"

        @pytest.mark.mpi(ranks=2)
        def test_fails(comm, first_pid):
            assert os.getpid() == first_pid
            print("hello from", comm.rank)
            numbers = [1, comm.rank]
            assert numbers == [1, 0]
            comm.recv(source=1, tag=7)

        @pytest.mark.mpi(ranks=2)
        def test_dies(comm):
            if comm.rank == 1:
                os.kill(os.getpid(), 9)
            comm.Barrier()

        @pytest.mark.mpi(ranks=2, timeout=0.5)
        def test_hangs(comm):
            if comm.rank == 1:
                time.sleep(60)
            comm.Barrier()

        @pytest.mark.mpi(ranks=2)
        def test_subtests(comm, subtests):
            for number in range(3):
                with subtests.test(number=number):
                    assert number != 1 or comm.rank == 0
            comm.Barrier()

        @pytest.mark.mpi(ranks=2, threads=3)
        def test_fresh(comm, first_pid):
            assert comm.allreduce(1) == 2
            assert os.getpid() == first_pid
            assert os.environ["OMP_NUM_THREADS"] == "3"

        @pytest.mark.skip
        @pytest.mark.mpi(ranks=20)
        def test_starts_nothing(comm):
            pass
        """,
        "-W", "error",
    )  # fmt: skip
    result.assert_outcomes(passed=6, failed=5, skipped=1)
    text = text_of(result)
    assert "- rank 1 of 2 -" in text
    assert "E       assert [1, 1] == [1, 0]" in text
    assert "rank 0: recv(source=1, tag=7) on MPI_COMM_WORLD at test_it.py:40 for # s, waiting for rank 1" in text
    assert re.search("Captured stdout of rank 1 call -+\nhello from 1\n", text)
    assert "FAILED test_it.py::test_fails[2] - rank 1 of 2: assert [1, 1] == [1, 0]" in text
    assert "FAILED test_it.py::test_dies[2] - rank 1 was killed by signal 9 (SIGKILL)" in text
    assert "aiompi-launch" not in text
    assert re.search(r"Barrier #1 on MPI_COMM_WORLD \(\w+\) at test_it.py:52 for # s, waiting for rank 1", text)
    assert "rank 1: in no MPI call; it runs test_it.py:51, in test_hangs" in text
    place = "rank 0 in Barrier #1 at test_it.py:52; rank 1 at test_it.py:51, in test_hangs"
    assert f"FAILED test_it.py::test_hangs[2] - Hang: {place}\n" in text
    assert re.search(r"SUBFAILED.number='?1'?. .*::test_subtests\[2\] - rank 1 of 2: assert .1 != 1 or 1 == 0.\n", text)
    assert "FAILED test_it.py::test_subtests[2] - contains 1 failed subtest\n" in text


def test_warnings_of_ranks_are_in_the_summary(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import warnings
        import pytest

        class Own(UserWarning):
            pass

        class Stubborn(UserWarning):
            def __reduce__(self):
                raise TypeError

        @pytest.mark.mpi(ranks=2)
        def test_warns(comm):
            warnings.warn("of all ranks", Own)
            if comm.rank == 1:
                warnings.warn("of one", DeprecationWarning)
                warnings.warn("no pickle", Stubborn)
        """,
        "-W", "always", "-W", "ignore:Testing", "--strict-markers",
    )  # fmt: skip
    result.assert_outcomes(passed=1, warnings=3)
    assert re.search("\ntest_it.py::test_warns.2.\n  .*/test_it.py:13: Own: of all ranks\n", text_of(result))
    assert "\ntest_it.py::test_warns[2] (rank 1 of 2)\n" in text_of(result)
    result.stdout.fnmatch_lines(["*test_it.py:15: DeprecationWarning: of one", "*: Stubborn: no pickle"])


def test_tests_run_side_by_side(pytester: pytest.Pytester) -> None:
    """Each of two tests ends only when the other one runs too."""
    result = run(
        pytester,
        """
        import pathlib, time
        import pytest

        @pytest.mark.parametrize("own, other", [("a", "b"), ("b", "a")])
        @pytest.mark.mpi(ranks=2)
        def test_meets(comm, own, other):
            if comm.rank == 0:
                pathlib.Path(own).touch()
                while not pathlib.Path(other).exists():
                    time.sleep(0.01)
            comm.Barrier()
        """,
        "--mpi-parallel=4",
        "-v",
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_meets?2-a-b? PASSED*", "*test_meets?2-b-a? PASSED*"])


def test_workers_of_xdist_run_tests_side_by_side(pytester: pytest.Pytester) -> None:
    """The test of each file ends only when the other worker runs that of the other file."""
    meets = """
        import pathlib, time
        import pytest

        @pytest.mark.mpi(ranks=2)
        def test_meets(comm):
            if comm.rank == 0:
                pathlib.Path(__name__).touch()
                while not (pathlib.Path("test_it").exists() and pathlib.Path("test_other").exists()):
                    time.sleep(0.01)
            assert comm.allreduce(1) == 2
        """
    pytester.makepyfile(test_other=meets)
    result = run(
        pytester,
        meets
        + """
        @pytest.mark.mpi(ranks=[1, 2])
        async def test_task(world):
            assert world.rank != 1

        @pytest.mark.mpi(ranks=1)
        def test_process(comm):
            print("hello from", comm.rank)
            assert comm.size != 1

        @pytest.mark.skip(reason="no computer is so large")
        @pytest.mark.mpi(ranks=2000)
        def test_skip(comm):
            pass
        """,
        "-p", "xdist", "-n", "2", "--dist", "loadfile", "--junitxml", "found.xml",
    )  # fmt: skip
    result.assert_outcomes(passed=3, failed=2, skipped=1)
    result.stdout.fnmatch_lines(["*- rank 1 of 2 -*", "E * assert 1 != 1"])
    result.stdout.fnmatch_lines(["*- rank 0 of 1 -*", "*Captured stdout of rank 0 call*", "hello from 0"])
    message = "rank 0 of 1: assert 1 != 1"
    result.stdout.fnmatch_lines([f"FAILED test_it.py::test_process?1? - {message}*"])
    assert f'<failure message="{message}' in (pytester.path / "found.xml").read_text()


#: the marks of pytest-mpi and mpi-pytest
FOREIGN = """
    import pytest
    from aiompi import MPI

    @pytest.mark.mpi
    def test_bare():
        assert MPI.COMM_WORLD.size == 2

    @pytest.mark.mpi(min_size=4)
    def test_too_small():
        assert MPI.COMM_WORLD.size >= 4

    @pytest.mark.mpi(2)
    def test_wrong():
        pass

    @pytest.mark.mpi_skip
    def test_skip():
        assert MPI.COMM_WORLD.size == 1

    def test_unmarked(mpi_file_name, mpi_tmpdir):
        assert len(set(MPI.COMM_WORLD.allgather((mpi_file_name, str(mpi_tmpdir))))) == 1

    @pytest.mark.parallel([1, 2])
    def test_parallel():
        assert MPI.COMM_WORLD.size in (1, 2)

    @pytest.mark.mpi_xfail
    def test_xfail():
        assert MPI.COMM_WORLD.size == 1
    """


def test_suites_of_other_plugins_without_a_job(pytester: pytest.Pytester) -> None:
    result = run(pytester, FOREIGN, "-k", "not test_parallel", "--strict-markers", "-W", "error")
    result.assert_outcomes(passed=3, skipped=2, errors=1, deselected=2)
    assert "\nmpi(2): the number of ranks needs its name: mpi(ranks=2)\n" in text_of(result)


def test_suites_of_other_plugins_in_a_job(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=FOREIGN)
    launch = [sys.executable, "-m", "aiompi_launcher", "-n", "2", "-m", "pytest"]
    result = pytester.run(*launch, *PLAIN, "--with-mpi", "-m", "not parallel[1]", "-k", "not wrong", "-rA")
    result.assert_outcomes(passed=3, skipped=2, xfailed=1, deselected=2)
    result.stdout.fnmatch_lines(["PASSED test_it.py::test_parallel?nprocs=2?"])


def test_examples_of_pytest_isolate_mpi(pytester: pytest.Pytester) -> None:
    """A fixture of the session is made once for each number of ranks and each parameter."""
    result = run(
        pytester,
        """
        import os
        import pytest
        from mpi4py import MPI

        made = []

        @pytest.fixture(scope="session", params=["x", "y"])
        def parameter(request):
            return request.param

        @pytest.fixture(scope="session")
        def computation(parameter, comm):
            made.append(parameter)
            return comm.rank, comm.size

        @pytest.mark.mpi(ranks=[1, 2])
        def test_first(comm, computation, mpi_ranks):
            assert computation == (MPI.COMM_WORLD.rank, mpi_ranks)

        @pytest.mark.mpi(ranks=[1, 2], timeout=1, unit="m")
        def test_second(comm, computation, parameter):
            assert made.count(parameter) == 1

        @pytest.mark.mpi(ranks=2, threads=4)
        def test_omp_num_threads(mpi_ranks, mpi_tmp_path):
            assert os.environ["OMP_NUM_THREADS"] == "4"
            assert mpi_tmp_path.exists()

        @pytest.mark.mpi(ranks=2)
        @pytest.mark.xfail
        def test_xfail():
            assert False
        """,
        "--mpi4py", "--mpi-default-test-timeout", "600",
    )  # fmt: skip
    result.assert_outcomes(passed=9, xfailed=1)


def test_wrong_marks(pytester: pytest.Pytester) -> None:
    """A line says what is wrong, without a traceback of the plugin."""
    for arguments, said in [
        ("ranks=0", "must be a positive integer or several, not 0"),
        ("rank=3", "no argument rank,"),
    ]:
        result = run(pytester, f"import pytest\n\n@pytest.mark.mpi({arguments})\ndef test_it(comm):\n    pass\n")
        result.assert_outcomes(errors=1)
        assert said in text_of(result)
        assert "marks.py" not in text_of(result)


def test_a_mark_of_the_project_keeps_its_meaning(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n  mpi: needs a computer\n  parallel: is fast\n")
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.mpi
        @pytest.mark.parallel(threads=2)
        def test_here():
            pass

        @pytest.mark.mpi(ranks=2)
        async def test_ranks(world):
            assert world.size == 2
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=2)
