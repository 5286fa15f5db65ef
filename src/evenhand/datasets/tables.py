"""The public data sets: frames, with a space on the raw columns and the coding of the papers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from evenhand.spaces.attributes import Attribute, Integer, Nominal, Ordinal
from evenhand.spaces.frames import pd
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    Code = Callable[[pd.Series[Any]], pd.Series[Any]]

Links = Mapping[str, Mapping[str, Mapping[Any, Mapping[Any, Any]]]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with the space of its individuals.

    Attributes
    ----------
    name
        What ``load`` knows it by.
    target
        The column that a model predicts.
    favourable
        The outcome that people want.
    protected
        The attributes that must not matter, unless ``space`` is told otherwise.
    attributes
        The columns that a model is trained on, as attributes of a space.
    links
        Attributes that follow a protected one, for every attribute that may be protected.
    table
        Every column of the embedded file, and those derived from it.
    paper
        The columns as the papers code them, the label last.
    paper_train_only
        Whether the papers use the training rows only.

    Examples
    --------
    >>> from evenhand import datasets
    >>> german = datasets.load("german")
    >>> german.target, german.favourable, german.protected
    ('credit_risk', 'good', ('sex',))
    >>> len(german.train), len(german.test)
    (700, 300)
    """

    name: str
    target: str
    favourable: str
    protected: tuple[str, ...]
    attributes: tuple[Attribute, ...] = field(repr=False)
    table: pd.DataFrame = field(repr=False)
    paper: tuple[Coded, ...] = field(repr=False)
    links: Links = field(default_factory=dict, repr=False)
    paper_train_only: bool = field(default=False, repr=False)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that a model is trained on.

        >>> from evenhand import datasets
        >>> datasets.load("adult").features[:4]
        ('age', 'workclass', 'education', 'marital_status')
        """
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All rows: the features, then the target.

        >>> from evenhand import datasets
        >>> datasets.load("adult").frame.shape
        (48842, 13)
        """
        return self.table[[*self.features, self.target]]

    @cached_property
    def train(self) -> pd.DataFrame:
        """The rows to fit a model on: Adult's own split, seven tenths of the others.

        >>> from evenhand import datasets
        >>> datasets.load("adult").train.shape
        (32561, 13)
        """
        return self.frame[self.table["split"] == "train"]

    @cached_property
    def test(self) -> pd.DataFrame:
        """The rows that are not for fitting.

        >>> from evenhand import datasets
        >>> datasets.load("adult").test.shape
        (16281, 13)
        """
        return self.frame[self.table["split"] == "test"]

    def space(self, protected: str | Sequence[str] | None = None) -> Space:
        """Give the space of the raw columns, with bounds that cover every row.

        >>> from evenhand import datasets
        >>> datasets.load("adult").space(protected=["race", "sex"]).protected
        ('race', 'sex')
        """
        names = self._protected(protected)
        links = {
            name: {free: by_value for free, by_value in self.links[name].items() if free not in names}
            for name in names
            if name in self.links
        }
        return Space(self.attributes, protected=names, links={name: d for name, d in links.items() if d})

    def paper_space(self, protected: str | Sequence[str] | None = None) -> Space:
        """Give the space in the papers' integer coding, with the domains that they declare and no links.

        >>> from evenhand import datasets
        >>> datasets.load("adult").paper_space().attributes[0]
        Integer(name='age', dtype=None, low=1, high=9, step=1, missing=False)
        """
        columns = [Integer(column.name, column.low, column.high) for column in self.paper[:-1]]
        return Space(columns, protected=self._protected(protected))

    def paper_frame(self) -> pd.DataFrame:
        """Give the rows in the integer coding of the papers, the label last (1 is the favourable outcome).

        As in the papers' own files, some values lie outside the domains of ``paper_space``.

        >>> from evenhand import datasets
        >>> datasets.load("adult").paper_frame().iloc[0].tolist()
        [3, 5, 3, 0, 2, 8, 3, 0, 1, 2, 0, 40, 0, 0]
        """
        table = self.table
        if self.paper_train_only:
            table = table[table["split"] == "train"]
        return pd.DataFrame({column.name: column.column(table) for column in self.paper})

    def _protected(self, protected: str | Sequence[str] | None) -> tuple[str, ...]:
        if protected is None:
            return self.protected
        return (protected,) if isinstance(protected, str) else tuple(protected)


