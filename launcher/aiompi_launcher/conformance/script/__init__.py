"""The language of the test scripts, a small subset of C (IMPI 0.0, section 5.3).

`parse` makes a program of a source text, or reports the line, column and kind of a mistake. `Machine` runs the program,
with the MPI calls that its runner provides. A script can use only its own variables, the calls in `calls.CALLS`, and
its output.
"""

from aiompi_launcher.conformance.script.errors import MPIFailure as MPIFailure
from aiompi_launcher.conformance.script.errors import ScriptError as ScriptError
from aiompi_launcher.conformance.script.machine import Level as Level
from aiompi_launcher.conformance.script.machine import Limits as Limits
from aiompi_launcher.conformance.script.machine import Machine as Machine
from aiompi_launcher.conformance.script.machine import Mpi as Mpi
from aiompi_launcher.conformance.script.parser import parse as parse
from aiompi_launcher.conformance.script.syntax import Program as Program
