"""Source distributions of other projects, whose programs are run here; pip fetches them once."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def unpacked(name: str, version: str) -> Path:
    """Return the folder of a source distribution in the cache of the user."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", f"{name}-suite")
    folder = cache / f"{name}-{version}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as place:
            fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name]
            subprocess.run([*fetch, "-d", place, f"{name}=={version}"], check=True, stdin=subprocess.DEVNULL)
            (archive,) = Path(place).glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                tar.extraction_filter = getattr(tarfile, "data_filter", None)  # which Python 3.11.2 does not have
                tar.extractall(place)
            try:
                Path(place, folder.name).rename(folder)
            except OSError:
                if not folder.exists():  # by another process of the tests
                    raise
    return folder
