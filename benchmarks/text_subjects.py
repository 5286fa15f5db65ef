"""What is measured of texts: questions, nets, lexicons, and the paper's names of the searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

KINDS = ("lstm", "gru")


def lexicon(name: str) -> Path:
    """Return the lexicon that the papers' tables use; the package's own have grown since.

    >>> lexicon("religion").stem
    'religion'
    """
    return Path(__file__).parent / "lexicons" / f"{name}.toml"


LEXICONS = ("country", "ethnic", "race", "religion")
METHODS = ("RP", "ASC", "ADF-ASC", "HF", "ADF-HF, printed")
FLIPS = ("ADF-ASC", "HF", "ADF-HF, printed", "ADF-HF")
"""Searches that are timed on one net, with both rules of HotFlip."""
WALKS = ("RP", "ADF-ASC")
QUESTIONS = ("nets", "global", "flips", "meaning", "local", "long", "times", "repair")
LONG = ("lstm/race", "gru/race")
"""Subjects whose walks also have as many steps as the paper's."""
SOURCED = ("lstm/race", "gru/ethnic")
"""The two rows of table 14."""
SOURCES = ("ASC", "ADF-ASC", "HF", "ADF-HF, printed")
SUBJECTS = tuple(f"{kind}/{lexicon}" for kind in KINDS for lexicon in LEXICONS)
FULL: dict[str, Any] = {
    "seeds": {"country": 25, "ethnic": 200, "race": 1000, "religion": 200},
    "max_iter": 10,
    "trials": 1000,
    "tests": 10_000_000,
    "findings": 5_000,
    "time_rows": 300_000,
    "repair_rows": 100_000,
    "walk_trials": 20,
    "long_seeds": 25,
    "share": 0.05,
    "measured": 5_000,
    "texts": None,
    "epochs": None,
    "avoid_protected": False,
}
"""The paper's settings but for: fewer texts to start from where a lexicon has many terms (a test of a country is 340
rows, one of a race 11), and walks of 20 steps in the local phase and for repairs, which ask so many rows. Long walks
have all 1,000 steps, from what is found from a few texts."""
USES = {"long": ("long_seeds",)}
"""Settings of one question only."""
QUICK: dict[str, Any] = FULL | {
    "seeds": dict.fromkeys(LEXICONS, 6),
    "max_iter": 2,
    "trials": 4,
    "findings": 5,
    "time_rows": 500,
    "repair_rows": 300,
    "walk_trials": 2,
    "long_seeds": 3,
    "measured": 50,
    "texts": 200,
    "epochs": 1,
}
