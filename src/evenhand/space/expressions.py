"""The tree that a constraint is, and its evaluation on whole columns.

The nodes are small and frozen, and checked when they are made from text (see ``grammar``): a solver can
translate them without looking at types again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.space.attributes import Attribute, Boolean, Nominal, Ordinal

Listed: TypeAlias = Boolean | Nominal | Ordinal
Plain: TypeAlias = int | float | str | bool


@dataclass(frozen=True)
class Column:
    """The value of an attribute."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A value written in the text; next to a listed attribute it is one of that attribute's values."""

    value: Plain


@dataclass(frozen=True)
class Arithmetic:
    """``left op right`` with op one of ``+ - * / // %``; missing without a finite result or a side."""

    op: str
    left: Value
    right: Value


@dataclass(frozen=True)
class Compare:
    """``left op right`` with op one of ``== != < <= > >=``; false if a side is missing.

    Both sides are numbers, or at least one is a listed attribute (nominal, ordinal, boolean); its order is
    that of its values.
    """

    op: str
    left: Value
    right: Value


@dataclass(frozen=True)
class Member:
    """The operand is one of the values; false if it is missing."""

    operand: Value
    values: tuple[Plain, ...]


@dataclass(frozen=True)
class Missing:
    """The operand has no value."""

    operand: Value


@dataclass(frozen=True)
class And:
    """All parts hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    """At least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Condition


Value: TypeAlias = Column | Literal | Arithmetic
Condition: TypeAlias = Compare | Member | Missing | And | Or | Not


def parts(node: Condition | Value) -> tuple[Condition | Value, ...]:
    """Return the nodes right below one.

    >>> parts(Not(Missing(Column("age"))))
    (Missing(operand=Column(name='age')),)
    """
    match node:
        case And(below) | Or(below):
            return below
        case Not(below):
            return (below,)
        case Compare(_, left, right) | Arithmetic(_, left, right):
            return (left, right)
        case Member(operand) | Missing(operand):
            return (operand,)
    return ()


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal, "!=": np.not_equal,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_CALCULATE: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.remainder
}  # fmt: skip


class Columns:
    """Evaluates a tree on columns: numbers as floats with NaN for missing, listed values as codes with -1."""

    def __init__(
        self,
        attributes: Sequence[Attribute],
        columns: Mapping[str, npt.NDArray[Any]],
        coded: bool,
        cache: dict[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        self.attributes = {a.name: a for a in attributes}
        self.columns = columns
        self.coded = coded
        self.cache = {} if cache is None else cache

    def truth(self, node: Condition) -> Any:
        """Evaluate a condition."""
        match node:
            case And(parts):
                return reduce(np.logical_and, map(self.truth, parts))
            case Or(parts):
                return reduce(np.logical_or, map(self.truth, parts))
            case Not(part):
                return ~self.truth(part)
            case Compare(op, left, right):
                return self._compare(op, left, right)
            case Missing(operand):
                return self._missing(operand)
            case Member(operand, values):
                return self._member(operand, values)

    def _compare(self, op: str, left: Value, right: Value) -> Any:
        attribute = self._listed(left) or self._listed(right)
        if attribute is not None:
            a, b = self._rank(left, attribute), self._rank(right, attribute)
            return _COMPARE[op](a, b) & (a >= 0) & (b >= 0)
        a, b = self._number(left), self._number(right)
        # NaN is unequal to everything; all other comparisons with it are false already.
        return _COMPARE[op](a, b) if op != "!=" else (a != b) & (a == a) & (b == b)

    def _missing(self, operand: Value) -> Any:
        attribute = self._listed(operand)
        return np.isnan(self._number(operand)) if attribute is None else self._rank(operand, attribute) < 0

    def _member(self, operand: Value, values: tuple[Any, ...]) -> Any:
        attribute = self._listed(operand)
        if attribute is None:
            return np.isin(self._number(operand), np.array(values, dtype=np.float64))
        table = np.zeros(attribute.present + 1, dtype=bool)
        table[[attribute._index[value] for value in values]] = True
        return table[self._rank(operand, attribute)]

    def _number(self, node: Value) -> Any:
        match node:
            case Literal(value):
                return np.float64(value)
            case Column(name):
                return self._read(name, self._floats)
            case Arithmetic(op, left, right):
                result = _CALCULATE[op](self._number(left), self._number(right))
                return np.where(np.isfinite(result), result, np.nan)

    def _rank(self, node: Value, attribute: Listed) -> Any:
        """Give codes in terms of one attribute, the other one's own values behind them."""
        if isinstance(node, Literal):
            return np.int64(attribute._index[node.value])
        own = self._listed(node)
        assert own is not None
        codes = self._read(own.name, self._codes)
        if own.values == attribute.values:
            return codes
        table = [attribute._index.get(value, attribute.present + i) for i, value in enumerate(own.values)]
        return np.array([*table, -1])[codes]

    def _read(self, name: str, read: Callable[[Any], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        if name not in self.cache:
            self.cache[name] = read(self.attributes[name])
        return self.cache[name]

    def _codes(self, attribute: Listed) -> npt.NDArray[Any]:
        column = np.asarray(self.columns[attribute.name])
        if self.coded:
            return np.where(column < attribute.present, column, -1) if attribute.has_missing else column
        import pandas as pd

        # As attribute.encode, without its second pass for missing values: factorize numbers those -1.
        inverse, uniques = pd.factorize(column)
        table = [attribute._index.get(value, -1) for value in np.asarray(uniques).tolist()]
        return np.array([*table, -1])[inverse]

    def _floats(self, attribute: Attribute) -> npt.NDArray[Any]:
        column = np.asarray(self.columns[attribute.name])
        if self.coded:
            column = attribute.decode(column)
        if column.dtype.kind in "iufb":
            return column.astype(np.float64, copy=False)
        import pandas as pd

        return np.asarray(pd.to_numeric(pd.Series(column), errors="coerce"), dtype=np.float64)

    def _listed(self, node: Value) -> Listed | None:
        return listed(node, self.attributes)


def listed(value: Value, attributes: Mapping[str, Attribute]) -> Listed | None:
    """Return the attribute behind a value if that is one with listed values.

    >>> listed(Column("sex"), {"sex": Boolean("sex")})
    Boolean(name='sex', dtype=None, values=(False, True), missing=False)
    """
    attribute = attributes[value.name] if isinstance(value, Column) else None
    return attribute if isinstance(attribute, Boolean | Nominal | Ordinal) else None
