"""The language of the test scripts (IMPI 0.0, section 5.3)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi_launcher.conformance.script import Level, Limits, Machine, MPIFailure, ScriptError, parse
from aiompi_launcher.conformance.script.calls import CALLS, CONSTANTS
from aiompi_launcher.conformance.script.machine import Exit
from support.cases import cases


class Status:
    source, tag, error = 3, 4, 5


class Mpi:
    """Answers a few calls, and records them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def constant(self, name: str) -> Any:
        return {"MPI_ANY_SOURCE": -2, "MPI_SUCCESS": 0, "MPI_ERR_TRUNCATE": 15}.get(name, name)

    async def comm_rank(self, comm: Any) -> int:
        self.calls.append(("rank", comm))
        return 7

    async def send(self, memory: Any, *rest: Any) -> None:
        self.calls.append(("send", bytes(memory.view), *rest))

    async def recv(self, memory: Any, count: int, *rest: Any) -> Status:
        if count > 2:
            raise MPIFailure("MPI_ERR_TRUNCATE", "too long")
        memory.view[:4] = struct.pack("i", 99)
        return Status()

    async def get_count(self, status: Any, datatype: Any) -> int:
        assert isinstance(status, Status)
        return 11

    async def isend(self, *rest: Any) -> str:
        return f"request {rest[3]}"

    async def waitall(self, count: int, requests: list[Any]) -> tuple[list[Any], list[Any]]:
        self.calls.append(("waitall", count, list(requests)))
        return ["MPI_REQUEST_NULL"] * count, [Status()] * count

    async def iprobe(self, *rest: Any) -> tuple[int, Any]:
        return 1, Status()

    async def gatherv(self, *rest: Any) -> None:
        self.calls.append(rest)


class Output:
    def __init__(self) -> None:
        self.printed: list[str] = []
        self.reported: list[str] = []

    def print(self, text: str) -> None:
        self.printed.append(text)

    def report(self, text: str) -> None:
        self.reported.append(text)


