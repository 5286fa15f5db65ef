"""Constraints: conditions that every valid individual meets, written as text.

The language is that of Python's conditions, with a few more words::

    hours <= 60 or age >= 3                     numbers, + - * / // %, 18 <= age < 65
    education >= "Bachelors"                    an ordinal attribute, by the order of its values
    work in ["clerk", "nurse"]                  one of several values; also `not in`
    income is missing                           also `is not missing` and missing(income)
    if married then age >= 16                   also: married implies age >= 16
    `marital-status` != "Widowed"               other names stand in backticks

A comparison with a missing value is false, so ``not (x > 3)`` is true where x is missing. Arithmetic with a
missing value, or without a finite result (a division by zero), is missing. Numbers are 64-bit floats.

The text is parsed, checked against the attributes and kept as a small tree; no text is ever executed.
"""

from __future__ import annotations

import ast
import bisect
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand._files import check_limit
from evenhand.errors import SpaceError
from evenhand.spaces.attributes import Attribute, Boolean, Integer, Mask, Nominal, Ordinal, Real, close, suggest
from evenhand.spaces.frames import pd

LONGEST = 10_000


@dataclass(frozen=True)
class Constraint:
    """A condition on individuals.

    >>> from evenhand.spaces.attributes import Integer
    >>> work = parse("hours <= 60 or age >= 3", [Integer("age", 1, 9), Integer("hours", 1, 99)])
    >>> work.names
    ('age', 'hours')
    >>> work.holds({"age": np.array([1, 1, 5]), "hours": np.array([40, 80, 80])}).tolist()
    [True, False, True]
    """

    text: str
    """The user's text."""
    names: tuple[str, ...]
    """The attributes that it mentions, in the space's order."""
    tree: Condition
    """The checked condition, as a tree of small frozen objects."""
    attributes: tuple[Attribute, ...] = field(repr=False)

    def holds(self, columns: Mapping[str, npt.NDArray[Any]]) -> Mask:
        """Return for which rows the condition holds; ``columns`` are arrays of values by name.

        A value that a listed attribute does not have counts as missing.
        """
        return self._evaluate(columns, False)

    @cached_property
    def conditions(self) -> int:
        """How many nodes the tree has."""
        return sum(1 for _ in walk(self.tree))

    def holds_codes(
        self, codes: Mapping[str, npt.NDArray[Any]], cache: dict[str, npt.NDArray[Any]] | None = None
    ) -> Mask:
        """Return the same from arrays of codes; several times faster if attributes are listed.

        Several constraints on the same codes can share a ``cache``.
        """
        return self._evaluate(codes, True, cache)

    def _evaluate(
        self, columns: Mapping[str, npt.NDArray[Any]], coded: bool, cache: dict[str, npt.NDArray[Any]] | None = None
    ) -> Mask:
        for name in self.names:
            if name not in columns:
                raise SpaceError(
                    f"the constraint {shown(self.text)} needs the column {name!r}, got {list(columns)}",
                    remedy="give that column",
                )
        with np.errstate(all="ignore"):
            truth = Columns(self.attributes, columns, coded, cache).truth(self.tree)
        return np.asarray(truth, dtype=bool)


def parse_all(texts: Sequence[str], attributes: Sequence[Attribute]) -> tuple[Constraint, ...]:
    """Parse the constraints of a space, within limits."""
    check_limit("constraints", len(texts), "the space", "join some by and")
    check_limit("constraint_characters", sum(len(text) for text in texts if isinstance(text, str)), "the constraints")
    return tuple(parse(text, attributes) for text in texts)


