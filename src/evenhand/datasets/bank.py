"""UCI Bank marketing: who takes out a term deposit when telephoned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.datasets.base import Coded, Dataset, listed, read, steps, unchanged
from evenhand.spaces.attributes import Attribute, Integer, Nominal, Ordinal

if TYPE_CHECKING:
    import pandas as pd

# The lists stand in the order of UCI's description, because the papers code a text by its place there.
JOB = (
    "admin.", "unknown", "unemployed", "management", "housemaid", "entrepreneur", "student", "blue-collar",
    "self-employed", "retired", "technician", "services",
)  # fmt: skip
MARITAL = ("married", "divorced", "single")
EDUCATION = ("unknown", "secondary", "primary", "tertiary")
CONTACT = ("unknown", "telephone", "cellular")
MONTH = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
POUTCOME = ("unknown", "other", "failure", "success")
NO_YES = ("no", "yes")
NEVER = -1

ATTRIBUTES: tuple[Attribute, ...] = (
    Integer("age", 18, 95),
    Nominal("job", JOB),
    Nominal("marital", MARITAL),
    # "unknown" has no place in an order.
    Nominal("education", EDUCATION),
    Nominal("default", NO_YES),
    Integer("balance", -8_019, 102_127),
    Nominal("housing", NO_YES),
    Nominal("loan", NO_YES),
    Nominal("contact", CONTACT),
    Integer("day", 1, 31),
    Ordinal("month", MONTH),
    Integer("duration", 0, 4_918),
    Integer("campaign", 1, 63),
    Integer("pdays", NEVER, 871),
    Integer("previous", 0, 275),
    Nominal("poutcome", POUTCOME),
)


def _never(column: pd.Series[Any]) -> pd.Series[Any]:
    """Code the days since the last call: 1 if there was none, else 0, though the papers declare -1 to 39."""
    return column == NEVER


PAPER = (
    Coded("age", 1, 9, steps(10)),
    Coded("job", 0, 11, listed(JOB)),
    Coded("marital", 0, 2, listed(MARITAL)),
    Coded("education", 0, 3, listed(EDUCATION)),
    Coded("default", 0, 1, listed(NO_YES)),
    Coded("balance", -20, 179, steps(50, -20, 179)),
    Coded("housing", 0, 1, listed(NO_YES)),
    Coded("loan", 0, 1, listed(NO_YES)),
    Coded("contact", 0, 2, listed(CONTACT)),
    Coded("day", 1, 31, unchanged),
    Coded("month", 0, 11, listed(MONTH)),
    Coded("duration", 0, 99, steps(10, high=99)),
    Coded("campaign", 1, 63, unchanged),
    Coded("pdays", -1, 39, _never),
    Coded("previous", 0, 1, steps(1, high=1)),
    Coded("poutcome", 0, 3, listed(POUTCOME)),
    Coded("y", 0, 1, listed(NO_YES)),
)


def load() -> Dataset:
    """Load Bank marketing.

    >>> load()
    Dataset(name='bank', target='y', favourable='yes', protected=('age',))
    """
    return Dataset(
        name="bank",
        target="y",
        favourable="yes",
        protected=("age",),
        attributes=ATTRIBUTES,
        table=read("bank"),
        paper=PAPER,
    )
