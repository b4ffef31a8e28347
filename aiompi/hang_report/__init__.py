"""Reports of long waits, by which the launcher finds hangs (AIOMPI_DEBUG).

`reporter` observes the calls of a rank through a hook. `call_record` describes one call and the ranks for which it
waits.
"""

from aiompi.hang_report.reporter import HangReporter as HangReporter
