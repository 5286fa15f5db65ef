"""What other packages add: found by the name of an entry point, or by the ``module:attribute`` that the user names.

Entry points are looked up only when a name is not one of evenhand's own, so that import and help stay light. Names in
a run directory are looked up among installed packages only: a directory must not choose which module is imported.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

STRATEGIES, MODELS, SPACES = "evenhand.strategies", "evenhand.models", "evenhand.spaces"
"""The groups of entry points."""
_SPEC = re.compile(r"([^\W\d][\w.]*):([^\W\d][\w.]*)")


def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by their names; nothing is imported.

    >>> installed("evenhand.no_such_group")
    {}
    """
    return _installed(group, tuple(sys.path))


@lru_cache(maxsize=16)
def _installed(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    # By the path: packages are looked for again where that has changed.
    del path
    return {point.name: point for point in entry_points(group=group)}


def load(point: EntryPoint, error: type[EvenhandError]) -> Any:
    """Import the object of an entry point."""
    try:
        return point.load()
    except (Exception, SystemExit, GeneratorExit) as fault:
        package = point.dist.name if point.dist is not None else "a package"
        raise error(
            f"{point.name!r} of {package} ({point.value}) cannot be loaded: {reason(fault)}",
            remedy="repair the package or uninstall it",
        ) from fault


def is_spec(name: str) -> bool:
    """Whether a name is a ``module:attribute``.

    >>> is_spec("my_pkg.search:MySearch"), is_spec("kosei")
    (True, False)
    """
    return _SPEC.fullmatch(name) is not None


def named(spec: str, error: type[EvenhandError]) -> Any:
    """Import the ``module:attribute`` that the user names; modules are looked for in the current directory first.

    >>> named("operator:not_", EvenhandError)
    <built-in function not_>
    """
    module, _, attribute = spec.partition(":")
    look_here_first()
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit, GeneratorExit) as fault:
        remedy = "check its name, and that it can be imported from the current directory"
        raise error(f"{spec}: the module {module} fails to import: {reason(fault)}", remedy=remedy) from fault
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name in vars(sys.modules[module]) if not name.startswith("_")]
            shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
            raise error(f"{spec}: the module {module} has no {attribute}", remedy=f"it has {shown or 'nothing'}")
        found = getattr(found, part)
    return found


def look_here_first() -> None:
    """Let modules of the current directory be imported before others of the same name."""
    here = str(Path.cwd())
    if sys.path[:1] != [here]:
        sys.path.insert(0, here)


def reason(fault: BaseException) -> str:
    """Write an exception in one line.

    >>> reason(ValueError("no"))
    'ValueError: no'
    """
    first = next(iter(str(fault).splitlines()), "")[:200]
    return f"{type(fault).__name__}: {first}" if first else type(fault).__name__
