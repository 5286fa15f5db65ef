"""Groups of a protected attribute: its values, or bands of them where there are many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import plain
from evenhand.errors import EstimateError
from evenhand.estimates.tables import ALL_VALUES
from evenhand.spaces.attributes import Attribute
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Banding:
    """How an attribute's values fall into groups, and to which each row belongs."""

    attribute: str
    names: list[Any]
    member: npt.NDArray[np.int64]


def bandings(space: Space, rows: Rows, bands: Mapping[str, Sequence[float]]) -> list[Banding]:
    """Group rows by each protected attribute."""
    if not isinstance(bands, Mapping):
        raise EstimateError(f"bands must say where to cut each attribute, as {{'age': [25, 40]}}; got {bands!r}")
    unknown = [name for name in bands if name not in space.protected]
    if unknown:
        raise EstimateError(f"bands: {unknown[0]!r} is not protected; protected are {', '.join(space.protected)}")
    return [banding(space.attributes[j], rows[:, j], bands.get(space.names[j])) for j in space.protected_columns]


def banding(attribute: Attribute, codes: npt.NDArray[Any], cuts: Sequence[float] | None) -> Banding:
    """Group rows by one attribute: at ``cuts``, by value, or at the quartiles of the rows where there are many values.

    >>> from evenhand.spaces.attributes import Integer
    >>> banding(Integer("age", 18, 90), np.array([0, 10, 72]), [25, 40]).names
    ['18 to 24', '25 to 39', '40 to 90']
    """
    if cuts is None and (attribute.size <= ALL_VALUES or not attribute.ordered):
        values = attribute.decode(np.arange(attribute.size)).tolist()
        return Banding(attribute.name, values, codes.astype(np.int64))
    starts = _starts(attribute, codes, cuts)
    values = attribute.decode(np.arange(attribute.present)).tolist()
    ends = [*starts[1:], attribute.present]
    names = [_name(values[a], values[b - 1]) for a, b in zip(starts, ends, strict=True)]
    member = np.searchsorted(np.array(starts), codes, side="right") - 1
    if attribute.has_missing:
        names.append(None)
        member = np.where(codes >= attribute.present, len(names) - 1, member)
    return Banding(attribute.name, names, member.astype(np.int64))


def _starts(attribute: Attribute, codes: npt.NDArray[Any], cuts: Sequence[float] | None) -> list[int]:
    """The first code of each band."""
    if cuts is None:
        there = codes[codes < attribute.present]
        quartiles = np.quantile(there, QUARTILES, method="lower") if len(there) else np.zeros(0)
        return sorted({0, *(int(q) for q in quartiles)})
    if not attribute.ordered:
        raise EstimateError(f"bands: {attribute.name!r} has no order, so it cannot be cut; leave it out of bands")
    try:
        values = attribute.decode(np.arange(attribute.present)).astype(np.float64)
        edges = np.asarray(cuts, dtype=np.float64)
    except (TypeError, ValueError):
        raise EstimateError(f"bands: {attribute.name!r} is cut at numbers, got {cuts!r}") from None
    if edges.ndim != 1 or np.isnan(edges).any():
        raise EstimateError(f"bands: {attribute.name!r} is cut at a list of numbers, got {cuts!r}")
    at = np.searchsorted(values, edges)
    return sorted({0, *(int(code) for code in at if 0 < code < attribute.present)})


def _name(first: Any, last: Any) -> Any:
    return first if first == last else f"{plain(first)} to {plain(last)}"
