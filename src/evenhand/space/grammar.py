"""From a constraint's text to its checked tree.

The text is rewritten to Python's grammar, parsed by ``ast``, and walked by a reader that knows a few nodes
and refuses all others. Nothing is ever compiled or executed.
"""

from __future__ import annotations

import ast
import bisect
import math
import re
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from evenhand.errors import SpaceError
from evenhand.space.attributes import Attribute, Boolean, Integer, Ordinal, Real
from evenhand.space.expressions import (
    And,
    Arithmetic,
    Column,
    Compare,
    Condition,
    Listed,
    Literal,
    Member,
    Missing,
    Not,
    Or,
    Value,
    listed,
)
from evenhand.space.names import close, suggest

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
    """A constraint's text, rewritten to Python's grammar, with the way back to the user's positions.

    Names become ``c0, c1, ...``: a column may be called ``class`` or ``marital-status``. Implications, which
    Python does not have, become calls.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns: dict[str, str] = {}
        self.code = ""
        self._starts: list[int] = []
        self._origins: list[int] = []

    def parsed(self) -> ast.expr:
        """Parse the text; the tree is not checked yet."""
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
            # Offset 0 is Python's way of saying that the text ends too early.
            at = self._origin(error.offset - 1) if error.offset else len(self.text)
            raise self.error(at, "it cannot be read here", _LANGUAGE) from None
        except ValueError as error:
            raise self.error(0, f"it cannot be read ({error})", _LANGUAGE) from None
        self._check_depth(tree)
        return tree

    def at(self, node: ast.expr) -> int:
        """Say where a node begins in the user's text."""
        return self._origin(len(self.code.encode()[: node.col_offset].decode()))

    def error(self, at: int, got: str, remedy: str) -> SpaceError:
        """Make the error: the constraint and the position, what was got, what to do."""
        return SpaceError(f"constraint {shown(self.text)}, position {at + 1}: {got};\n{remedy}")

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
                raise self.error(at, f"{self.text[at]!r} does not belong here", remedy)
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

    def _check_depth(self, tree: ast.expr) -> None:
        """Refuse trees that a recursive reader could not follow."""
        level: list[ast.AST] = [tree]
        for _ in range(DEEPEST):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level:
            got = f"it is nested more than {DEEPEST} levels deep"
            raise self.error(0, got, "split it, or group long sums by parentheses")


_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"
}  # fmt: skip


