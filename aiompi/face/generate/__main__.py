"""Writes the generated files of both faces, which are derived from modules of the asyncio face.

    python -m aiompi.face.generate            # writes the files
    python -m aiompi.face.generate --check    # exits with 1 if a file is not up to date

A collective of the asyncio face such as `Bcast` is the source of up to five forms (`collectives`): `Ibcast` and
`Bcast_init` of the asyncio face, and `Bcast`, `Ibcast` and `Bcast_init` of the blocking face. A form has the signature
of its source, the docstring of its source with the changes that the form needs, and a body of one call.

The module `started` adds further forms, such as `isend`, `ssend` and `Send_init`, to other modules of the asyncio face:
`native/sending.py` is the handwritten `generate/native/sending.py` with these forms added.

Other modules of the blocking face are twins (`twins`) of modules of the asyncio face: `blocking/file.py` has the
methods of `native/file.py`, adapted, and the handwritten code of `generate/blocking/file.py`.

The files are committed, so that editors and type checkers read them like any other file; ruff formats them.
"""

from __future__ import annotations

import sys

from . import files
from .docstring import Doc
from .table import WRITTEN, File

__all__ = ["WRITTEN", "Doc", "File", "files", "main"]


def _is_up_to_date(written: File) -> bool:
    path = files.FACE / written.path
    return path.exists() and path.read_text("utf-8") == written.text()


def main(arguments: list[str]) -> int:
    """Write the files that are not up to date, and print their names; with --check only print the names."""
    changes = "--check" not in arguments
    count = 0
    for written in WRITTEN:  # in their order: some follow from others
        if not _is_up_to_date(written):
            count += 1
            print(written.path)
            if changes:
                (files.FACE / written.path).write_text(written.text(), "utf-8")
    return int(count > 0 and not changes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
