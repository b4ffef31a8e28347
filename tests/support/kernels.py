"""A real kernel of Jupyter, with which a client speaks as a notebook does."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

LIMIT: Final = 120  # seconds for a cell


class Notebook:
    """A notebook whose cells are run one by one."""

    def __init__(self, client: NotebookClient, runner: asyncio.Runner) -> None:
        self.client = client
        self._runner = runner

    def run(self, source: str) -> list[Any]:
        """Run a cell; return its outputs."""
        cells = self.client.nb.cells
        cells.append(nbformat.v4.new_code_cell(source))
        self._runner.run(self.client.async_execute_cell(cells[-1], len(cells) - 1))
        return [*cells[-1].outputs]

    def text(self, source: str) -> str:
        """Run a cell; return the text of its outputs without colours, as lines."""
        text = text_of(self.run(source))
        return text if text.endswith("\n") or not text else text + "\n"


def text_of(outputs: list[Any]) -> str:
    """Return the text of outputs without colours."""
    texts = (each.get("text") or each.get("data", {}).get("text/plain") or each.get("evalue", "") for each in outputs)
    return re.sub(r"\x1b\[[\d;]*m", "", "".join(texts))


@contextlib.contextmanager
def notebook() -> Iterator[Notebook]:
    """Start a kernel for a new notebook, and end it afterwards."""
    manager = AsyncKernelManager()
    client = NotebookClient(nbformat.v4.new_notebook(), km=manager, timeout=LIMIT)
    with asyncio.Runner() as runner:
        runner.run(client.async_start_new_kernel())
        runner.run(client.async_start_new_kernel_client())
        try:
            yield Notebook(client, runner)
        finally:
            client.kc.stop_channels()
            runner.run(manager.shutdown_kernel(now=True))
