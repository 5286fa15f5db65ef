"""What is measured of texts: questions, nets, lexicons, and the paper's names of the searches."""

from __future__ import annotations

from typing import Any

KINDS = ("lstm", "gru")
LEXICONS = ("country", "ethnic", "race", "religion")
METHODS = ("RP", "ASC", "ADF-ASC", "HF", "ADF-HF")
WALKS = ("RP", "ADF-ASC")
QUESTIONS = ("global", "local", "times", "repair", "sources")
SOURCED = ("lstm/race", "gru/ethnic")
"""The two rows of table 14."""
SUBJECTS = tuple(f"{kind}/{lexicon}" for kind in KINDS for lexicon in LEXICONS)
ROWS = (
    *(f"{question}/{subject}" for question in QUESTIONS[:4] for subject in SUBJECTS),
    *(f"sources/{subject}" for subject in SOURCED),
)
PAPER: dict[str, Any] = {
    "seeds": dict.fromkeys(LEXICONS, 1000),
    "max_iter": 10,
    "trials": 1000,
    "tests": 10_000_000,
    "findings": 5_000,
    "time_rows": 50_000_000,
    "repair_rows": 10_000_000,
    "share": 0.05,
    "measured": 20_000,
    "texts": None,
    "epochs": None,
    "avoid_protected": False,
}
SHORT: dict[str, Any] = PAPER | {
    "seeds": {"country": 25, "ethnic": 200, "race": 1000, "religion": 200},
    "trials": 20,
    "time_rows": 300_000,
    "repair_rows": 100_000,
    "measured": 5_000,
}
"""Fewer texts to start from where a lexicon has many terms (a test of a country is 340 rows, one of a race 11); walks
of 20 steps from each text that was found, where the paper's have 1,000."""
TINY: dict[str, Any] = PAPER | {
    "seeds": dict.fromkeys(LEXICONS, 12),
    "max_iter": 3,
    "trials": 4,
    "findings": 20,
    "time_rows": 1_000,
    "repair_rows": 1_000,
    "measured": 200,
    "texts": 400,
    "epochs": 1,
}
"""To see that everything runs."""
SIZES = {"paper": PAPER, "short": SHORT, "tiny": TINY}
