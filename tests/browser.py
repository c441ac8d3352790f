"""A headless Chromium without network, driven through a pipe by its own protocol: no driver, no port."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --use-angle=swiftshader --enable-unsafe-swiftshader --hide-scrollbars "
    "--disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --remote-debugging-pipe --host-resolver-rules='MAP * ~NOTFOUND'"
)
SECONDS = 1200  # that an answer may take


class Browser:
    """Use in a `with`: pages are opened one after the other in one tab."""

    def __enter__(self) -> "Browser":
        self.home = tempfile.mkdtemp()
        (their_in, self._out), (self._in, their_out) = os.pipe(), os.pipe()
        command = f"exec {CHROMIUM} {FLAGS} --user-data-dir={self.home} about:blank 3<&{their_in} 4>&{their_out}"
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        self._count, self._rest, self._loaded, self.console = 0, b"", set(), []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = None
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.call("Network.emulateNetworkConditions", **offline)
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self.home, ignore_errors=True)

    _session: str | None = None

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("Chromium does not answer")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, **params: Any) -> Any:
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        """Keep which documents are loaded, and what a console would show in red."""
        kind, params = event.get("method"), event.get("params", {})
        if kind == "Page.lifecycleEvent" and params["name"] == "load":
            self._loaded.add(params["loaderId"])
        elif kind == "Runtime.exceptionThrown":
            self.console.append(json.dumps(params["exceptionDetails"])[:800])
        elif kind == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.console.append(params["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.console.append(json.dumps(params["args"])[:800])

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description", "an exception"))
        return found["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, page: Path, before: str = "") -> None:
        """Load a file; `before` runs ahead of its own scripts. Returns when all of its document is there."""
        self.console.clear()
        if before:
            script = self.call("Page.addScriptToEvaluateOnNewDocument", source=before)["identifier"]
        document = self.call("Page.navigate", url=page.absolute().as_uri())["loaderId"]
        while document not in self._loaded:
            self._note(self._receive())
        if before:
            self.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """kind: mousePressed, mouseMoved or mouseReleased."""
        held = {"buttons": 1} if kind == "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, **held)

    def click(self, x: float, y: float) -> None:
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}))

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
