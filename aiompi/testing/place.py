"""The role of this process among the processes that run tests."""

from __future__ import annotations

#: number of ranks of the job in which pytest was started and runs as rank 0; None outside of a job
ranks_of_job: int | None = None
#: True in a process that runs tests as a rank, for another process with pytest
is_worker = False
