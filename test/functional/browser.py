"""A real Chromium for the tests of the dashboard, and axe-core as the judge of its accessibility."""

import base64
import importlib.util
import json
import pathlib
import shutil
import tempfile
import urllib.parse

import basics
import webhooks

CHROMIUM = "/usr/bin/chromium"
DRIVER = "/usr/bin/chromedriver"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",
]
PATIENCE_S = 60
SERIOUS = {"serious", "critical"}


def available():
    """Skips the test where there is no Chromium; on a machine of the CI that is a failure."""
    is_there = importlib.util.find_spec("selenium") and all(pathlib.Path(path).exists() for path in (CHROMIUM, DRIVER))
    return is_there or basics.skip("there is no Chromium to drive (Debian: chromium, chromium-driver, python3-selenium)")


class Browser:
    """One Chromium with one tab. `open` begins with an empty session, as a new user has it."""

    def __init__(self):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        self.folder = tempfile.mkdtemp(prefix="chromium-")
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in [*ARGUMENTS, f"--user-data-dir={self.folder}"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.driver.set_script_timeout(PATIENCE_S)
        self.hosts = set()
        self.messages = []

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, url, width=1280, height=900, scheme="light", key=None, script=""):
        """A fresh tab session at that URL. `script` runs before those of the page."""
        self.note_logs()
        self.hosts.clear()
        self.messages.clear()
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        begin = "sessionStorage.clear(); localStorage.clear();"
        if key:
            begin += f"sessionStorage.setItem('smart-router-key', {json.dumps(key)});"
        injected = self.cdp("Page.addScriptToEvaluateOnNewDocument", source=begin + script)["identifier"]
        self.driver.get(url + "/")
        self.cdp("Page.removeScriptToEvaluateOnNewDocument", identifier=injected)

    def cdp(self, command, **parameters):
        return self.driver.execute_cdp_cmd(command, parameters)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, css):
        return self.driver.find_element("css selector", css)

    def count(self, css):
        return len(self.driver.find_elements("css selector", css))

    def text(self, css):
        """What a person can read there; "" if there is no such element."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def wait(self, condition, what):
        return basics.wait_until(condition, f"{what}; the page shows: {self.text('body')[:2000]}", PATIENCE_S)

    def wait_text(self, css, part):
        return self.wait(lambda: part in self.text(css), f"{css} has {part!r}, not {self.text(css)!r}")

    def _click(self, css, is_right, what):
        """The page may draw an element anew between two requests of the driver: then the new one is clicked."""
        from selenium.common.exceptions import StaleElementReferenceException

        def clicked():
            try:
                for one in self.driver.find_elements("css selector", css):
                    if one.is_displayed() and is_right(one):
                        one.click()
                        return True
            except StaleElementReferenceException:
                pass
            return False

        self.wait(clicked, what)

    def click(self, css):
        self._click(css, lambda one: True, f"there is {css}")

    def click_button(self, label, inside="body"):
        """The visible button with that text."""
        self._click(f"{inside} button", lambda one: one.text.strip() == label, f"there is a button {label!r} in {inside}")

    def fill(self, css, text):
        self.run("const e = document.querySelector(arguments[0]); e.value = arguments[1];"
                 "e.dispatchEvent(new Event('input', {bubbles: true}))", css, text)

    def note_logs(self):
        """Reads the logs of the browser: they are empty afterwards."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = urllib.parse.urlsplit(message["params"]["request"]["url"])
                if url.scheme not in ("chrome", "about", "data", "blob"):  # of the browser itself
                    self.hosts.add(url.netloc)
        self.messages += self.driver.get_log("browser")

    def problems(self, allowed=()):
        """Messages of the console, but for answers 4xx to paths that end like `allowed`."""
        self.note_logs()
        return [
            one["message"]
            for one in self.messages
            if not (one["source"] == "network" and any(f"{path} - Failed" in one["message"] for path in allowed))
        ]

    def barriers(self):
        """What axe-core finds that is serious or worse: a line for each."""
        axe = pathlib.Path(webhooks.need_judges()["modules"]) / "axe-core" / "axe.min.js"
        self.cdp("Runtime.evaluate", expression=axe.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script("axe.run(document).then(arguments[0])")
        assert found["passes"], "axe-core has looked at nothing"
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:200] + ' ' + node['failureSummary'][:300] for node in one['nodes'][:3]]}"
            for one in found["violations"]
            if one["impact"] in SERIOUS
        ]

    def picture(self, path):
        """Of the page, at most 1,100 pixels high."""
        height = min(1100, self.run("return document.documentElement.scrollHeight"))
        width = self.run("return window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.cdp("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
