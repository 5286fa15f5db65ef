"""Pictures of reports for the pages: ``python docs/images/reports.py [FOLDER]``. Needs playwright, Pillow and Chromium.

Adult and German credit as ``evenhand demo`` audits them, the net of ``evenhand demo --text``, and generated data: a
regression, a model without findings, nine values, and 200 columns. A sheet for each has its top on a desktop and a
phone, light and dark, and printed; other pictures show one part.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import evenhand as eh
from evenhand.cli.demo import SAMPLES
from evenhand.demo import DEMOS, demo
from evenhand.demo.text import NOTE, TITLE, text_demo
from evenhand.reports.report import ReportOptions, report

PICTURES = Path(__file__).parent
WINDOWS = {"desktop": (1280, 1900), "phone": (390, 1900), "page": (794, 1900)}
FORMS = [("desktop", "light"), ("desktop", "dark"), ("phone", "light"), ("phone", "dark"), ("page", "print")]
"""What a sheet has beside each other, at half its size."""
KINDS = ["adult", "german", "text", "regression", "nothing", "many", "wide"]
PARTS = [
    ("adult", "report-adult-where", "light", "regions"),
    ("adult", "report-adult-size-dark", "dark", "size"),
    ("german", "report-german-examples", "light", "examples"),
    ("regression", "report-regression-gains", "light", "comparisons"),
    ("many", "report-many-gains", "light", "comparisons"),
    ("text", "report-text-examples", "light", "examples"),
]
"""The report, the picture, the colours, and the part that it shows."""
GAP, HIGH = 12, 950


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

    generated(folder)


def generated(folder: Path) -> None:
    """Make the reports of generated data."""
    random = np.random.default_rng(0)
    n = 2_000
    people = pd.DataFrame(
        {
            "age": random.integers(18, 66, n),
            "hours": random.integers(10, 61, n),
            "sex": random.choice(["F", "M"], n),
            "origin": random.choice([f"region {letter}" for letter in "ABCDEFGHI"], n),
            **{f"item_{i:03}": random.integers(0, 10, n) for i in range(196)},
        }
    )
    few = ["age", "hours", "sex", "origin"]

    def pay(frame: pd.DataFrame) -> Any:
        return 900.0 + 25 * frame["hours"] + 6 * frame["age"] + 140 * (frame["sex"] == "M") * (frame["hours"] > 35)

    def by_origin(frame: pd.DataFrame) -> Any:
        rank = frame["origin"].astype(str).str[-1].map({letter: i for i, letter in enumerate("ABCDEFGHI")})
        return np.where(frame["hours"] + frame["age"] / 2 - rank.to_numpy(float) > 48, "granted", "refused")

    def wide(frame: pd.DataFrame) -> Any:
        points = frame[["item_000", "item_001"]].sum(axis=1) + 3 * (frame["sex"] == "M")
        return np.where(points > 9, "granted", "refused")

    def fair(frame: pd.DataFrame) -> Any:
        return np.where(frame["hours"] > 35, "granted", "refused")

    cases: dict[str, tuple[Any, list[str], str, Any, Any]] = {
        "regression": (eh.wrap(pay, regression=True), few, "sex", "higher", eh.Gap(50)),
        "many": (by_origin, few, "origin", "granted", None),
        "wide": (wide, list(people), "sex", "granted", None),
        "nothing": (fair, few, "sex", "granted", None),
    }
    for name, (model, columns, protected, favourable, criterion) in cases.items():
        data = people[columns]
        space = eh.Space.infer(data, protected=protected)
        run = eh.audit(model, space, budget=3_000, data=data, criterion=criterion, progress=False)
        report(run, folder / f"{name}.html", data=data, favourable=favourable, samples=4_000)


def shoot(browser: Any, folder: Path) -> None:
    """Take the pictures."""
    from PIL import Image

    for kind in KINDS:
        shots = [taken(browser, folder / f"{kind}.html", folder / "shot.png", *form) for form in FORMS]
        halves = [shot.resize((shot.width // 2, shot.height // 2), Image.Resampling.LANCZOS) for shot in shots]
        sheet = Image.new("RGB", (sum(one.width + GAP for one in halves) - GAP, HIGH), "#8a8a8a")
        for place, one in enumerate(halves):
            sheet.paste(one, (sum(before.width + GAP for before in halves[:place]), 0))
        saved(sheet, f"report-{kind}")
    saved(
        taken(browser, folder / "adult.html", folder / "shot.png", "desktop", "light").crop((0, 0, 1280, 900)), "report"
    )
    for kind, picture, scheme, part in PARTS:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
        page.goto((folder / f"{kind}.html").as_uri())
        page.locator(f"section[aria-labelledby={part}]").screenshot(path=folder / "shot.png")
        page.close()
        shot = Image.open(folder / "shot.png").convert("RGB")
        saved(shot.crop((0, 0, shot.width, min(shot.height, 1_000))), picture)


def taken(browser: Any, report: Path, place: Path, window: str, scheme: str) -> Any:
    """Take a picture of the top of a report."""
    from PIL import Image

    width, height = WINDOWS[window]
    colours = "light" if scheme == "print" else scheme
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
    page.goto(report.as_uri())
    if scheme == "print":
        page.emulate_media(media="print")
        page.add_style_tag(content="body.evenhand { padding: 16mm 15mm }")
    page.screenshot(path=place)
    page.close()
    return Image.open(place).convert("RGB").copy()


def saved(picture: Any, name: str) -> None:
    """Save a picture; a few colours are all that it has."""
    from PIL import Image

    picture.quantize(64, dither=Image.Dither.NONE).save(PICTURES / f"{name}.png", optimize=True)


def main() -> None:
    """Make the reports, or use those in a folder, and take the pictures."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder)
        if place == Path(folder):
            reports(place)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shoot(browser, place)
        browser.close()


if __name__ == "__main__":
    main()
