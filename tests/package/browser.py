"""Drives a headless Chromium over its pipe of DevTools messages; needs nothing but the browser."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import unittest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ANSWER_S_MAX = 60


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One page. Clicks and keys are the browser's own, so they go where a person's would."""

    def __init__(self, url, width=1280, height=900, dark=False, touch=False):
        self.folder = tempfile.mkdtemp(prefix="calm-page-")
        theirs_in, self.out = os.pipe()
        self.back, theirs_out = os.pipe()

        def place():
            """The browser reads from descriptor 3 and writes to 4."""
            high = [fcntl.fcntl(number, fcntl.F_DUPFD, 10) for number in (theirs_in, theirs_out)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
        self.process = subprocess.Popen(
            [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--user-data-dir=" + self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=place, close_fds=False)
        os.close(theirs_in)
        os.close(theirs_out)
        self.buffer, self.last, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.back)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise AssertionError("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.events.append(answer)

    def read(self):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.back], [], [], ANSWER_S_MAX)
            data = os.read(self.back, 1 << 16) if ready else b""
            if not data:
                raise AssertionError("the browser does not answer")
            self.buffer += data
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError("%s: %s" % (expression, result["exceptionDetails"]))
        return result["result"].get("value")

    def until(self, expression):
        end = time.monotonic() + ANSWER_S_MAX
        while not self.value(expression):
            if time.monotonic() > end:
                raise AssertionError("never true: " + expression)
            time.sleep(0.02)

    def complaints(self):
        """What the page's script or its loading had to complain about."""
        return [event for event in self.events if event["method"] == "Runtime.exceptionThrown" or
                event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"]

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.events
                if event["method"] == "Network.requestWillBeSent"]

    def click(self, expression):
        """Presses the mouse in the middle of an element."""
        x, y = self.value("(e => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
                          "return [r.x + r.width / 2, r.y + r.height / 2]; })(%s)" % expression)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, name, text=None):
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name,
                  windowsVirtualKeyCode=codes.get(name, 0), **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name,
                  windowsVirtualKeyCode=codes.get(name, 0))

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


class PageTest(unittest.TestCase):
    """Tests of the page `cls.path`, which lies in a folder of its own, `cls.folder`."""
    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def open(self, **more):
        page = Page("file://" + self.path, **more)
        self.addCleanup(page.close)
        return page
