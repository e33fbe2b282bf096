"""A real Chromium without a window, driven over the pipe of its DevTools protocol."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE_S = 60.0
_MOST_TABS = 200
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)


class PageError(AssertionError):
    """The browser refused a command, or a script failed in the page."""


class Chromium:
    """A browser with one page. Closing it ends all processes that it started."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("chromium")
        assert program is not None, "chromium is not installed"
        ours, theirs = (
            os.pipe(),
            os.pipe(),
        )  # the pipe that the browser reads, and the pipe that it writes
        words = [program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        with (folder.parent / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}', "bash", *words],
                pass_fds=(ours[0], theirs[1]),
                stdout=log,
                stderr=log,
            )
        os.close(ours[0])
        os.close(theirs[1])
        self._write = os.fdopen(ours[1], "wb", buffering=0)
        self._read = os.fdopen(theirs[0], "rb", buffering=0)
        self._rest = b""
        self._number = 0
        self._session = ""
        self.errors: list[str] = []
        """The console output and the uncaught errors of all pages."""
        self._traced: list[dict[str, Any]] = []
        self._tracing = False
        self._open()

    def _open(self) -> None:
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.tell("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log", "Performance"):
            self.tell(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._write.close()  # the browser ends when its pipe is closed
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._read.close()

    # -- the protocol -------------------------------------------------------------------------

    def tell(self, method: str, **parameters: Any) -> Any:
        """Send a command and return the browser's answer. Raise PageError."""
        self._number += 1
        message: dict[str, Any] = {
            "id": self._number,
            "method": method,
            "params": parameters,
        }
        if self._session and not method.startswith("Target."):
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            received = self._next()
            if received.get("id") == self._number:
                if "error" in received:
                    raise PageError(f"{method}: {received['error']}")
                return received["result"]
            self._heard(received)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = self._read.read(1 << 16)
            if not piece:
                raise PageError("the browser has ended")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _heard(self, event: Mapping[str, Any]) -> None:
        name, about = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.errors.append(str(about["exceptionDetails"]))
        elif name == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif name == "Tracing.dataCollected":
            self._traced += about["value"]
        elif name == "Tracing.tracingComplete":
            self._tracing = False
        elif name == "Runtime.consoleAPICalled" and about["type"] in {"error", "warning"}:
            self.errors.append(str(about["args"]))

    # -- actions of users ---------------------------------------------------------------------

    def size(self, width: int, height: int, *, phone: bool = False, dark: bool = False) -> None:
        """Set the size of the window."""
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])

    def go(self, address: str) -> None:
        """Open a page, and wait until it is loaded."""
        self.tell("Page.navigate", url=address)
        self.until("document.readyState === 'complete'", f"{address} loaded")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page. Raise PageError."""
        reply = self.tell(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in reply:
            raise PageError(f"{script}: {reply['exceptionDetails']}")
        return reply["result"].get("value")

    def until(self, script: str, what: str, met: Callable[[Any], bool] = bool) -> Any:
        """Wait until an expression is true, and return its value."""
        ending = time.monotonic() + PATIENCE_S
        while True:
            try:
                value = self.run(script)
            except PageError:  # the page is being replaced by another
                value = None
            if met(value):
                return value
            if time.monotonic() > ending:
                where = self.run("location.href + ' ' + document.body.innerText.slice(0, 300)")
                raise PageError(f"{what}: not within {PATIENCE_S:g} s; {where}; {self.errors}")
            time.sleep(0.05)

    def there(self, selector: str, what: str) -> None:
        """Wait until an element with this selector is in the page."""
        self.until(f"Boolean(document.querySelector({json.dumps(selector)}))", what)

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """Press and release a key."""
        words = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        key_text = {"text": text} if text else {}
        self.tell("Input.dispatchKeyEvent", type="keyDown", **words, **key_text)
        self.tell("Input.dispatchKeyEvent", type="keyUp", **words)

    def tab(self) -> None:
        """Press Tab, which moves the focus to the next element."""
        self.press("Tab", 9)

    def tab_to(self, selector: str) -> None:
        """Press Tab until an element has the focus, and check that the focus is visible."""
        for _ in range(_MOST_TABS):
            self.tab()
            there = "document.activeElement"
            if self.run(f"{there}.matches({json.dumps(selector)})"):
                assert self.run(f"{there}.matches(':focus-visible')"), selector
                return
        raise AssertionError(f"{selector} is not reached by the Tab key")

    def point(self, x: float, y: float) -> None:
        """Move the mouse to this point."""
        self.tell("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def enter(self) -> None:
        """Press Enter."""
        self.press("Enter", 13, "\r")

    def type(self, text: str) -> None:
        """Type a text."""
        self.tell("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click an element, and wait until the next page is loaded."""
        self.run("window.left = false")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.until("window.left === undefined && document.readyState === 'complete'", selector)

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        self.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(text)}")

    def sign_in(self, address: str, login: str) -> None:
        """Sign in as a user of OpenNebula."""
        user, _, password = login.partition(":")
        self.tell("Network.clearBrowserCookies")
        self.go(f"{address}sign-in")
        self.fill("#user", user)
        self.fill("#password", password)
        self.click("form button")

    @contextmanager
    def traced(self, *categories: str) -> Iterator[list[dict[str, Any]]]:
        """Record the browser's events; the list is complete when the context has ended."""
        events: list[dict[str, Any]] = []
        self._traced = events
        config = {"includedCategories": list(categories), "excludedCategories": ["*"]}
        self.tell("Tracing.start", transferMode="ReportEvents", traceConfig=config)
        try:
            yield events
        finally:
            self._tracing = True
            self.tell("Tracing.end")
            while self._tracing:
                self._heard(self._next())

    def picture(self) -> bytes:
        """Return the visible page as a PNG."""
        reply = self.tell("Page.captureScreenshot", format="png")
        return base64.b64decode(reply["data"])
