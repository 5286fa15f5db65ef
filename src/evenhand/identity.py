"""What tells one run from another, and how it is stored."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from evenhand._validate import ANY, COUNT, TEXT, Leaf, Maybe, check_fields
from evenhand.criteria import KINDS, Criterion, UnknownCriterion, from_dict
from evenhand.errors import RunError, StrategyError

FORMAT = 2
READABLE = (1, 2)
"""Formats of ``identity.json`` that are read; format 1 had the criterion as text."""


IDENTITY_FIELDS = {
    "space": {str: ANY},
    "strategy": {"strategy": TEXT},
    "seed": COUNT,
    "criterion": ANY,
    "chunk": Leaf("a whole number of 2 or more", lambda value: COUNT.holds(value) and value >= 2),
    "data": Maybe(TEXT),
    "model": TEXT,
    "answers": TEXT,
    "model_sha256?": Maybe(TEXT),
    "gradient?": Maybe(TEXT),
}
"""What ``identity.json`` must have."""


@dataclass(frozen=True)
class RunIdentity:
    """Everything that makes a run what it is, except its budget: a larger budget continues the same run.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> identity = eh.audit(lambda frame: frame["age"] > 4, space, strategy="themis").identity
    >>> identity.search, identity.seed, identity.criterion
    ('themis', 0, Flip())
    >>> RunIdentity.from_dict(identity.to_dict()) == identity
    True
    """

    space: dict[str, Any]
    """The space, as ``describe()`` gives it."""
    strategy: dict[str, Any]
    """The search's name under ``strategy``, and its settings."""
    seed: int
    criterion: Criterion
    chunk: int
    data: str | None
    """Digest of the rows, or texts, that the search starts from; None where it uses none."""
    model: str
    answers: str
    """Digest of the model's answers to a fixed set of individuals."""
    model_sha256: str | None = None
    """Hash of the model's file, where it was read from one; the same model may also come as an object."""
    gradient: str | None = None
    """Where the gradients of a search come from; None for searches without."""

    @property
    def search(self) -> str:
        """The name of the search."""
        return str(self.strategy["strategy"])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the search."""
        return {name: value for name, value in self.strategy.items() if name != "strategy"}

    def to_dict(self) -> dict[str, Any]:
        """Return the identity in plain values, without the optional parts that are not known."""
        plain = asdict(self) | {"criterion": self.criterion.to_dict()}
        return {name: v for name, v in plain.items() if v is not None or name not in ("model_sha256", "gradient")}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> RunIdentity:
        """Read an identity that ``to_dict`` wrote, in any readable format; raise a ``RunError`` where it is none."""
        try:
            check_fields(stored, IDENTITY_FIELDS, "")
            values: dict[str, Any] = {field.name: stored.get(field.name) for field in fields(cls)}
            criterion = stored["criterion"]
            read = _format_1(criterion) if isinstance(criterion, str) else from_dict(criterion)
        except (ValueError, TypeError, KeyError, AttributeError, StrategyError) as error:
            raise RunError(f"it does not say which run it is ({error}); restore it from a copy") from None
        return cls(**(values | {"criterion": read}))


def _format_1(text: str) -> Criterion:
    """Read the criterion of a run in format 1, which stored it as a Python expression; nothing is executed.

    >>> _format_1("Both(left=Flip(), right=Gap(gamma=0.2))")
    Both(left=Flip(), right=Gap(gamma=0.2))
    """
    try:
        return _criterion(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return UnknownCriterion(text[:80], {})


def _criterion(node: ast.expr) -> Criterion:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in KINDS:
        raise ValueError("not a known criterion")
    if node.args or any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("not a known criterion")
    named = {str(keyword.arg): _argument(keyword.value) for keyword in node.keywords}
    return KINDS[node.func.id](**named)


def _argument(node: ast.expr) -> Any:
    return _criterion(node) if isinstance(node, ast.Call) else ast.literal_eval(node)
