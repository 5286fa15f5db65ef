"""UCI Statlog German credit: who is a good and who a bad credit risk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.base import Coded, Dataset, listed, read, steps, unchanged
from evenhand.spaces.attributes import Attribute, Integer, Nominal, Ordinal

if TYPE_CHECKING:
    import pandas as pd

# The lists stand in the order of UCI's codes (A11, A12, ...), because the papers number those.
CHECKING_STATUS = ("below 0 DM", "0 to 199 DM", "200 DM or more", "no account")
CREDIT_HISTORY = (
    "none taken or all paid back", "all at this bank paid back", "existing ones paid back so far",
    "delays in the past", "critical or credits elsewhere",
)  # fmt: skip
PURPOSE = (
    "new car", "used car", "furniture", "radio or television", "appliances", "repairs", "education",
    "vacation", "retraining", "business", "other",
)  # fmt: skip
SAVINGS = ("below 100 DM", "100 to 499 DM", "500 to 999 DM", "1000 DM or more", "unknown or none")
EMPLOYMENT = ("unemployed", "under 1 year", "1 to under 4 years", "4 to under 7 years", "7 years or more")
SEX = ("male", "female")
MARITAL_STATUS = ("single", "married or once married")
OTHER_DEBTORS = ("none", "co-applicant", "guarantor")
PROPERTY = ("real estate", "savings agreement or life insurance", "car or other", "unknown or none")
OTHER_INSTALLMENTS = ("bank", "stores", "none")
HOUSING = ("rent", "own", "for free")
JOB = (
    "unemployed or unskilled non-resident", "unskilled resident", "skilled or official",
    "management or self-employed",
)  # fmt: skip
TELEPHONE = ("no", "yes")
FOREIGN_WORKER = ("yes", "no")
CREDIT_RISK = ("bad", "good")

ATTRIBUTES: tuple[Attribute, ...] = (
    Nominal("checking_status", CHECKING_STATUS),
    Integer("duration", 4, 72),
    Nominal("credit_history", CREDIT_HISTORY),
    # UCI's table has a code for a vacation, but no credit was for one.
    Nominal("purpose", [purpose for purpose in PURPOSE if purpose != "vacation"]),
    Integer("credit_amount", 250, 18_424),
    Nominal("savings", SAVINGS),
    Ordinal("employment", EMPLOYMENT),
    Integer("installment_rate", 1, 4),
    Nominal("sex", SEX),
    Nominal("marital_status", MARITAL_STATUS),
    Nominal("other_debtors", OTHER_DEBTORS),
    Integer("residence_since", 1, 4),
    Nominal("property", PROPERTY),
    Integer("age", 19, 75),
    Nominal("other_installments", OTHER_INSTALLMENTS),
    Nominal("housing", HOUSING),
    Integer("existing_credits", 1, 4),
    Ordinal("job", JOB),
    Integer("dependents", 1, 2),
    Nominal("telephone", TELEPHONE),
    Nominal("foreign_worker", FOREIGN_WORKER),
)

PAPER = (
    Coded("checking_status", 0, 3, listed(CHECKING_STATUS)),
    Coded("duration", 1, 80, unchanged),
    Coded("credit_history", 0, 4, listed(CREDIT_HISTORY)),
    Coded("purpose", 0, 10, listed(PURPOSE)),
    Coded("credit_amount", 1, 200, steps(100)),
    Coded("savings", 0, 4, listed(SAVINGS)),
    Coded("employment", 0, 4, listed(EMPLOYMENT)),
    Coded("installment_rate", 1, 4, unchanged),
    Coded("sex", 0, 1, listed(SEX)),
    Coded("other_debtors", 0, 2, listed(OTHER_DEBTORS)),
    Coded("residence_since", 1, 4, unchanged),
    Coded("property", 0, 3, listed(PROPERTY)),
    Coded("age", 1, 8, steps(10)),
    Coded("other_installments", 0, 2, listed(OTHER_INSTALLMENTS)),
    Coded("housing", 0, 2, listed(HOUSING)),
    Coded("existing_credits", 1, 4, unchanged),
    Coded("job", 0, 3, listed(JOB)),
    Coded("dependents", 1, 2, unchanged),
    Coded("telephone", 0, 1, listed(TELEPHONE)),
    Coded("foreign_worker", 0, 1, listed(FOREIGN_WORKER)),
    Coded("class", 0, 1, listed(CREDIT_RISK), source="credit_risk"),
)


def load() -> Dataset:
    """Load Statlog German credit.

    >>> load()
    Dataset(name='german', target='credit_risk', favourable='good', protected=('sex',))
    """
    return Dataset(
        name="german",
        target="credit_risk",
        favourable="good",
        protected=("sex",),
        attributes=ATTRIBUTES,
        table=_apart(read("german")),
        paper=PAPER,
    )


def _apart(table: pd.DataFrame) -> pd.DataFrame:
    """Take sex and marital status apart, which UCI has in one column.

    UCI's words for men's states are not those for women's ("divorced/separated/married"): they would give the
    sex away, and could not be kept when it changes. Single or not is what UCI says of both.
    """
    words = table["personal_status_sex"].str.split(": ", expand=True)
    single, other = MARITAL_STATUS
    return table.assign(sex=words[0], marital_status=words[1].where(words[1] == single, other))
