"""Names of columns: whether they can be used, and which one a user may have meant."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

from evenhand.errors import DataError

_LONG, _MANY = 100, 5_000
"""Characters of a name, and names, that are compared to find what someone may have meant."""


def check_names(names: Iterable[Any], where: str = "") -> None:
    """Raise unless the columns have names that are texts and differ.

    >>> check_names(["age", "work"])
    """
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            got = f"{where}column names must be texts, got {name!r} ({type(name).__name__})"
            raise DataError(f"{got}; rename the columns: frame.columns = [...]")
        if name in seen:
            raise DataError(f"{where}two columns are called {name!r}; names must differ: rename or drop one")
        seen.add(name)


def repeated(values: Iterable[Any]) -> list[str]:
    """Return what comes more than once, in order.

    >>> repeated(["b", "a", "b"])
    ['b']
    """
    return sorted(str(value) for value, times in Counter(values).items() if times > 1)


def close(name: str, names: Iterable[str]) -> list[str]:
    """Find the names that someone who wrote ``name`` may have meant, best first; case does not matter.

    >>> close("Agee", ["age", "work"])
    ['age']
    """
    # Comparing takes time with the square of the length, for each name.
    by_lower = {known.lower(): known for known in itertools.islice(names, _MANY) if len(known) <= _LONG}
    return [by_lower[found] for found in difflib.get_close_matches(name.lower()[:_LONG], by_lower, n=3)]


def suggest(name: str, names: Iterable[str]) -> str:
    """Say which names someone may have meant, or which there are.

    >>> suggest("agee", ["age", "work"])
    "did you mean 'age'?"
    >>> suggest("x", ["age", "work"])
    "there are 'age', 'work'"
    """
    names = list(names)
    near = close(str(name), names)
    if near:
        return f"did you mean {', '.join(f'{name!r:.{_LONG}}' for name in near)}?"
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"there are {', '.join(f'{name!r:.{_LONG}}' for name in names[:8])}{rest}"
