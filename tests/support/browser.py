"""A browser without a screen: Chromium, controlled by its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession, ClientWebSocketResponse

from .limits import LIMIT

#: the first of them that is installed
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
#: a new profile, and no connections to anybody but the page
_OPTIONS: Final = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-port=0",
)
_WHEN: Final = """new Promise((done) => {
    const look = () => { if (%s) { observer.disconnect(); done(true); } };
    const observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    look();
})"""


def installed() -> str | None:
    """Return the command of a browser of this machine, if it has one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """A page in the browser.

    Attributes:
        troubles: exceptions and complaints of the page; it should have none.
    """

    def __init__(self, socket: ClientWebSocketResponse, downloads: Path) -> None:
        self.troubles: list[str] = []
        self._socket = socket
        self._downloads = downloads
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._downloaded: asyncio.Queue[str] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            event = json.loads(message.data)
            if "id" in event:
                self._answers.pop(event["id"]).set_result(event)
            elif event["method"] == "Runtime.exceptionThrown":
                self.troubles.append(str(event["params"]["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"):
                self.troubles.append(event["params"]["entry"]["text"])
            elif event["method"] == "Page.downloadProgress" and event["params"]["state"] == "completed":
                self._downloaded.put_nowait(event["params"]["guid"])

    async def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol. Return its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(LIMIT):
            event = await answer
        assert "error" not in event, (method, parameters, event["error"])
        result: dict[str, Any] = event["result"]
        return result

    async def go(self, url: str, width: int, height: int, *, phone: bool = False, scheme: str = "light") -> None:
        """Open an address in a window of this size."""
        for domain in ("Page", "Runtime", "Log"):
            await self.do(f"{domain}.enable")
        await self.do("Page.setDownloadBehavior", behavior="allow", downloadPath=str(self._downloads))
        await self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        await self.colors(scheme)
        await self.do("Page.navigate", url=url)

    async def colors(self, scheme: str) -> None:
        """Ask for `light` or `dark` colours, as the settings of a person do."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.do("Emulation.setEmulatedMedia", features=features)

    async def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = await self.do("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until a condition holds that depends on the document."""
        try:
            await self.value(_WHEN % condition)
        except TimeoutError:
            seen = await self.value("document.body.innerText")
            raise AssertionError(f"never: {condition}; the page: {seen}") from None

    async def text(self, selector: str) -> str:
        """Return the visible text of an element."""
        found = await self.value(f"document.querySelector({json.dumps(selector)}).innerText")
        assert isinstance(found, str)
        return found

    async def click(self, selector: str) -> None:
        """Bring an element into view, and press the mouse where it is; it must be what is there."""
        found = f"document.querySelector({json.dumps(selector)})"
        await self.value(f"{found}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
        x, y = await self.value(
            f"(() => {{ const r = {found}.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }})()"
        )
        assert await self.value(f"{found}.contains(document.elementFromPoint({x}, {y}))"), f"{selector} is covered"
        for kind in ("mousePressed", "mouseReleased"):
            await self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def type(self, selector: str, text: str) -> None:
        """Write into a field instead of what is there."""
        await self.click(selector)
        await self.value("document.activeElement.select()")
        await self.do("Input.insertText", text=text)

    async def download(self, selector: str) -> bytes:
        """Click something that downloads a file. Return the file."""
        before = set(self._downloads.iterdir())
        await self.click(selector)
        async with asyncio.timeout(LIMIT):
            await self._downloaded.get()
        (file,) = set(self._downloads.iterdir()) - before
        return file.read_bytes()

    async def picture(self, path: Path, *, whole: bool = False) -> None:
        """Keep what is seen, or the whole page, as PNG."""
        answer = await self.do("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    async def close(self) -> None:
        await self._socket.close()
        await self._reader


@contextlib.asynccontextmanager
async def browsing(directory: Path) -> AsyncIterator[Tab]:
    """A browser with one empty page; what it downloads is in the directory."""
    with tempfile.TemporaryDirectory(prefix="browser.") as short:  # the path of its socket has at most 107 characters
        async with _started(short) as process:
            port = await _port(process)
            async with ClientSession() as client:
                async with client.get(f"http://127.0.0.1:{port}/json/list") as response:
                    (page,) = [target for target in await response.json() if target["type"] == "page"]
                downloads = directory / "downloads"
                downloads.mkdir()
                tab = Tab(await client.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0), downloads)
                try:
                    yield tab
                    await tab.do("Browser.close")
                finally:
                    await tab.close()


@contextlib.asynccontextmanager
async def _started(home: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process of a browser that keeps its own files in `home`."""
    command = installed()
    assert command is not None
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    process = await asyncio.create_subprocess_exec(
        command,
        *_OPTIONS,
        *root,
        f"--user-data-dir={home}/profile",
        "about:blank",
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": home},
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


async def _port(process: asyncio.subprocess.Process) -> int:
    """Where the browser listens, which it prints."""
    assert process.stderr is not None
    said = b""
    async with asyncio.timeout(LIMIT):
        async for line in process.stderr:
            said += line
            _, mark, rest = line.decode(errors="replace").partition("DevTools listening on ws://127.0.0.1:")
            if mark:
                return int(rest.partition("/")[0])
    raise AssertionError(f"the browser has ended: {said.decode(errors='replace')}")
