"""Reports of calls that wait for long, for the launcher to find hangs: AIOMPI_DEBUG.

`reporter` observes the calls of a rank through a hook. `call_record` describes one call and what it waits for.
"""

from aiompi.hang_report.reporter import HangReporter as HangReporter
