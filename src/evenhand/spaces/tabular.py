"""The space of valid individuals with attributes in columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from evenhand._format import Viewed, count, visible
from evenhand._rng import Stream
from evenhand._validate import check_int
from evenhand.errors import DATA, FRAME, PROTECTED, DataError, SpaceError
from evenhand.spaces.attributes import (
    Attribute,
    Integer,
    Mask,
    check_unicode,
    missing_mask,
    no_value,
    repeated,
    suggest,
)
from evenhand.spaces.base import Binding
from evenhand.spaces.constraints import Constraint, parse_all
from evenhand.spaces.findings import Findings
from evenhand.spaces.frames import native, pd
from evenhand.spaces.individuals import (
    LARGEST,
    Coding,
    Individuals,
    Keys,
    Links,
    Moves,
    Numbers,
    Rows,
    Sampler,
    TabularFamilies,
    complex_keys,
    families,
    hashed,
    link_tables,
    neighbours,
)

if TYPE_CHECKING:
    from evenhand.spaces.infer import Note


@dataclass(frozen=True)
class Encoded:
    """Data rows as individuals."""

    individuals: Individuals
    positions: npt.NDArray[np.int64]
    """The row of each individual in the user's data."""
    clipped: int
    """Rows with a value outside the bounds, moved to the nearest bound."""
    dropped: int
    """Rows left out: a value that the space does not have, or a broken constraint."""


