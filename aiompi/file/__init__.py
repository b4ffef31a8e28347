"""Files that the processes of a communicator read and write together (MPI-4.1, chapter 14).

`File` is the object behind the handles of both faces. Its calls start at once and return requests. System calls that
may wait for the disk run in threads of a `Disk`, so that no event loop waits. `View` maps the data of a process to
bytes of the file, `transfer` moves the bytes, and in a `collective` access some processes move the data of all.
"""

from aiompi.file.file import File
from aiompi.file.modes import POINTER
from aiompi.file.null import NULL, NullFile
from aiompi.file.open import delete, open_file
from aiompi.file.view import register_datarep

__all__ = ["NULL", "POINTER", "File", "NullFile", "delete", "open_file", "register_datarep"]
