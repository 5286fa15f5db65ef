"""UCI Adult, the census income data: who earns more than 50,000 dollars a year."""

from __future__ import annotations

from evenhand.datasets.base import Coded, Dataset, listed, read, steps, unchanged
from evenhand.spaces.attributes import Attribute, Integer, Nominal, Ordinal

# The lists stand in the order of UCI's description, because the papers code a text by its place there.
WORKCLASS = (
    "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
    "Never-worked",
)  # fmt: skip
EDUCATION = (
    "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc", "9th",
    "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool",
)  # fmt: skip
MARITAL_STATUS = (
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
SEX = ("Female", "Male")
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
ATTRIBUTES: tuple[Attribute, ...] = (
    Integer("age", 17, 90),
    Nominal("workclass", WORKCLASS, missing=True),
    Ordinal("education", SCHOOLING),
    Nominal("marital_status", MARITAL_STATUS),
    Nominal("occupation", OCCUPATION, missing=True),
    Nominal("relationship", RELATIONSHIP),
    Nominal("race", RACE),
    Nominal("sex", SEX),
    Integer("capital_gain", 0, 99_999),
    Integer("capital_loss", 0, 4_356),
    Integer("hours_per_week", 1, 99),
    Nominal("native_country", NATIVE_COUNTRY, missing=True),
)

# Without these a counterpart would be a female husband, which no model has seen.
LINKS = {"sex": {"relationship": {"Female": {"Husband": "Wife"}, "Male": {"Wife": "Husband"}}}}

MISSING = 100
PAPER = (
    Coded("age", 1, 9, steps(10)),
    Coded("workclass", 0, 7, listed(WORKCLASS, MISSING)),
    Coded("fnlwgt", 0, 39, steps(20_000)),
    Coded("education", 0, 15, listed(EDUCATION)),
    Coded("marital_status", 0, 6, listed(MARITAL_STATUS)),
    Coded("occupation", 0, 13, listed(OCCUPATION, MISSING)),
    Coded("relationship", 0, 5, listed(RELATIONSHIP)),
    Coded("race", 0, 4, listed(RACE)),
    Coded("sex", 0, 1, listed(SEX)),
    Coded("capital_gain", 0, 99, steps(1_000)),
    Coded("capital_loss", 0, 39, steps(100)),
    Coded("hours_per_week", 0, 99, unchanged),
    Coded("native_country", 0, 39, listed(NATIVE_COUNTRY, MISSING)),
    Coded("income", 0, 1, listed(INCOME)),
)


def load() -> Dataset:
    """Load UCI Adult.

    >>> load()
    Dataset(name='adult', target='income', favourable='>50K', protected=('sex',))
    """
    return Dataset(
        name="adult",
        target="income",
        favourable=">50K",
        protected=("sex",),
        attributes=ATTRIBUTES,
        table=read("adult", missing=["?"]),
        paper=PAPER,
        links=LINKS,
        paper_train_only=True,
    )
