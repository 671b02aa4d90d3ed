"""A real browser for pages that noiseaware writes: headless Chromium, as Debian packages it."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

DESK, PHONE = (1200, 900), (360, 740)

SWITCHES = (
    "headless=new", "disable-gpu", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "disable-quic", "disable-dev-shm-usage",
)  # fmt: skip


@contextmanager
def open_browser(folder: Path):
    """Yield a driver with an empty profile in `folder`; skip where there is no Chromium."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("there is no Chromium; on Debian: apt-get install chromium chromium-driver")
    pytest.importorskip("selenium", reason="selenium is missing: make setup")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in SWITCHES:
        options.add_argument(f"--{switch}")
    options.add_argument(f"--user-data-dir={folder / 'chromium'}")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium refuses to run as root with it
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield opened
    finally:
        opened.quit()


def open_page(driver, page: Path, size=DESK) -> None:
    """Open a page in a window of this size."""
    width, height = size
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    driver.get(page.resolve().as_uri())


def assert_page_is_quiet(driver) -> None:
    """Fail on console messages, and on anything loaded."""
    assert driver.title
    assert driver.get_log("browser") == []
    loaded = driver.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert [name for name in loaded if not name.startswith("data:")] == []


def assert_page_is_whole(driver, page: Path, size=DESK) -> None:
    """Open a page; fail on console messages, on anything loaded, on pictures not shown."""
    open_page(driver, page, size)
    assert_page_is_quiet(driver)
    hidden = driver.execute_script(
        "return [...document.images].filter(i => !i.complete || i.naturalWidth === 0).length"
    )
    assert hidden == 0
    assert driver.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    ), "the page is wider than the window"
