"""A headless Chromium over its DevTools protocol, as far as the tests need it."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import websocket

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
    "--hide-scrollbars",
]  # fmt: skip


class Browser:
    """One page; `events` are all messages of the browser: requests, console, errors."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        port = ["--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={self.folder}"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([CHROMIUM, *QUIET, *port, "about:blank"], **silent)
        self.events, self.calls, self.session = [], 0, None
        try:
            self.socket = websocket.create_connection(self._address(), timeout=30)
            pages = self.call("Target.getTargets")["targetInfos"]
            target = next(one["targetId"] for one in pages if one["type"] == "page")
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def _address(self):
        file = Path(self.folder, "DevToolsActivePort")
        for _ in range(600):
            lines = file.read_text().splitlines() if file.exists() else []
            if len(lines) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError("Chromium did not start.")

    def close(self):
        if hasattr(self, "socket"):
            self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **params):
        """Call a method of the protocol; events that arrive meanwhile are recorded."""
        self.calls += 1
        session = {} if self.session is None else {"sessionId": self.session}
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": params, **session}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.calls:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, place, width=1200, height=900, dark=False):
        """Load a file or an address in a window of this size, and wait until its scripts have run."""
        self.resize(width, height)
        self.prefer(dark)
        self.events.clear()
        is_address = str(place).startswith("http://")
        self.call("Page.navigate", url=place if is_address else Path(place).resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(json.loads(self.socket.recv()))

    def resize(self, width, height=900):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, dark):
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def script(self, enabled):
        """Turn the page's own JavaScript on or off."""
        self.call("Emulation.setScriptExecutionDisabled", value=not enabled)

    def ask(self, expression):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, expression, seconds=20):
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.ask(expression):
            assert time.monotonic() < end, f"{expression} is still false"
            time.sleep(0.02)

    def choose_file(self, id_, path):
        """Choose a file in the input of this id, as a person does in a dialog."""
        found = self.call("Runtime.evaluate", expression=f"document.getElementById('{id_}')")["result"]
        self.call("DOM.setFileInputFiles", files=[str(path)], objectId=found["objectId"])

    def press(self, key, times=1):
        """Press a key on the focused element."""
        codes = {
            "ArrowRight": 39,
            "ArrowLeft": 37,
            "Home": 36,
            "End": 35,
            "Tab": 9,
            "Enter": 13,
            "PageUp": 33,
        }
        words = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown", **words, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **words)

    def requests(self):
        """The URLs requested since the page was opened."""
        sent = [one["params"] for one in self.events if one.get("method") == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent]

    def complaints(self):
        """Errors and warnings of the console, and exceptions, since the page was opened."""
        complaints = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                complaints.append(params["exceptionDetails"].get("exception", params["exceptionDetails"]))
            if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                complaints.append([one.get("value", one.get("description")) for one in params["args"]])
            if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                complaints.append(params["entry"]["text"])
        return complaints

    def picture(self, path, whole=True):
        """Save the whole page, or what the window shows, as PNG."""
        options = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {**size, "x": 0, "y": 0, "scale": 1}
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))

    def paper(self, path):
        """Save the page as it is printed, as PDF."""
        document = self.call("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        Path(path).write_bytes(base64.b64decode(document["data"]))
