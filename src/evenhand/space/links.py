"""Links: attributes that follow a protected one, so that counterparts are people who can exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._files import check_limit
from evenhand._format import count
from evenhand.errors import SpaceError

if TYPE_CHECKING:
    from evenhand.space.tabular import Space

Links = Mapping[str, Mapping[str, Mapping[Any, Mapping[Any, Any]]]]
"""{protected: {free attribute: {new value of the protected one: {old: new}}}}"""


def link_tables(space: Space) -> dict[int, dict[int, npt.NDArray[np.int32]]]:
    """Return, by protected and dependent column, the code that each (new protected code, old code) turns into."""
    tables: dict[int, dict[int, npt.NDArray[np.int32]]] = {}
    _check_links(space.links)
    if space.links and space.combinations > space.limit:
        # A sampled family depends on who is asked about, so one test would count many times.
        raise SpaceError(
            f"links need all {count(space.combinations)} counterparts, but the limit is {space.limit:,}; raise "
            "limit, or protect fewer attributes"
        )
    for name, dependents in space.links.items():
        if name not in space.protected:
            raise SpaceError(f"links start at a protected attribute; {name!r} is none of {list(space.protected)}")
        source = space.attributes[space.column(name)]
        for dependent, by_value in dependents.items():
            if dependent in space.protected:
                raise SpaceError(f"links end at a free attribute; {dependent!r} is protected")
            target = space.attributes[space.column(dependent)]
            check_limit("link_cells", source.size * target.size, f"the link from {name!r} to {dependent!r}")
            table = np.tile(np.arange(target.size, dtype=np.int32), (source.size, 1))
            for value, mapping in by_value.items():
                for old, new in mapping.items():
                    table[source.code(value), target.code(old)] = target.code(new)
            tables.setdefault(space.column(name), {})[space.column(dependent)] = table
    return tables


def _check_links(links: Any) -> None:
    """Raise unless links are {protected: {free: {value: {old: new}}}}."""
    level = [links]
    for _ in range(4):
        if not all(isinstance(mapping, Mapping) for mapping in level):
            wrong = next(mapping for mapping in level if not isinstance(mapping, Mapping))
            raise SpaceError(
                f"links must be {{protected: {{free attribute: {{new value: {{old: new}}}}}}}}, got {wrong!r} inside"
            )
        level = [inner for mapping in level for inner in mapping.values()]