def finish(coroutine: Any) -> None:
    """Run what never waits."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


def run(source: str, limits: Limits | None = None) -> tuple[Machine, Mpi, Output]:
    mpi, output = Mpi(), Output()
    machine = Machine(parse(source), mpi, output, limits)
    finish(machine.run())
    return machine, mpi, output


def numbers(declarations: str, statements: str, *expressions: str) -> list[float]:
    reports = "".join(f'report("%.9f", {expression});\n' for expression in expressions)
    source = "{\n" + declarations.replace("; ", ";\n") + "\n" + statements + "\n" + reports + "}"
    return [float(text) for text in run(source)[2].reported]


def wrong(source: str) -> ScriptError:
    with pytest.raises(ScriptError) as caught:
        run(source)
    return caught.value


@pytest.mark.spec("I5.3-5", "I5.3-7")
@cases(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7 % -2", 1),
        ("7 / 2.0", 3.5),
        ("1 < 2 && 2 < 1 || 1", 1),
        ("!0 + !5", 1),
        ("- -3", 3),
        ("1 == 1 != 0", 1),
        ("2 >= 2 && 1 <= 0", 0),
        ("'A'", 65),
        ("1e3 + .5", 1000.5),
        ("0 && 1 / 0", 0),
        ("1 || 1 / 0", 1),
    ],
)
def test_expressions_have_the_values_of_c(expression: str, value: float):
    assert numbers("", "", expression) == [value]


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9).filter(bool))
def test_division_and_remainder_belong_together(a: int, b: int):
    quotient, remainder, back = numbers("", "", f"{a} / {b}", f"{a} % {b}", f"{a} / {b} * {b} + {a} % {b}")
    assert back == a
    assert abs(remainder) < abs(b)
    assert remainder == 0 or (remainder < 0) == (a < 0)
    assert abs(quotient) == abs(a) // abs(b)


@pytest.mark.spec("I5.3-5")
def test_control_structures():
    source = """
    i = 0;
    while (i < 3) { i = i + 1; a[0] = a[0] + i; }
    for (i = 0; i < 4; i = i + 1) a[1] = a[1] + 10;
    for (i = 3; i > 0; i--) a[2] = a[2] * 10 + i;
    if (i == 0) if (1 == 2) a[3] = 1; else a[3] = 2;
    """
    assert numbers("int i; int a[4];", source, "a[0]", "a[1]", "a[2]", "a[3]") == [6, 40, 321, 2]


@pytest.mark.spec("I5.3-5")
def test_return_ends_the_script():
    assert run('{ while (1) { report("a"); return; } report("b"); }')[2].reported == ["a"]


@pytest.mark.spec("I5.3-5")
@cases("type", ["char", "short", "int", "long", "float", "double", "long double", "long long"])
def test_types_keep_their_numbers(type: str):
    assert numbers(f"{type} x; {type} y[3];", "x = -5; y[2] = 100; y[0] = x;", "x", "y[0]", "y[1]", "y[2]") == [
        -5,
        -5,
        0,
        100,
    ]


def test_numbers_are_stored_as_c_stores_them():
    declared = "unsigned char u; unsigned v; int i; float f;"
    assert numbers(declared, "u = 257; v = -1; i = 2.9; f = 0.1;", "u", "v", "i", "f") == pytest.approx(
        [1, 2**32 - 1, 2, 0.1], abs=1e-7
    )
    assert "2147483648 does not fit int" in str(wrong("{\nint i;\ni = 2147483647 + 1;\n}"))


def test_pairs_have_a_value_and_an_index():
    declared = "double_int p[2]; short_int s;"
    assert numbers(declared, "p[2] = 2.5; p[3] = 7; s[0] = -1; s[1] = 3;", "p[2]", "p[3]", "p[0]", "s[0] + s[1]") == [
        2.5,
        7,
        0,
        2,
    ]


@pytest.mark.spec("I5.3-6", "I5.3-8", "I5.3-9")
def test_calls_take_plain_names_and_write_to_them():
    _, mpi, output = run("""{
        int rank;
        int x[3];
        int status[3];
        int count;
        MPI_Comm_rank(MPI_COMM_WORLD, rank);
        x[1] = rank;
        MPI_Send(x[1], 2, MPI_INT, rank + 1, 5, MPI_COMM_WORLD);
        MPI_Recv(x, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, status);
        MPI_Get_count(status, MPI_INT, count);
        report("%.0f %.0f %.0f %.0f", x[0], status[MPI_SOURCE], status[MPI_TAG], status[MPI_ERROR]);
        report("%.0f", count);
    }""")
    assert mpi.calls[1] == ("send", struct.pack("2i", 7, 0), 2, "MPI_INT", 8, 5, "MPI_COMM_WORLD")
    assert output.reported == ["99 3 4 5", "11"]


def test_arrays_of_requests_and_statuses():
    _, mpi, output = run("""{
        MPI_Request all[3];
        int statuses[6];
        int i;
        for (i = 1; i < 3; i = i + 1) MPI_Isend(i, 1, MPI_INT, i, 0, MPI_COMM_WORLD, all[i]);
        MPI_Waitall(2, all[1], statuses);
        report("%.0f %.0f", statuses[3 + MPI_TAG], all[1] == MPI_REQUEST_NULL && all[0] == MPI_REQUEST_NULL);
    }""")
    assert mpi.calls == [("waitall", 2, ["request 1", "request 2"])]
    assert output.reported == ["4 1"]


def test_arrays_of_counts_are_read_from_where_they_are_given():
    _, mpi, _ = run("""{
        int n[3];
        n[1] = 4;
        n[2] = 5;
        MPI_Gatherv(n, 1, MPI_INT, n, n[1], n, MPI_INT, 0, MPI_COMM_WORLD);
    }""")
    assert mpi.calls[0][4] == [4, 5]
    assert mpi.calls[0][5] == [0, 4, 5]


def test_a_return_code_can_be_taken():
    recv = "MPI_Recv(x, 3, MPI_INT, 0, 0, MPI_COMM_WORLD, x);"
    _, _, output = run("{ int x[3];\n int rc;\n rc = " + recv + ' report("%.0f", rc == MPI_ERR_TRUNCATE); }')
    assert output.reported == ["1"]
    machine = Machine(parse("{ int x[3];\n " + recv + " }"), Mpi(), Output())
    with pytest.raises(MPIFailure, match=r"MPI_Recv at line 2, column 2: MPI_ERR_TRUNCATE: too long"):
        machine.run().send(None)


@pytest.mark.spec("I5.3-9", "I5.3-10", "I5.3-11")
def test_printf_and_report():
    _, _, output = run(r'{ printf("%.0f of %6.2f\n", 3, 1.5); report("100%% \"%f\"", 1); }')
    assert output.printed == ["3 of   1.50\n"]
    assert output.reported == ['100% "1.000000"']


@pytest.mark.spec("I5.3-12")
@cases(
    ("line", "passed", "level"),
    [
        ("Result: Pass", True, Level.NOTHING),
        ("Result: Fail: 3 errors", False, Level.FAIL),
        ("Test skipped. Too many processes", False, Level.SKIPPED),
        ("something else", False, Level.NOTHING),
    ],
)
def test_reports_tell_the_result(line: str, passed: bool, level: Level):
    machine, _, _ = run(f'{{ report("{line}"); }}')
    assert (machine.passed, machine.level) == (passed, level)


def test_a_pass_does_not_undo_a_failure():
    machine, _, _ = run('{ report("Result: Fail"); report("Test skipped"); report("Result: Pass"); }')
    assert machine.level is Level.FAIL


@pytest.mark.spec("I5.3-1")
def test_exit_interpreter():
    machine = Machine(parse("{ exit_interpreter(); }"), Mpi(), Output())
    with pytest.raises(Exit):
        machine.run().send(None)


@pytest.mark.spec("I5.3-5", "I5.3-6", "I5.3-7", "I5.3-14")
@cases(
    ("source", "line", "column", "problem"),
    [
        ("{\n  i = 1;\n}", 2, 3, "i is not declared"),
        ("{ int i; int j; }", 1, 10, "only one declaration a line"),
        ("{\nint i,\nj; }", 2, 6, "one variable a declaration"),
        ("{\nint i = 3; }", 2, 7, "value in a statement of its own"),
        ("{\nint i;\nint i; }", 3, 5, "declared twice"),
        ("{\nint a[2][2]; }", 2, 9, "one dimension"),
        ("{\nint a[0]; }", 2, 7, "at least 1"),
        ("{\nint i;\ni++; }", 3, 2, "write i = i + 1"),
        ("{\nint i;\nMPI_Comm_rank(MPI_COMM_WORLD, &i); }", 3, 31, "without &"),
        ("{\nint i;\ni = i & 1; }", 3, 7, "without &"),
        ("{\nint i;\nMPI_Comm_rank(MPI_COMM_WORLD); }", 3, 1, "takes 2 arguments, here are 1"),
        ("{\nint i;\nMPI_Barrier(MPI_COMM_WORLD, i); }", 3, 29, "takes 1 arguments, here are more"),
        ("{\nint i;\nMPI_Barrier(i); }", 3, 13, "must be of kind comm, this is of kind number"),
        ("{\nMPI_Comm c;\nMPI_Comm_size(MPI_COMM_WORLD, c); }", 3, 31, "c is MPI_Comm"),
        ("{\nint i;\ni = MPI_COMM_WORLD; }", 3, 1, "comm cannot be assigned to number i"),
        ("{\nMPI_Comm c;\nMPI_Comm_free(MPI_COMM_WORLD); }", 3, 15, "must be a variable"),
        ("{\nint i;\nif (MPI_COMM_WORLD == MPI_INT) i = 1; }", 3, 5, "this is of kind comm"),
        ("{\nint a[3];\na = 1; }", 3, 1, "which element?"),
        ("{\nint a[3];\nint i;\ni = a + 1; }", 4, 5, "which element?"),
        ("{\nint a;\nint i;\ni = a[0]; }", 4, 5, "a is no array"),
        ("{\nint s;\nMPI_Recv(s, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, s); }", 3, 47, "an int array of 3"),
        ('{\nreport("%d", 1); }', 2, 8, "formatted with %f"),
        ('{\nreport("%.0f %f", 1); }', 2, 8, "the format has 2 numbers, 1 follow it"),
        ("{\nint i;\nif (MPI_Comm_size(MPI_COMM_WORLD, i)) i = 1; }", 3, 5, "a call is a statement of its own"),
        ("{\nexec(1); }", 2, 1, "there is no call exec"),
        ("{\n__import__; }", 2, 1, "__import__ is not declared"),
        ("{\nquaternion q; }", 2, 1, "quaternion is not declared"),
        ("{\nunsigned double q; }", 2, 1, "there is no type 'unsigned double'"),
        ("{\nint MPI_INT; }", 2, 5, "means something already"),
        ("{\nint i;\nif (1) int j; }", 3, 8, "belongs into a block"),
        ("{\nint i; /* no end", 2, 8, "comment does not end"),
        ('{\nreport("no end); }', 2, 8, "string does not end"),
        ("{\nint i;\ni = 1 @ 2; }", 3, 7, "the language has no '@'"),
        ("{\nint i;\ni = 010; }", 3, 5, "no leading zero"),
        ('{\nreport("\\x41"); }', 2, 8, "the language has no \\x"),
        ("{ { }", 1, 6, "a } is missing"),
        ("{ } }", 1, 5, "nothing may follow"),
        ("int i;", 1, 1, "expected '{'"),
        ("{\nint i;\ni = (1 + 2; }", 3, 11, "expected ')'"),
        ("{\nchar a[99999999]; }", 2, 6, "take more than"),
    ],
)
def test_errors_name_line_and_column(source: str, line: int, column: int, problem: str):
    error = wrong(source)
    assert problem in error.problem
    assert (error.place.line, error.place.column) == (line, column)


@pytest.mark.spec("I5.3-14")
@cases(
    ("statements", "problem"),
    [
        ("a[3] = 1;", "a[3]: it has elements 0 to 2"),
        ("a[0 - 1] = 1;", "a[-1]: it has elements 0 to 2"),
        ("a[0.5] = 1;", "a[0.5]"),
        ("a[0] = 1 / a[1];", "by zero"),
        ("a[0] = 1 % 0;", "by zero"),
        ("a[0] = 1.5 % 2;", "% takes integers"),
        ("a[0] = 1e308 * 10;", "cannot convert float infinity"),
        ("MPI_Get_count(a, MPI_INT, a[0]);", "no status yet"),
        ("MPI_Recv(a, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, a[1]);", "too short for a status"),
    ],
)
def test_errors_while_running_name_the_line(statements: str, problem: str):
    error = wrong("{\nint a[3];\n" + statements + "}")
    assert problem in error.problem
    assert error.place.line == 3


@pytest.mark.parametrize(
    "body",
    ["while (1) i = i;", "while (1) { }", "for (i = 0; 1; i = i) { }", "while (1) MPI_Comm_rank(MPI_COMM_WORLD, i);"],
)
def test_steps_are_bounded(body: str):
    with pytest.raises(ScriptError, match="more than 1000 steps"):
        run("{\nint i;\n" + body + "}", Limits(steps=1000))


def test_output_is_bounded():
    with pytest.raises(ScriptError, match="more than 50 characters"):
        run('{ while (1) printf("0123456789"); }', Limits(output=50))


def test_numbers_are_bounded():
    with pytest.raises(ScriptError, match="128 bits"):
        run("{\nunsigned long long x;\nx = " + "*".join(["10000000000000000000"] * 4) + "; }")


@pytest.mark.parametrize(
    "source",
    ["{" * 200, "{ if (" + "(" * 5000, "{\nint i;\ni = " + "- " * 5000, "{" + "if (1) " * 5000, "{" + " " * 300_000],
    ids=["blocks", "parentheses", "signs", "statements", "length"],
)
def test_depth_and_length_are_bounded(source: str):
    with pytest.raises(ScriptError, match=r"deep|characters"):
        parse(source)


@given(st.text(alphabet="{}()[];=+-*/%<>!&|,\"\\ \n'.aitnf019_MPI", max_size=60))
def test_any_text_is_a_program_or_a_script_error(text: str):
    try:
        parse("{" + text)
    except ScriptError as error:
        assert error.place.line >= 1


def test_names_of_the_surroundings_are_out_of_reach():
    """Only names of the tables and declared ones mean anything, whatever Python has."""
    for name in ("constant", "send", "__class__", "self", "TEST_get.x"):
        wrong("{\n" + name + "(1);\n}")
    assert not CALLS.keys() & CONSTANTS.keys()
    assert all(signature.method.isidentifier() for signature in CALLS.values())


FIRST_SAMPLE = """
     {
       int i; /* Only one declaration allowed per line */
       int in;
       int my_rank;
       int nprocs;
       int status[3];
       int nerrors;
       MPI_Comm_rank(MPI_COMM_WORLD, my_rank);
       MPI_Comm_size(MPI_COMM_WORLD, nprocs);
       if (my_rank > 0) {
         MPI_Send(my_rank, 1, MPI_INT, 0, my_rank, MPI_COMM_WORLD);
       } else {
         nerrors = 0;
         for (i=1; i<nprocs; i++) {
           MPI_Recv(in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                     MPI_COMM_WORLD, status);
           if (status[MPI_TAG] != status[MPI_SOURCE]) {
             nerrors = nerrors + 1; /* ++ and -- are not available */
              report("Error: source:%.0f != Tag:%.0f",
                     status[MPI_SOURCE], status[MPI_TAG]);
           } else if (in != status[MPI_TAG]) {
             nerrors = nerrors + 1;
           }
         }
         if (nerrors == 0) {
           report("Result: Pass");
         } else {
           report("Result: Fail: %.0f error out of %.0f messages",
                   nerrors, nprocs-1);
         }
       }
     }
"""


@pytest.mark.spec("I5.3-5", "I5.3-6", "I5.3-7", "I5.3-8")
def test_the_first_sample_of_the_document_is_a_program():
    parse(FIRST_SAMPLE)