def parse(text: str, attributes: Sequence[Attribute]) -> Constraint:
    """Parse a constraint and check it against the attributes; errors name the position."""
    if not isinstance(text, str):
        raise SpaceError("must be texts such as 'age >= 18'", parameter="constraints", value=text)
    if len(text) > LONGEST:
        got = f"the constraint {shown(text)} has {len(text):,} characters, more than {LONGEST:,}"
        raise SpaceError(got, value=text, remedy="split it into several")
    walker = Walker(Source(text), attributes)
    try:
        tree = walker.condition(walker.source.parsed())
    except (RecursionError, MemoryError):
        raise walker.source.error(0, "it is nested too deeply", "split it into several constraints") from None
    names = tuple(a.name for a in attributes if a.name in walker.mentioned)
    if not names:
        raise walker.source.error(0, "it mentions no attribute", f"there are {', '.join(list(walker.attributes)[:8])}")
    return Constraint(text, names, tree, tuple(walker.attributes[name] for name in names))


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


def walk(node: Condition | Value) -> Iterator[Condition | Value]:
    """Yield a node and everything below it."""
    todo: list[Condition | Value] = [node]
    while todo:
        node = todo.pop()
        yield node
        match node:
            case And(parts) | Or(parts):
                todo += parts
            case Not(part):
                todo.append(part)
            case Compare(_, left, right) | Arithmetic(_, left, right):
                todo += (left, right)
            case Member(operand) | Missing(operand):
                todo.append(operand)


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
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
            return COMPARE[op](a, b) & (a >= 0) & (b >= 0)
        a, b = self._number(left), self._number(right)
        # NaN is unequal to everything; all other comparisons with it are false already.
        return COMPARE[op](a, b) if op != "!=" else (a != b) & (a == a) & (b == b)

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
        """Return codes in terms of one attribute; other values of the second attribute come after them."""
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
        # Like attribute.encode, without its second pass for missing values, which factorize numbers -1.
        inverse, uniques = pd.factorize(column)
        table = [attribute._index.get(value, -1) for value in np.asarray(uniques).tolist()]
        return np.array([*table, -1])[inverse]

    def _floats(self, attribute: Attribute) -> npt.NDArray[Any]:
        column = np.asarray(self.columns[attribute.name])
        if self.coded:
            column = attribute.decode(column)
        if column.dtype.kind in "iufb":
            return column.astype(np.float64, copy=False)
        return np.asarray(pd.to_numeric(pd.Series(column), errors="coerce"), dtype=np.float64)

    def _listed(self, node: Value) -> Listed | None:
        return listed(node, self.attributes)


def listed(value: Value, attributes: Mapping[str, Attribute]) -> Listed | None:
    """Return the attribute of a value, if it has listed values."""
    attribute = attributes[value.name] if isinstance(value, Column) else None
    return attribute if isinstance(attribute, Boolean | Nominal | Ordinal) else None


DEEPEST = 200
LONGEST_NUMBER = 1000


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_TOKENS = re.compile(
    r"""(?P<space>\s+)
    | (?P<string>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*')
    | (?P<number>(?:\d[\d_]*(?:\.[\d_]*)? | \.\d[\d_]*)(?:[eE][+-]?\d+)?\w*)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<word>[^\W\d]\w*)
    | (?P<mark><=|>=|==|!=|//|[-+*/%<>()\[\],])""",
    re.VERBOSE,
)
_WORDS = {"and", "or", "not", "in", "is", "if", "then", "implies", "missing", "True", "False", "None"}
_LANGUAGE = "allowed: and or not, == != < <= > >=, in [..], is missing, + - * / // %, if .. then .., implies"


