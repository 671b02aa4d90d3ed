"""Make docs/pictures/report.png: the top of the report on the survey of exercise and pulse.

Needs Chromium (on Debian: `apt-get install chromium chromium-driver`) and the development
environment (`make setup`).
"""

import base64
import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

HERE = Path(__file__).parent
OUT = HERE.parent / "docs" / "pictures" / "report.png"
WIDTH, HEIGHT = 900, 960


def write_page(path: Path) -> None:
    fit = ["fit", HERE / "exercise_release.json", "--model", HERE / "exercise_model.toml"]
    out = ["--out", path.with_suffix(".nc"), "--report", path, "--seed", "1", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "noiseaware", *map(str, (*fit, *out))],
        check=True,
        capture_output=True,
    )


def photograph(page: Path, profile: str) -> bytes:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-quic", "--hide-scrollbars", f"--user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(page.as_uri())
        return base64.b64decode(driver.get_screenshot_as_base64())
    finally:
        driver.quit()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_page(page)
        picture = Image.open(io.BytesIO(photograph(page, folder)))
    OUT.parent.mkdir(exist_ok=True)
    # 64 colours suffice and keep the file small.
    picture.convert("RGB").quantize(64).save(OUT, optimize=True)
    print(f"Written: {OUT.relative_to(HERE.parent)}, {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
