"""What a rank waits for, told to the launcher when it takes long: AIOMPI_DEBUG."""

from aiompi.hang_report.reporter import HangReporter as HangReporter