class Source:
    """A constraint's text, rewritten in Python's grammar, with a mapping to the user's positions.

    Names become ``c0, c1, ...``: a column may be called ``class`` or ``marital-status``. Implications, which are not
    Python, become calls.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns: dict[str, str] = {}
        self.code = ""
        self._starts: list[int] = []
        self._origins: list[int] = []

    def parsed(self) -> ast.expr:
        """Parse the rewritten text."""
        aliases: dict[str, str] = {}
        for token in self._implications(self._tokens()):
            text = token.text
            if token.kind == "column":
                text = aliases.setdefault(text, f"c{len(aliases)}")
            self._starts.append(len(self.code))
            self._origins.append(token.at)
            self.code += text + " "
        self.columns = {alias: name for name, alias in aliases.items()} | {"missing": "missing"}
        if not self.code:
            raise self.error(0, "it is empty", "write a condition such as age >= 18, or leave it out")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                tree = ast.parse(self.code, mode="eval").body
        except SyntaxError as error:
            # Python reports offset 0 if the text ends too early.
            at = self._origin(error.offset - 1) if error.offset else len(self.text)
            raise self.error(at, "syntax error") from None
        except ValueError as error:
            raise self.error(0, f"it cannot be read ({error})") from None
        level: list[ast.AST] = [tree]
        for _ in range(DEEPEST):  # Deeper trees would overflow the recursive walker.
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level:
            remedy = "split it, or group long sums by parentheses"
            raise self.error(0, f"it is nested more than {DEEPEST} levels deep", remedy)
        return tree

    def error(self, at: int | ast.expr, problem: str, remedy: str = _LANGUAGE) -> SpaceError:
        """Return an error at a position of the text, or at the start of a node."""
        if isinstance(at, ast.expr):
            at = self._origin(len(self.code.encode()[: at.col_offset].decode()))
        return SpaceError(
            f"constraint {shown(self.text)}, position {at + 1}: {problem}", value=self.text, remedy=remedy
        )

    def _origin(self, offset: int) -> int:
        if offset >= len(self.code) - 1:
            return len(self.text)
        piece = max(bisect.bisect_right(self._starts, offset) - 1, 0)
        return self._origins[piece]

    def _tokens(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while at < len(self.text):
            found = _TOKENS.match(self.text, at)
            if found is None:
                remedy = "write == to compare" if self.text[at] == "=" else _LANGUAGE
                raise self.error(at, f"unexpected {self.text[at]!r}", remedy)
            kind, text = found.lastgroup or "", found.group()
            if kind == "quoted":
                kind, text = "column", text[1:-1].replace("``", "`")
            elif kind == "number" and len(text) > LONGEST_NUMBER:
                raise self.error(at, "the number is too long", f"at most {LONGEST_NUMBER} characters")
            elif kind == "word":
                kind = "keyword" if text in _WORDS else "column"
            if kind != "space":
                tokens.append(_Token(kind, text, at))
            at = found.end()
        return tokens

    def _implications(self, tokens: list[_Token]) -> list[_Token]:
        """Rewrite ``if A then B`` and ``A implies B`` to ``implies(A, B)``, innermost brackets first."""
        groups: list[list[_Token]] = [[]]
        for token in tokens:
            if token.text in ("(", "[") and token.kind == "mark":
                groups.append([token])
            elif token.text in (")", "]") and token.kind == "mark" and len(groups) > 1:
                opening, *inner = groups.pop()
                groups[-1] += [opening, *self._implication(inner), token]
            else:
                groups[-1].append(token)
        if len(groups) > 1:
            raise self.error(groups[-1][0].at, f"the bracket {groups[-1][0].text!r} is never closed", "close it")
        return self._implication(groups[0])

    def _implication(self, tokens: list[_Token]) -> list[_Token]:
        words = [token.text if token.kind == "keyword" else "" for token in tokens]
        if words[:1] == ["if"]:
            if "then" not in words:
                raise self.error(tokens[0].at, "an 'if' without a 'then'", "write: if A then B")
            middle = words.index("then")
            premise = tokens[1:middle]
        elif "implies" in words:
            middle = words.index("implies")
            premise = tokens[:middle]
        else:
            for word in ("if", "then"):
                if word in words:
                    at = tokens[words.index(word)].at
                    raise self.error(at, f"{word!r} out of place", "put parentheses around: (if A then B)")
            return tokens
        at = tokens[middle].at
        conclusion = self._implication(tokens[middle + 1 :])
        start, comma, end = (_Token("mark", text, at) for text in ("implies(", ",", ")"))
        return [start, *self._implication(premise), comma, *conclusion, end]


_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"
}  # fmt: skip


class Walker:
    """Converts a parsed text to a checked tree; everything that is not listed here is rejected."""

    def __init__(self, source: Source, attributes: Sequence[Attribute]) -> None:
        self.source, self.error = source, source.error
        self.attributes = {a.name: a for a in attributes}
        self.mentioned: set[str] = set()

    def condition(self, node: ast.expr) -> Condition:
        """Parse a node that must be a condition."""
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return And(tuple(self.condition(part) for part in parts))
            case ast.BoolOp(values=parts):
                return Or(tuple(self.condition(part) for part in parts))
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return Not(self.condition(part))
            case ast.Compare():
                return self._chain(node)
            case ast.Call(func=ast.Name(id="implies"), args=[premise, conclusion], keywords=[]):
                return Or((Not(self.condition(premise)), self.condition(conclusion)))
            case ast.Call(func=ast.Name(id="missing"), args=[operand], keywords=[]):
                return Missing(self.value(operand))
        value = self.value(node)
        if isinstance(value, Column) and isinstance(self.attributes[value.name], Boolean):
            return Compare("==", value, Literal(True))
        raise self.error(node, f"{self._describe(value)} is not a condition", "compare it, for example with == or <=")

    def value(self, node: ast.expr) -> Value:
        """Parse a node that must be a value."""
        match node:
            case ast.Name(id=alias) if alias in self.source.columns:
                return self._column(self.source.columns[alias], node)
            case ast.Constant(value=bool() | int() | float() | str()):
                return self._literal(node)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                operand = self._number(inner)
                if isinstance(operand, Literal) and not isinstance(operand.value, str):
                    return Literal(-operand.value)
                return Arithmetic("-", Literal(0), operand)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
                return Arithmetic(_ARITHMETIC[type(op)], self._number(left), self._number(right))
            case ast.Constant(value=None):
                raise self.error(node, "None is not a value", "write: x is missing")
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                remedy = "join conditions by and, or, not, implies"
                raise self.error(node, "a condition is used as a value", remedy)
        raise self.error(node, "syntax error")

    def _column(self, name: str, node: ast.expr) -> Column:
        if name not in self.attributes:
            remedy = f"{suggest(name, self.attributes)}; put text values in quotes"
            if name in ("true", "false"):
                remedy = f"write {name.title()}"
            raise self.error(node, f"no attribute is called {name!r}", remedy)
        self.mentioned.add(name)
        return Column(name)

    def _literal(self, node: ast.Constant) -> Literal:
        value = node.value
        assert isinstance(value, bool | int | float | str)
        try:
            finite = isinstance(value, str) or math.isfinite(float(value))
        except OverflowError:
            finite = False
        if not finite:
            raise self.error(node, "the number is too large", "numbers go up to 1.7e308")
        return Literal(value)

    def _number(self, node: ast.expr) -> Value:
        value = self.value(node)
        if not self._is_number(value):
            remedy = "calculate with integer and real attributes and with numbers only"
            raise self.error(node, f"{self._describe(value)} is not a number", remedy)
        return value

    def _chain(self, node: ast.Compare) -> Condition:
        operands = [node.left, *node.comparators]
        links = [self._link(op, *pair) for op, *pair in zip(node.ops, operands, operands[1:], strict=False)]
        return links[0] if len(links) == 1 else And(tuple(links))

    def _link(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> Condition:
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Name) and right.id == "missing"):
                remedy = "write: x is missing, x is not missing, or compare with == and !="
                raise self.error(right, "'is' must be followed by 'missing'", remedy)
            absent = Missing(self.value(left))
            return absent if isinstance(op, ast.Is) else Not(absent)
        if isinstance(op, ast.In | ast.NotIn):
            member = self._member(left, right)
            # A comparison with a missing value is false, so "not in" also requires a value.
            return member if isinstance(op, ast.In) else And((Not(member), Not(Missing(member.operand))))
        return self._compare(_COMPARISONS[type(op)], left, right)

    def _member(self, left: ast.expr, right: ast.expr) -> Member:
        operand = self.value(left)
        if not isinstance(right, ast.List | ast.Tuple) or not right.elts:
            remedy = 'write a list of values: work in ["clerk", "nurse"]'
            raise self.error(right, "'in' must be followed by a list", remedy)
        values = []
        for node in right.elts:
            value = self.value(node)
            if not isinstance(value, Literal):
                remedy = "list numbers and texts only; join other comparisons by or"
                raise self.error(node, f"{self._describe(value)} is in a list", remedy)
            values.append(self._match("==", (operand, left), (value, node))[1])
        return Member(operand, tuple(value.value for value in values if isinstance(value, Literal)))

    def _compare(self, op: str, left: ast.expr, right: ast.expr) -> Compare:
        return Compare(op, *self._match(op, (self.value(left), left), (self.value(right), right)))

    def _match(self, op: str, *sides: tuple[Value, ast.expr]) -> tuple[Value, Value]:
        """Check that two values can be compared; literals become the attribute's own values."""
        (left, left_node), (right, right_node) = sides
        if self._is_number(left) and self._is_number(right):
            return left, right
        first, second = self._listed(left), self._listed(right)
        attribute = first or second
        if attribute is None:
            got = f"cannot compare {self._describe(left)} with {self._describe(right)}"
            remedy = "compare numbers with numbers, and listed attributes with their values"
            raise self.error(right_node, got, remedy)
        if op not in ("==", "!=") and not isinstance(attribute, Ordinal):
            remedy = "use ==, != or in; only numbers and ordinal attributes are ordered"
            got = f"{attribute.name!r} is {attribute.kind} and has no order for {op!r}"
            raise self.error(right_node, got, remedy)
        if first and second:
            self._check_pair(op, first, second, right_node)
            return left, right
        if first:
            return left, self._own_value(first, right, right_node)
        return self._own_value(attribute, left, left_node), right

    def _own_value(self, attribute: Listed, value: Value, node: ast.expr) -> Literal:
        if not isinstance(value, Literal):
            got = f"cannot compare {self._describe(value)} with {attribute.name!r} ({attribute.kind})"
            raise self.error(node, got, f"allowed: {attribute.allowed()}")
        code = attribute._index.get(value.value)
        own = None if code is None else attribute.values[code]
        # True equals 1 in Python; here they are different values.
        if own is not None and isinstance(own, bool) == isinstance(value.value, bool):
            return Literal(own)
        near = close(str(value.value), map(str, attribute.values))
        remedy = f"allowed: {attribute.allowed()}" + (f"; did you mean {near[0]!r}?" if near else "")
        raise self.error(node, f"{self._describe(value)} is not a value of {attribute.name!r}", remedy)

    def _check_pair(self, op: str, first: Listed, second: Listed, node: ast.expr) -> None:
        if op not in ("==", "!="):
            if first.values != second.values or type(first) is not type(second):
                got = f"{first.name!r} and {second.name!r} have no common order"
                raise self.error(node, got, "order two attributes only where both are ordinal with the same values")
        elif not set(first.values) & set(second.values):
            got = f"{first.name!r} and {second.name!r} have no value in common"
            raise self.error(node, got, f"they have {first.allowed()} and {second.allowed()}")

    def _is_number(self, value: Value) -> bool:
        if isinstance(value, Column):
            return isinstance(self.attributes[value.name], Integer | Real)
        return isinstance(value, Arithmetic) or not isinstance(value.value, bool | str)

    def _listed(self, value: Value) -> Listed | None:
        return listed(value, self.attributes)

    def _describe(self, value: Value) -> str:
        if isinstance(value, Column):
            return f"{value.name!r} ({self.attributes[value.name].kind})"
        return repr(value.value) if isinstance(value, Literal) else "a calculation"


def shown(text: str) -> str:
    """Quote a constraint in a message; long ones are truncated."""
    return repr(text if len(text) <= 120 else text[:117] + "...")
