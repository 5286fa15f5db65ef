"""Pictures of reports for the pages: ``python docs/images/reports.py``. Needs playwright and Chromium.

Adult and German credit as ``evenhand demo`` audits them, and the net of ``evenhand demo --text``; on a desktop and a
phone, dark and light, and printed.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from evenhand.cli.demo import SAMPLES
from evenhand.demo import DEMOS, demo
from evenhand.demo.text import NOTE, TITLE, text_demo
from evenhand.reports.report import ReportOptions, report

PICTURES = Path(__file__).parent
DESKTOP, PHONE, PAGE = (1100, 900), (360, 740), (794, 1123)
SHOTS: list[tuple[str, str, tuple[int, int], str, str | None]] = [
    ("adult", "report-adult", DESKTOP, "light", None),
    ("adult", "report-adult-dark", DESKTOP, "dark", "examples"),
    ("german", "report-german", DESKTOP, "light", "examples"),
    ("german", "report-german-phone", PHONE, "light", None),
    ("german", "report-german-phone-dark", PHONE, "dark", "examples"),
    ("text", "report-text", DESKTOP, "light", "examples"),
    ("text", "report-text-phone-dark", PHONE, "dark", "examples"),
]
"""The report, the picture, the window, the colours, and the part at its top."""


def reports(folder: Path) -> None:
    """Make the reports."""
    for which in DEMOS:
        done = demo(which)
        report(
            done.run,
            folder / f"{which.name}.html",
            data=done.data,
            favourable=which.favourable,
            y=done.target,
            samples=SAMPLES,
            options=ReportOptions(which.title, which.note, others=[done.baseline]),
        )
    texts = text_demo(epochs=1)
    note = NOTE.format(planted=" or ".join(texts.data.planted))
    report(texts.before.run, folder / "text.html", options=ReportOptions(TITLE, note))


def shoot(browser: Any, folder: Path) -> None:
    """Take the pictures."""
    for name, picture, (width, height), scheme, part in SHOTS:
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.goto((folder / f"{name}.html").as_uri() + (f"#{part}" if part else ""))
        page.screenshot(path=PICTURES / f"{picture}.png")
        page.close()
    page = browser.new_page(viewport={"width": PAGE[0], "height": PAGE[1]})
    page.emulate_media(media="print")
    page.goto((folder / "german.html").as_uri())
    page.add_style_tag(content="body.evenhand { padding: 16mm 15mm }")
    page.screenshot(path=PICTURES / "report-german-print.png")
    page.close()


def main() -> None:
    """Do both."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        reports(Path(folder))
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shoot(browser, Path(folder))
        browser.close()
    for picture in sorted(PICTURES.glob("report-*.png")):
        # A few colours are all that they have.
        Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    main()
