"""Chromium without a window, driven through a pipe: the DevTools protocol, with nothing between."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

SECONDS = 60


def program() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-headless-shell",
                                                "google-chrome"))), None)


class Page:
    """One tab.

    Args:
        folder: for its profile.
        dark: whether the system asks for dark colours.
    """

    def __init__(self, folder: Path, dark: bool = False):
        to_it, to_us = os.pipe(), os.pipe()
        self._write, self._read = to_it[1], to_us[0]

        def place():  # Chromium reads from 3 and writes to 4
            os.dup2(to_it[0], 198)
            os.dup2(to_us[1], 199)
            os.dup2(198, 3)
            os.dup2(199, 4)

        self._process = subprocess.Popen(
            [program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--no-first-run", f"--user-data-dir={folder}",
             "--window-size=1200,800", "about:blank"],
            pass_fds=(3, 4, to_it[0], to_us[1]), preexec_fn=place, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_it[0])
        os.close(to_us[1])
        self._buffer, self._number, self._session = b"", 0, None
        self.events = []  # what the page said of itself: messages, violations, requests
        target = next(t["targetId"] for t in self.ask("Target.getTargets")["targetInfos"]
                      if t["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def ask(self, method: str, **given):
        self._number += 1
        message = {"id": self._number, "method": method, "params": given}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _next(self) -> dict:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 16)
            assert piece, "the browser ended"
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def run(self, script: str):
        """The value of an expression."""
        done = self.ask("Runtime.evaluate", expression=script, returnByValue=True,
                        awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, script: str):
        """Waits until an expression is true, and returns it."""
        end = time.monotonic() + SECONDS
        while not (value := self.run(script)):
            assert time.monotonic() < end, (script, self.text())
            time.sleep(0.05)
        return value

    def text(self) -> str:
        """What is to be read."""
        return self.run("document.body.innerText")

    def press(self, key: str, code: int) -> None:
        given = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        if key == "Enter":
            given["text"] = "\r"
        self.ask("Input.dispatchKeyEvent", type="keyDown", **given)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **given)

    def write(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def go(self, url: str) -> None:
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def picture(self, path: Path) -> None:
        import base64

        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
