"""What a rank waits for, told to the launcher when it takes long: AIOMPI_DEBUG."""

from aiompi.watch.watch import Watch as Watch