@dataclass(frozen=True)
class Coded:
    """One column as the papers code it: its declared domain, and how it comes from a raw column."""

    name: str
    low: int
    high: int
    code: Code
    source: str | None = None
    """The raw column; None if it has the same name."""

    def column(self, table: pd.DataFrame) -> pd.Series[Any]:
        """Code the raw column."""
        return self.code(table[self.source or self.name]).astype("int64")


def listed(values: Sequence[str], missing: int | None = None) -> Code:
    """Code a text by its position in ``values``, no text at all by ``missing``.

    >>> import pandas as pd
    >>> listed(["no", "yes"], missing=100)(pd.Series(["yes", None])).tolist()
    [1.0, 100.0]
    """
    positions = {value: position for position, value in enumerate(values)}

    def code(column: pd.Series[Any]) -> pd.Series[Any]:
        codes = column.map(positions)
        return codes if missing is None else codes.fillna(missing)

    return code


def steps(width: int, low: int | None = None, high: int | None = None) -> Code:
    """Code a number by the step of ``width`` that it lies in, cut at ``low`` and ``high``.

    >>> import pandas as pd
    >>> steps(10, high=5)(pd.Series([9, 10, 99])).tolist()
    [0, 1, 5]
    """

    def code(column: pd.Series[Any]) -> pd.Series[Any]:
        return (column // width).clip(low, high)

    return code


def unchanged(column: pd.Series[Any]) -> pd.Series[Any]:
    """Keep a column that the papers take as it is."""
    return column


def read(name: str, missing: Collection[str] = ()) -> pd.DataFrame:
    """Read an embedded file; only the texts in ``missing`` are missing values.

    >>> read("german").shape
    (1000, 22)
    """
    with files("evenhand.datasets").joinpath(f"{name}.csv.xz").open("rb") as file:
        # pandas would also take texts such as "None" for missing ones.
        return pd.read_csv(file, compression="xz", keep_default_na=False, na_values=list(missing))


# Lists stand in the order of UCI's description or codes, because the papers code a text by its place there.
WORKCLASS = (
    "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
    "Never-worked",
)  # fmt: skip
ADULT_EDUCATION = (
    "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc", "9th",
    "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool",
)  # fmt: skip
ADULT_MARITAL_STATUS = (
    "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
    "Married-AF-spouse",
)  # fmt: skip
OCCUPATION = (
    "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
    "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
    "Priv-house-serv", "Protective-serv", "Armed-Forces",
)  # fmt: skip
RELATIONSHIP = ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried")
RACE = ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black")
ADULT_SEX = ("Female", "Male")
NATIVE_COUNTRY = (
    "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany", "Outlying-US(Guam-USVI-etc)",
    "India", "Japan", "Greece", "South", "China", "Cuba", "Iran", "Honduras", "Philippines", "Italy",
    "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal", "Ireland", "France", "Dominican-Republic", "Laos",
    "Ecuador", "Taiwan", "Haiti", "Columbia", "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand",
    "Yugoslavia", "El-Salvador", "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands",
)  # fmt: skip
INCOME = ("<=50K", ">50K")

# From least to most, as education_num counts them.
SCHOOLING = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
    "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip

# No features: fnlwgt, a sampling weight (the papers keep it), and education_num, a twin of education.
ADULT_ATTRIBUTES: tuple[Attribute, ...] = (
    Integer("age", 17, 90),
    Nominal("workclass", WORKCLASS, missing=True),
    Ordinal("education", SCHOOLING),
    Nominal("marital_status", ADULT_MARITAL_STATUS),
    Nominal("occupation", OCCUPATION, missing=True),
    Nominal("relationship", RELATIONSHIP),
    Nominal("race", RACE),
    Nominal("sex", ADULT_SEX),
    Integer("capital_gain", 0, 99_999),
    Integer("capital_loss", 0, 4_356),
    Integer("hours_per_week", 1, 99),
    Nominal("native_country", NATIVE_COUNTRY, missing=True),
)

# Without these a counterpart would be a female husband, which no model has seen.
LINKS = {"sex": {"relationship": {"Female": {"Husband": "Wife"}, "Male": {"Wife": "Husband"}}}}

MISSING = 100
ADULT_PAPER = (
    Coded("age", 1, 9, steps(10)),
    Coded("workclass", 0, 7, listed(WORKCLASS, MISSING)),
    Coded("fnlwgt", 0, 39, steps(20_000)),
    Coded("education", 0, 15, listed(ADULT_EDUCATION)),
    Coded("marital_status", 0, 6, listed(ADULT_MARITAL_STATUS)),
    Coded("occupation", 0, 13, listed(OCCUPATION, MISSING)),
    Coded("relationship", 0, 5, listed(RELATIONSHIP)),
    Coded("race", 0, 4, listed(RACE)),
    Coded("sex", 0, 1, listed(ADULT_SEX)),
    Coded("capital_gain", 0, 99, steps(1_000)),
    Coded("capital_loss", 0, 39, steps(100)),
    Coded("hours_per_week", 0, 99, unchanged),
    Coded("native_country", 0, 39, listed(NATIVE_COUNTRY, MISSING)),
    Coded("income", 0, 1, listed(INCOME)),
)


def load_adult() -> Dataset:
    """Load UCI Adult, the census income data: who earns more than 50,000 dollars a year.

    >>> load_adult()
    Dataset(name='adult', target='income', favourable='>50K', protected=('sex',))
    """
    return Dataset(
        name="adult",
        target="income",
        favourable=">50K",
        protected=("sex",),
        attributes=ADULT_ATTRIBUTES,
        table=read("adult", missing=["?"]),
        paper=ADULT_PAPER,
        links=LINKS,
        paper_train_only=True,
    )


BANK_JOB = (
    "admin.", "unknown", "unemployed", "management", "housemaid", "entrepreneur", "student", "blue-collar",
    "self-employed", "retired", "technician", "services",
)  # fmt: skip
MARITAL = ("married", "divorced", "single")
BANK_EDUCATION = ("unknown", "secondary", "primary", "tertiary")
CONTACT = ("unknown", "telephone", "cellular")
MONTH = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
POUTCOME = ("unknown", "other", "failure", "success")
NO_YES = ("no", "yes")
NEVER = -1

BANK_ATTRIBUTES: tuple[Attribute, ...] = (
    Integer("age", 18, 95),
    Nominal("job", BANK_JOB),
    Nominal("marital", MARITAL),
    # "unknown" has no place in an order.
    Nominal("education", BANK_EDUCATION),
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


BANK_PAPER = (
    Coded("age", 1, 9, steps(10)),
    Coded("job", 0, 11, listed(BANK_JOB)),
    Coded("marital", 0, 2, listed(MARITAL)),
    Coded("education", 0, 3, listed(BANK_EDUCATION)),
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


def load_bank() -> Dataset:
    """Load UCI Bank marketing: who takes out a term deposit when telephoned.

    >>> load_bank()
    Dataset(name='bank', target='y', favourable='yes', protected=('age',))
    """
    return Dataset(
        name="bank",
        target="y",
        favourable="yes",
        protected=("age",),
        attributes=BANK_ATTRIBUTES,
        table=read("bank"),
        paper=BANK_PAPER,
    )


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
GERMAN_SEX = ("male", "female")
GERMAN_MARITAL_STATUS = ("single", "married or once married")
OTHER_DEBTORS = ("none", "co-applicant", "guarantor")
PROPERTY = ("real estate", "savings agreement or life insurance", "car or other", "unknown or none")
OTHER_INSTALLMENTS = ("bank", "stores", "none")
HOUSING = ("rent", "own", "for free")
GERMAN_JOB = (
    "unemployed or unskilled non-resident", "unskilled resident", "skilled or official",
    "management or self-employed",
)  # fmt: skip
TELEPHONE = ("no", "yes")
FOREIGN_WORKER = ("yes", "no")
CREDIT_RISK = ("bad", "good")

GERMAN_ATTRIBUTES: tuple[Attribute, ...] = (
    Nominal("checking_status", CHECKING_STATUS),
    Integer("duration", 4, 72),
    Nominal("credit_history", CREDIT_HISTORY),
    # UCI's table has a code for a vacation, but no credit was for one.
    Nominal("purpose", [purpose for purpose in PURPOSE if purpose != "vacation"]),
    Integer("credit_amount", 250, 18_424),
    Nominal("savings", SAVINGS),
    Ordinal("employment", EMPLOYMENT),
    Integer("installment_rate", 1, 4),
    Nominal("sex", GERMAN_SEX),
    Nominal("marital_status", GERMAN_MARITAL_STATUS),
    Nominal("other_debtors", OTHER_DEBTORS),
    Integer("residence_since", 1, 4),
    Nominal("property", PROPERTY),
    Integer("age", 19, 75),
    Nominal("other_installments", OTHER_INSTALLMENTS),
    Nominal("housing", HOUSING),
    Integer("existing_credits", 1, 4),
    Ordinal("job", GERMAN_JOB),
    Integer("dependents", 1, 2),
    Nominal("telephone", TELEPHONE),
    Nominal("foreign_worker", FOREIGN_WORKER),
)

GERMAN_PAPER = (
    Coded("checking_status", 0, 3, listed(CHECKING_STATUS)),
    Coded("duration", 1, 80, unchanged),
    Coded("credit_history", 0, 4, listed(CREDIT_HISTORY)),
    Coded("purpose", 0, 10, listed(PURPOSE)),
    Coded("credit_amount", 1, 200, steps(100)),
    Coded("savings", 0, 4, listed(SAVINGS)),
    Coded("employment", 0, 4, listed(EMPLOYMENT)),
    Coded("installment_rate", 1, 4, unchanged),
    Coded("sex", 0, 1, listed(GERMAN_SEX)),
    Coded("other_debtors", 0, 2, listed(OTHER_DEBTORS)),
    Coded("residence_since", 1, 4, unchanged),
    Coded("property", 0, 3, listed(PROPERTY)),
    Coded("age", 1, 8, steps(10)),
    Coded("other_installments", 0, 2, listed(OTHER_INSTALLMENTS)),
    Coded("housing", 0, 2, listed(HOUSING)),
    Coded("existing_credits", 1, 4, unchanged),
    Coded("job", 0, 3, listed(GERMAN_JOB)),
    Coded("dependents", 1, 2, unchanged),
    Coded("telephone", 0, 1, listed(TELEPHONE)),
    Coded("foreign_worker", 0, 1, listed(FOREIGN_WORKER)),
    Coded("class", 0, 1, listed(CREDIT_RISK), source="credit_risk"),
)


def load_german() -> Dataset:
    """Load UCI Statlog German credit: who is a good and who a bad credit risk.

    >>> load_german()
    Dataset(name='german', target='credit_risk', favourable='good', protected=('sex',))
    """
    return Dataset(
        name="german",
        target="credit_risk",
        favourable="good",
        protected=("sex",),
        attributes=GERMAN_ATTRIBUTES,
        table=_apart(read("german")),
        paper=GERMAN_PAPER,
    )


def _apart(table: pd.DataFrame) -> pd.DataFrame:
    """Take sex and marital status apart, which UCI has in one column.

    UCI's words for men's states are not those for women's ("divorced/separated/married"): they would give the
    sex away, and could not be kept when it changes. Single or not is what UCI says of both.
    """
    words = table["personal_status_sex"].str.split(": ", expand=True)
    single, other = GERMAN_MARITAL_STATUS
    return table.assign(sex=words[0], marital_status=words[1].where(words[1] == single, other))
