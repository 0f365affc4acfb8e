"""A real browser for tests: Debian's Chromium by its own driver, without a window."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from requirement import missing
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

WAIT_S = 15.0
T = TypeVar("T")


class Browser:
    """One window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, width: int = 1280, height: int = 900) -> None:
        """A page, with nothing left of any before it."""
        self.driver.get_log("browser")
        self.size(width, height)
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "all"})
        self.driver.get(url)

    def size(self, width: int, height: int = 900) -> None:
        """Of what is seen of the page: a window cannot be as narrow as a telephone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """``dark`` or ``light``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def text(self, selector: str) -> str:
        """What stands there now, seen or not."""
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def run(self, script: str, *arguments: object) -> T:
        """What a script of ours finds on the page."""
        return self.driver.execute_script(script, *arguments)

    def click(self, words: str) -> None:
        """The button that says so, once it is there."""
        path = f"//button[normalize-space()='{words}']"
        self.until(lambda: any(each.is_displayed() for each in self.driver.find_elements(By.XPATH, path)))
        self.driver.find_element(By.XPATH, path).click()

    def write(self, selector: str, words: str) -> None:
        """Into a field."""
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(words)

    def until(self, holds: Callable[[], T], wait_s: float = WAIT_S) -> T:
        """What that gives once it is true."""
        return WebDriverWait(self.driver, wait_s, poll_frequency=0.05).until(lambda _: holds())

    def complaints(self) -> list[str]:
        """What the browser found wrong since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def started() -> Iterator[Browser]:
    """The test is skipped, or fails in CI, where there is none."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        missing("no browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for each in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--force-prefers-no-reduced-motion",
    ):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()
