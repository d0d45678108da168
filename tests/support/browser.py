"""A headless Chromium, driven over its DevTools protocol through a pipe: no driver, no port, no package.

Knows the browser; must not know reports.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--remote-debugging-pipe", "--window-size=1280,900"),
)
_TIMEOUT_S = 90


class Browser:
    """One process with a profile of its own; both are gone after the block."""

    def __init__(self) -> None:
        self._profile = Path(tempfile.mkdtemp(prefix="uprscope-chromium-"))
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [shutil.which("chromium") or "chromium", *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        # The protocol is spoken on descriptors 3 and 4.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(20)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(20)
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol, and return its result; events that arrive before it are kept in ``events``."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _TIMEOUT_S
        while True:
            answer = self._next(until)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(until - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser has gone"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def open(self, path: Path, *, script: bool = True, **media: str) -> Page:
        """Open a file in a tab of its own. ``media`` are features such as prefers_color_scheme."""
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events.clear()
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=path.as_uri())
        until = time.monotonic() + _TIMEOUT_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next(until))
        return Page(self)


class Page:
    """A page that has been loaded."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.call = browser.call

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript in the page, and return its value."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def texts(self, selector: str) -> list[str]:
        """Return the text of the elements that can be seen."""
        shown = "e.checkVisibility()"
        found: list[str] = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => {shown}).map(e => e.textContent)"
        )
        return found

    def press(self, key: str, code: int) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def type(self, text: str) -> None:
        """Type text into what has the focus."""
        self.call("Input.insertText", text=text)

    @property
    def fetched(self) -> list[str]:
        """Return every address that was requested, except data URLs."""
        self.run("0")  # after its answer, events of earlier requests have arrived
        asked = [event["params"]["request"]["url"] for event in self._events("Network.requestWillBeSent")]
        return [url for url in asked if not url.startswith("data:")]

    @property
    def complaints(self) -> list[str]:
        """Return what the browser complained about: refused scripts, errors in ours."""
        told = [event["params"]["entry"]["text"] for event in self._events("Log.entryAdded")]
        told += [json.dumps(event["params"]) for event in self._events("Runtime.exceptionThrown")]
        return told + [json.dumps(event["params"]) for event in self._events("Audits.issueAdded")]

    def _events(self, method: str) -> list[dict[str, Any]]:
        return [event for event in self._browser.events if event.get("method") == method]