class Walker:
    """Turns a parsed text into a checked tree; whatever is not named here is refused."""

    def __init__(self, source: Source, attributes: Sequence[Attribute]) -> None:
        self.source = source
        self.attributes = {a.name: a for a in attributes}
        self.mentioned: set[str] = set()

    def condition(self, node: ast.expr) -> Condition:
        """Read a node that must be true or false."""
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
        raise self.source.error(
            self.source.at(node),
            f"{self._say(value)} is not a condition",
            "compare it, for example with == or <=",
        )

    def value(self, node: ast.expr) -> Value:
        """Read a node that must be a value."""
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
                raise self.source.error(self.source.at(node), "None is not a value", "write: x is missing")
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                remedy = "join conditions by and, or, not, implies"
                raise self.source.error(self.source.at(node), "a condition stands where a value must", remedy)
        raise self.source.error(self.source.at(node), "it cannot be read here", _LANGUAGE)

    def _column(self, name: str, node: ast.expr) -> Column:
        if name not in self.attributes:
            remedy = f"{suggest(name, self.attributes)}; values that are text stand in quotes"
            if name in ("true", "false"):
                remedy = f"write {name.title()}"
            raise self.source.error(self.source.at(node), f"no attribute is called {name!r}", remedy)
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
            raise self.source.error(self.source.at(node), "the number is too large", "numbers go up to 1.7e308")
        return Literal(value)

    def _number(self, node: ast.expr) -> Value:
        value = self.value(node)
        if not self._is_number(value):
            remedy = "calculate with integer and real attributes and with numbers only"
            raise self.source.error(self.source.at(node), f"{self._say(value)} is not a number", remedy)
        return value

    def _chain(self, node: ast.Compare) -> Condition:
        operands = [node.left, *node.comparators]
        links = [self._link(op, *pair) for op, *pair in zip(node.ops, operands, operands[1:], strict=False)]
        return links[0] if len(links) == 1 else And(tuple(links))

    def _link(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> Condition:
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Name) and right.id == "missing"):
                remedy = "write: x is missing, x is not missing, or compare with == and !="
                raise self.source.error(self.source.at(right), "'is' must be followed by 'missing'", remedy)
            absent = Missing(self.value(left))
            return absent if isinstance(op, ast.Is) else Not(absent)
        if isinstance(op, ast.In | ast.NotIn):
            member = self._member(left, right)
            # A comparison with a missing value is false, so "not in" asks for a value as well.
            return member if isinstance(op, ast.In) else And((Not(member), Not(Missing(member.operand))))
        return self._compare(_COMPARISONS[type(op)], left, right)

    def _member(self, left: ast.expr, right: ast.expr) -> Member:
        operand = self.value(left)
        if not isinstance(right, ast.List | ast.Tuple) or not right.elts:
            remedy = 'write a list of values: work in ["clerk", "nurse"]'
            raise self.source.error(self.source.at(right), "'in' must be followed by a list", remedy)
        values = []
        for node in right.elts:
            value = self.value(node)
            if not isinstance(value, Literal):
                remedy = "list numbers and texts only; join other comparisons by or"
                raise self.source.error(self.source.at(node), f"{self._say(value)} stands in a list", remedy)
            values.append(self._match("==", (operand, left), (value, node))[1])
        return Member(operand, tuple(value.value for value in values if isinstance(value, Literal)))

    def _compare(self, op: str, left: ast.expr, right: ast.expr) -> Compare:
        return Compare(op, *self._match(op, (self.value(left), left), (self.value(right), right)))

    def _match(self, op: str, *sides: tuple[Value, ast.expr]) -> tuple[Value, Value]:
        """Check that two values can be compared; literals become the attribute's own values."""
        (left, left_node), (right, right_node) = sides
        at = self.source.at(right_node)
        if self._is_number(left) and self._is_number(right):
            return left, right
        first, second = self._listed(left), self._listed(right)
        attribute = first or second
        if attribute is None:
            got = f"cannot compare {self._say(left)} with {self._say(right)}"
            remedy = "compare numbers with numbers, and listed attributes with their values"
            raise self.source.error(at, got, remedy)
        if op not in ("==", "!=") and not isinstance(attribute, Ordinal):
            remedy = "use ==, != or in; only numbers and ordinal attributes are ordered"
            got = f"{attribute.name!r} is {attribute.kind} and has no order for {op!r}"
            raise self.source.error(at, got, remedy)
        if first and second:
            self._check_pair(op, first, second, at)
            return left, right
        if first:
            return left, self._own_value(first, right, at)
        return self._own_value(attribute, left, self.source.at(left_node)), right

    def _own_value(self, attribute: Listed, value: Value, at: int) -> Literal:
        if not isinstance(value, Literal):
            got = f"cannot compare {self._say(value)} with {attribute.name!r} ({attribute.kind})"
            raise self.source.error(at, got, f"allowed: {attribute.allowed()}")
        code = attribute._index.get(value.value)
        own = None if code is None else attribute.values[code]
        # True equals 1 in Python; here they are different values.
        if own is not None and isinstance(own, bool) == isinstance(value.value, bool):
            return Literal(own)
        near = close(str(value.value), map(str, attribute.values))
        remedy = f"allowed: {attribute.allowed()}" + (f"; did you mean {near[0]!r}?" if near else "")
        raise self.source.error(at, f"{self._say(value)} is not a value of {attribute.name!r}", remedy)

    def _check_pair(self, op: str, first: Listed, second: Listed, at: int) -> None:
        if op not in ("==", "!="):
            if first.values != second.values or type(first) is not type(second):
                got = f"{first.name!r} and {second.name!r} do not share an order"
                raise self.source.error(
                    at, got, "order two attributes only where both are ordinal with the same values"
                )
        elif not set(first.values) & set(second.values):
            got = f"{first.name!r} and {second.name!r} have no value in common"
            raise self.source.error(at, got, f"they have {first.allowed()} and {second.allowed()}")

    def _is_number(self, value: Value) -> bool:
        if isinstance(value, Column):
            return isinstance(self.attributes[value.name], Integer | Real)
        return isinstance(value, Arithmetic) or not isinstance(value.value, bool | str)

    def _listed(self, value: Value) -> Listed | None:
        return listed(value, self.attributes)

    def _say(self, value: Value) -> str:
        if isinstance(value, Column):
            return f"{value.name!r} ({self.attributes[value.name].kind})"
        return repr(value.value) if isinstance(value, Literal) else "a calculation"


def shown(text: str) -> str:
    """Quote a constraint in a message, the end of a long one left out."""
    return repr(text if len(text) <= 120 else text[:117] + "...")
