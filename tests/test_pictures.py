"""The pictures of the pages match their scripts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

IMAGES = Path(__file__).parent.parent / "docs" / "images"


@pytest.mark.slow
@pytest.mark.parametrize("picture", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.name)
def test_a_script_draws_its_picture(picture: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.svg"
    subprocess.run([sys.executable, str(picture.with_suffix(".py")), str(drawn)], check=True, timeout=120)
    # Labels and what there is to see; coordinates may differ in their last digits.
    assert shapes(drawn) == shapes(picture)


def shapes(picture: Path) -> list[str]:
    return re.findall(r'<!-- .*? -->|<g id="[a-z]+', picture.read_text("utf-8"))
