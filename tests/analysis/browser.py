"""Drives headless Chromium over its DevTools pipe: no driver, no socket, no further dependency.

`python tests/analysis/browser.py report.html WIDTH out.png [dark]` takes a full-page screenshot.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
]


class Page:
    """One page of one browser; `requests` and `errors` collect what happens on it."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()

        def wire() -> None:  # Chromium reads commands on descriptor 3 and answers on 4
            kept_in, kept_out = os.dup(to_read), os.dup(from_write)
            os.dup2(kept_in, 3)
            os.dup2(kept_out, 4)

        self.process = subprocess.Popen(
            [str(CHROMIUM), *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=wire,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        self.buffer, self.count, self.session = b"", 0, ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.count:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])

    def receive(self, timeout: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_read], [], [], end - time.monotonic())
            assert ready, "Chromium did not answer"
            chunk = os.read(self.from_read, 1 << 20)
            assert chunk, "Chromium closed its pipe"
            self.buffer += chunk
        raw, _, self.buffer = self.buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        self.note(message.get("method", ""), message.get("params", {}))
        return message

    def note(self, event: str, details: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(details["exceptionDetails"])[:400])
        elif event == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning"):
            self.errors.append(json.dumps(details["args"])[:400])
        elif event == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.errors.append(details["entry"]["text"])
        elif event == "Page.loadEventFired":
            self.loaded = True

    def open(self, path: Path) -> None:
        self.loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self.loaded:
            self.receive()
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, path: Path, dark: bool = False, clip: str = "") -> None:
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        if not clip:
            height = self.run("document.documentElement.scrollHeight")
            width = self.run("document.documentElement.clientWidth")
            area = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
            picture = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=area)
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        os.close(self.to_write)
        os.close(self.from_read)
        shutil.rmtree(self.profile, ignore_errors=True)


if __name__ == "__main__":
    page = Page(int(sys.argv[2]))
    try:
        page.open(Path(sys.argv[1]))
        page.screenshot(Path(sys.argv[3]), dark="dark" in sys.argv)
        print(len(page.requests), "requests", page.errors)
    finally:
        page.close()