class Space(Viewed):
    """All valid inputs of a model, and which attributes are protected.

    Parameters
    ----------
    attributes
        The columns, in the model's order.
    protected
        Names of the attributes that must not matter; ``sensitive_features`` is another name for it.
    constraints
        Conditions that every individual meets, as text: ``"hours <= 60 or age >= 3"``.
    links
        Attributes that follow a protected one: ``{"sex": {"relationship": {"Female": {"Husband": "Wife"}, "Male":
        {"Wife": "Husband"}}}}`` reads "when sex becomes Female, relationship Husband becomes Wife", and back. If a link
        has no way back (only women have pregnancies), a family depends on the individual it is built from.
    max_family_size
        Maximum number of counterparts of an individual; if there are more, a sample is used and the run says so.

    Examples
    --------
    >>> from evenhand.spaces.attributes import Integer, Nominal
    >>> space = Space([Integer("age", 1, 9), Nominal("sex", ["F", "M"])], protected=["sex"])
    >>> space.tests, space.combinations
    (9, 2)
    """

    def __init__(
        self,
        attributes: Iterable[Attribute],
        protected: str | Sequence[str] | None = None,
        constraints: Sequence[str] = (),
        links: Links | None = None,
        max_family_size: int = 1000,
        *,
        sensitive_features: str | Sequence[str] | None = None,
        notes: Sequence[Note] = (),
    ) -> None:
        if not isinstance(attributes, Iterable):
            remedy = "write them in a list"
            raise SpaceError("must be a list of attributes", parameter="attributes", value=attributes, remedy=remedy)
        self.attributes: tuple[Attribute, ...] = tuple(attributes)
        self._check_attributes()
        self.names = tuple(a.name for a in self.attributes)
        self._places = {name: j for j, name in enumerate(self.names)}
        self.protected = self._protected_names(_one_of_two(protected, sensitive_features))
        self.links: Links = links or {}
        self.max_family_size = check_int("max_family_size", max_family_size, SpaceError, 2)
        self.notes = tuple(notes)
        self.protected_columns = [self.column(name) for name in self.protected]
        self.free_columns = sorted({*range(len(self.names))} - {*self.protected_columns})
        self.sizes = np.array([a.size for a in self.attributes], dtype=np.int64)
        self.present = np.array([a.present for a in self.attributes], dtype=np.int64)
        self.ordered = np.array([a.ordered for a in self.attributes])
        self.coding = Coding([a.size for a in self.attributes], self.free_columns, self.protected_columns)
        self.has_ids = self.coding.fits
        self.free = tuple(self.names[j] for j in self.free_columns)
        self.combinations = self.coding.combinations
        """Number of combinations of protected values."""
        self.tests = self.coding.total // self.combinations
        """Number of combinations of free values, before constraints."""
        self.width = min(self.combinations, self.max_family_size)
        """Maximum rows of a family: an individual and its counterparts."""
        self.sampled = self.combinations > self.max_family_size
        """Whether individuals are compared with a sample of their counterparts."""
        texts = [constraints] if isinstance(constraints, str) else constraints
        self.constraints: tuple[Constraint, ...] = parse_all(texts, self.attributes) if len(texts) else ()
        self.countable = not (self.constraints or self.links)
        """Whether ``tests`` is the number of tests that can be judged."""
        self.link_tables = link_tables(self)
        self.sampler = Sampler(self)

    noun, input, default_strategy = "individual", "rows", "auto"

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work with this space."""
        return feature == "attributes"

    @property
    def space(self) -> Self:
        """The space itself: it is its own bound space."""
        return self

    def bind(self, data: Any, model: Any) -> Binding:
        """Bind the space to the data of a run."""
        del model
        if data is None:
            return Binding(self)
        encoded = self.encode(data)
        if not len(encoded.individuals):
            raise DataError(
                f"has {encoded.dropped:,} rows, none of them in the space" if encoded.dropped else "has no rows",
                parameter="data",
                remedy=("give rows of the space, widen it, or leave out ", DATA, " to start from random individuals"),
            )
        return Binding(self, encoded.individuals, encoded.clipped, encoded.dropped, positions=encoded.positions)

    def findings(self) -> Findings:
        """Return an empty table of findings."""
        return Findings(self)

    def inputs(self, rows: Any, kind: str, columns: Sequence[str] | None = None) -> Any:
        """Build the frame or array that a model takes."""
        if kind == "array":
            return self.array(rows)
        frame = self.frame(rows)
        return frame if columns is None or columns == self.names else frame[list(columns)]

    def family_inputs(self, families: TabularFamilies, kind: str, columns: Sequence[str] | None = None) -> Any:
        """Build the frame or array that a model takes of whole families."""
        return families.array() if kind == "array" else self.inputs(families.asked, kind, columns)

    def probes(self, people: Any, count: int = 64) -> Any:
        """Return random individuals, always the same for a space; or the first of the data if none can be drawn."""
        try:
            return self.sampler.draw(Stream(0), 0, count)[0]
        except SpaceError:
            if people is None or not len(people):
                raise
            return people[:count]

    def digest_of(self, people: Individuals) -> str:
        """Identify the rows that a search starts from."""
        return hashlib.sha256(people.rows.tobytes()).hexdigest()

    def column(self, name: str) -> int:
        """Return the position of an attribute, or raise with the nearest names."""
        try:
            return self._places[name]
        except (KeyError, TypeError):
            remedy = suggest(str(name), self.names)
            raise SpaceError(f"the space has no attribute {name!r:.100}", value=name, remedy=remedy) from None

    @classmethod
    def infer(
        cls,
        frame: Any,
        protected: str | Sequence[str] | None = None,
        target: str | None = None,
        *,
        sensitive_features: str | Sequence[str] | None = None,
        overrides: Mapping[str, Attribute] | None = None,
        exclude: Sequence[str] = (),
        missing: Literal["group", "drop"] | None = None,
        constraints: Sequence[str] = (),
        links: Links | None = None,
        max_family_size: int = 1000,
    ) -> Space:
        """Infer a space from a frame: kinds, bounds and values of its columns; ``print`` shows them with reasons.

        Parameters
        ----------
        frame
            Data rows: a frame of pandas, polars or pyarrow, or a mapping of names to lists.
        target
            The column that the model predicts; it is not an attribute.
        overrides
            Attributes to use instead of the inferred ones, by name.
        exclude
            Columns that the model does not receive.
        missing
            How to treat rows whose protected value is missing or an empty text: ``"group"`` makes them a separate
            group; ``"drop"`` leaves them out, also in later data. By default they raise an error.
        protected, constraints, links, max_family_size
            As for ``Space``.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"hours": [10, 60], "sex": ["F", "M"], "paid": [0, 1]})
        >>> Space.infer(frame, protected=["sex"], target="paid").names
        ('hours', 'sex')
        """
        from evenhand.spaces.infer import infer

        names = _names(_one_of_two(protected, sensitive_features))
        attributes, notes = infer(frame, names, target, overrides=overrides, exclude=exclude, missing=missing)
        return cls(attributes, names, constraints, links, max_family_size, notes=notes)

    def save(self, path: str | Path) -> None:
        """Write the space as TOML."""
        from evenhand.spaces.toml import save

        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Space:
        """Read a space from TOML."""
        from evenhand.spaces.toml import load

        return load(path)

    def describe(self) -> dict[str, Any]:
        """Return everything that defines this space, as plain values."""
        return {
            "attributes": [a.describe() for a in self.attributes],
            "protected": list(self.protected),
            "constraints": [c.text for c in self.constraints],
            "links": {p: {d: [[v, list(m.items())] for v, m in t.items()] for d, t in ds.items()}
                      for p, ds in self.links.items()},
            "max_family_size": self.max_family_size,
        }  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash((self.names, self.protected))

    def __repr__(self) -> str:
        counterparts = f"{count(self.combinations)} counterparts each"
        if self.sampled:
            counterparts = f"{self.max_family_size:,} counterparts each, sampled from {count(self.combinations)}"
        tests = "tests" if self.countable else "combinations of free values"
        lines = [f"Space: {len(self.names)} attributes, {count(self.tests)} {tests} of {counterparts}"]
        name_width = max(len(visible(name)) for name in self.names)
        kind_width = max(len(a.kind) for a in self.attributes)
        reasons = {note.name: f"  ({note.reason})" for note in self.notes}
        for attribute in self.attributes:
            role = "protected" if attribute.name in self.protected else ""
            missing = ", or missing" if attribute.has_missing else ""
            lines.append(
                f"  {visible(attribute.name):<{name_width}}  {attribute.kind:<{kind_width}}  {role:<9} "
                f"{attribute.allowed()}{missing}{reasons.get(attribute.name, '')}"
            )
        lines += [f"  constraint: {constraint.text}" for constraint in self.constraints]
        lines += [f"  link: {dependent} follows {name}" for name, ends in self.links.items() for dependent in ends]
        return "\n".join(map(visible, lines))

    def individuals(self, rows: npt.ArrayLike) -> Individuals:
        """Return individuals from rows of codes; raise if one is outside the space."""
        codes = np.asarray(rows)
        if codes.ndim != 2 or codes.shape[1] != len(self.names) or codes.dtype.kind not in "iu":
            got = f"{codes.dtype} {codes.shape}"
            problem = f"must be integer codes of shape (n, {len(self.names)})"
            raise DataError(problem, parameter="rows", value=got, remedy="space.encode(frame) makes them")
        outside = (codes < 0) | (codes >= self.sizes)
        if outside.any():
            i, j = (int(v) for v in np.argwhere(outside)[0])
            attribute = self.attributes[j]
            problem = f"individual {i} is outside the space: {attribute.name!r} has code {codes[i, j]}"
            remedy = f"allowed: 0 to {attribute.size - 1} ({attribute.allowed()})"
            raise DataError(problem, value=int(codes[i, j]), remedy=remedy)
        return Individuals(self, rows=np.ascontiguousarray(codes, dtype=np.int32))

    def encode(self, frame: Any, *, strict: bool = False) -> Encoded:
        """Convert a frame of the user's values to individuals.

        Values outside the bounds are clipped and counted. Rows with an unknown category, an invalid missing value or a
        broken constraint are dropped and counted; ``strict`` raises instead. A missing protected value also raises,
        unless its attribute has ``missing`` set.
        """
        from evenhand.spaces.frames import columns_of

        columns = columns_of(frame)
        if absent := [name for name in self.names if name not in columns]:
            problem = f"the data lacks {', '.join(map(repr, absent))}"
            there = f"it has {', '.join(map(repr, list(columns)[:20])) or 'no columns'}"
            raise DataError(f"{problem}; {there}", value=absent, remedy="name its columns like the attributes")
        n = len(columns[self.names[0]])
        if not strict:
            self._check_protected(columns, n)
        rows = np.empty((n, len(self.names)), dtype=np.int64)
        clipped, bad = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        for j, attribute in enumerate(self.attributes):
            values = columns[attribute.name]
            rows[:, j], outside = attribute.encode(values)
            wrong = (rows[:, j] < 0) | outside
            if strict and wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                value = native(values[i])
                problem = f"individual {i} is outside the space: {attribute.name} = {value!r}"
                raise DataError(problem, value=value, remedy=f"allowed: {attribute.allowed()}")
            clipped |= outside
            bad |= rows[:, j] < 0
        kept = np.flatnonzero(~bad)
        codes = rows[kept].astype(np.int32)
        valid = self.valid(codes)
        if strict and not valid.all():
            i = int(np.flatnonzero(~valid)[0])
            broken = [c.text for c in self.constraints if not c.holds(self.values(codes[i : i + 1], c.names))[0]]
            problem = f"individual {i} breaks the constraint {broken[0]!r}"
            raise DataError(problem, value=broken[0], remedy="change its values or the constraint")
        kept = kept[valid]
        people = Individuals(self, rows=np.ascontiguousarray(codes[valid]))
        return Encoded(people, kept, clipped=int(clipped[kept].sum()), dropped=n - len(kept))

    def _check_protected(self, columns: Mapping[str, npt.NDArray[Any]], rows: int) -> None:
        """Raise if protected values are missing and ``missing`` is not set."""
        unset = [a.name for a in self.attributes if a.name in self.protected and not getattr(a, "missing", False)]
        counts = {name: int(missing_mask(columns[name]).sum()) for name in unset}
        if counts := {name: count for name, count in counts.items() if count}:
            dropped = 'leave such rows out, or set missing="drop" on the attribute to have them left out'
            raise no_value(counts, rows, f"{dropped}, or missing=True to make missing values a group")

    def values(self, rows: Rows, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
        """Decode some columns."""
        return {name: self.attributes[j].decode(rows[:, j]) for name in names for j in [self.column(name)]}

    def frame(self, rows: Rows) -> pd.DataFrame:
        """Convert rows of codes to a frame with the user's values and dtypes."""
        return pd.DataFrame({a.name: a.column(rows[:, j]) for j, a in enumerate(self.attributes)}, copy=False)

    def array(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Convert rows of codes to a float array of the user's numbers, in the space's column order."""
        offset, scale, tables = self._affine
        out = rows.astype(np.float64)
        if (scale != 1).any():
            out *= scale
        if offset.any():
            out += offset
        for j, table in tables.items():
            out[:, j] = table[rows[:, j]]
        return out

    @cached_property
    def numbers(self) -> Numbers | None:
        """What turns ids into numbers; None if the space has no ids, or attributes with very many values."""
        few = max(self.coding.sizes[j] for j in self.free_columns) <= LARGEST and self.combinations <= LARGEST
        return Numbers(self) if self.has_ids and few else None

    @cached_property
    def protected_numbers(self) -> npt.NDArray[np.float64]:
        """The numbers of every combination of protected values; free columns have their first value."""
        first = self.individuals(np.zeros((1, len(self.names)), dtype=np.int32))
        plain = TabularFamilies(self, first, np.arange(self.coding.combinations), np.zeros(1, dtype=np.int64))
        return self.array(plain.rows[0])

    @cached_property
    def _affine(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], dict[int, npt.NDArray[np.float64]]]:
        """Columns as offset + scale * code if that is exact, otherwise as tables of values."""
        offset, scale = np.zeros(len(self.names)), np.ones(len(self.names))
        tables: dict[int, npt.NDArray[np.float64]] = {}
        for j, attribute in enumerate(self.attributes):
            if isinstance(attribute, Integer) and not attribute.has_missing:
                offset[j], scale[j] = attribute.low, attribute.step
                continue
            try:
                tables[j] = attribute.decode(np.arange(attribute.size)).astype(np.float64)
            except (TypeError, ValueError):
                problem = f"the model takes an array of numbers, but {attribute.name!r} has values such as "
                remedy = ("if it takes a frame: ", FRAME, "; otherwise code the column as numbers")
                raise SpaceError(problem + attribute.allowed(), value=attribute.name, remedy=remedy) from None
        return offset, scale, tables

    def valid(self, rows: Rows) -> Mask:
        """Return which rows meet every constraint."""
        out = np.ones(len(rows), dtype=bool)
        for constraint in self.constraints:
            out &= constraint.holds_codes({name: rows[:, self.column(name)] for name in constraint.names})
        return out

    def keys(self, individuals: Individuals) -> Keys:
        """Identify each individual's test."""
        if self.links:
            return self._family_keys(individuals)
        if self.coding.fits:
            return individuals.ids // self.coding.combinations * 2
        return hashed(individuals.rows[:, self.free_columns])

    def _family_keys(self, individuals: Individuals) -> Keys:
        """With links, a test is the set of its family's members."""
        plain = Individuals(self, rows=individuals.rows, keys=hashed(individuals.rows[:, self.unlinked_columns]))
        family = families(self, plain, seed=0)
        halves = hashed(family.rows.reshape(-1, len(self.names))).view(np.float64).astype(np.uint64)
        total = halves.reshape(len(individuals), family.width, 2).sum(axis=1)
        # The halves have 53 bits; the sums are shifted so that packing keeps their lowest bits.
        return complex_keys(total[:, 0] << np.uint64(11), total[:, 1] << np.uint64(11))

    @cached_property
    def unlinked_columns(self) -> list[int]:
        """Free columns that follow no protected attribute."""
        linked = {j for dependents in self.link_tables.values() for j in dependents}
        return [j for j in self.free_columns if j not in linked]

    @cached_property
    def move_table(self) -> Moves:
        """Every move of the free attributes."""
        return Moves(self)

    def families(self, individuals: Individuals, seed: int) -> TabularFamilies:
        """Build the individuals with their counterparts, which differ in protected and linked attributes only."""
        return families(self, individuals, seed)

    def batch_size_for(self, individuals: Individuals, positions: npt.NDArray[np.int64], rows: int) -> int:
        """Return how many individuals fit one call of ``rows`` rows with their families; all families have one size."""
        del individuals, positions
        return max(1, rows // self.width)

    def most_different(self, individuals: Individuals, stored: npt.NDArray[Any]) -> Individuals:
        """Rebuild counterparts of individuals from their stored form; only protected columns are new."""
        if self.links or not self.coding.fits:
            return Individuals.from_stored(self, stored)
        rows, rest = individuals.rows.copy(), stored % self.coding.combinations
        for j in reversed(self.protected_columns):
            rest, rows[:, j] = np.divmod(rest, self.coding.sizes[j])
        return Individuals(self, ids=stored, rows=rows)

    def neighbours(self, individuals: Individuals) -> Individuals:
        """Return all individuals one move away, parent by parent."""
        return neighbours(self, individuals)

    def _check_attributes(self) -> None:
        if not self.attributes:
            raise SpaceError("must have at least one", parameter="attributes", value=[], remedy="name the columns")
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                kinds = "must be Integer, Ordinal, Nominal, Boolean or Real"
                remedy = "eh.Space.infer makes them from a frame"
                raise SpaceError(kinds, parameter="attributes", value=attribute, remedy=remedy)
            name = attribute.name
            if not isinstance(name, str) or not name:
                problem = "of an attribute must be a text that is not empty"
                raise SpaceError(problem, parameter="name", value=name, remedy="name it like its column")
            check_unicode(f"the name {name!r}", name, "leave it out")
        if twice := repeated(attribute.name for attribute in self.attributes):
            problem = "must have different names"
            raise SpaceError(problem, parameter="attributes", value=twice, remedy="rename the attributes")

    def _protected_names(self, protected: str | Sequence[str] | None) -> tuple[str, ...]:
        names = _names(protected)
        for name in names:
            self.attributes[self.column(name)].check_comparable("give it two values or protect another attribute")
        if len(set(names)) < len(names):
            problem, remedy = "must name each attribute once", "remove repeated names"
        elif len(names) == len(self.names):
            problem, remedy = "must not name every attribute", "leave at least one attribute free"
        else:
            return names
        raise SpaceError(problem, parameter="protected", value=list(names), remedy=remedy)


def _names(protected: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the protected names; raise if there are none."""
    if protected is not None and not isinstance(protected, Iterable):
        remedy = ("write ", PROTECTED)
        raise SpaceError("must be a name or a list of names", parameter="protected", value=protected, remedy=remedy)
    names = (protected,) if isinstance(protected, str) else tuple(protected or ())
    if not names:
        raise unprotected()
    return names


def unprotected() -> SpaceError:
    """Return the error for a space without protected attributes."""
    return SpaceError("no attribute is protected", value=(), remedy=("name at least one: ", PROTECTED))


def _one_of_two(protected: Any, sensitive_features: Any) -> Any:
    if protected is not None and sensitive_features is not None:
        problem = "protected and sensitive_features are two names for one setting"
        raise SpaceError(problem, value=sensitive_features, remedy="use one of them")
    return sensitive_features if protected is None else protected
