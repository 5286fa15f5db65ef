"""The space of legal individuals with attributes in columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from evenhand._format import count, visible
from evenhand._rng import Stream
from evenhand._validate import check_int
from evenhand.errors import FRAME, PROTECTED, DataError, SpaceError
from evenhand.spaces.attributes import Attribute, Integer, check_whole, missing_mask, no_value, repeated, suggest
from evenhand.spaces.constraints import Constraint, parse_all
from evenhand.spaces.individuals import Coding, Individuals, Keys, Rows, complex_keys, hashed
from evenhand.spaces.neighbours import Links, Moves, TabularFamilies, families, link_tables, neighbours
from evenhand.spaces.sampler import Sampler

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.spaces.base import Bound
    from evenhand.spaces.findings import Findings
    from evenhand.spaces.infer import Note


@dataclass(frozen=True)
class Encoded:
    """Data rows as individuals, with what had to be done to them."""

    individuals: Individuals
    positions: npt.NDArray[np.int64]
    """Where each individual stands in the user's data."""
    clipped: int
    """Rows with a value outside the bounds, moved to the nearest bound."""
    dropped: int
    """Rows left out: a value that the space does not have, or a broken constraint."""


class Space:
    """All legal inputs of a model, and which attributes must not matter.

    Parameters
    ----------
    attributes
        The columns, in the model's order.
    protected
        Names of the attributes that must not matter.
    constraints
        Conditions that every individual meets, as text: ``"hours <= 60 or age >= 3"``.
    links
        Attributes that follow a protected one: ``{"sex": {"relationship": {"Female": {"Husband": "Wife"}, "Male":
        {"Wife": "Husband"}}}}`` reads "when sex becomes Female, relationship Husband becomes Wife", and back. Where a
        link has no way back (only women have pregnancies), a family depends on whom it is built from, and families of
        different people are different tests.
    max_family_size
        The most counterparts that one individual is compared with; beyond it a sample of them, stated in the run.

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
        self.attributes: tuple[Attribute, ...] = tuple(attributes)
        self._check_attributes()
        self.names = tuple(a.name for a in self.attributes)
        self._places = {name: j for j, name in enumerate(self.names)}
        self.protected = self._protected_names(_one_of_two(protected, sensitive_features))
        self.links: Links = links or {}
        self.max_family_size = max_family_size
        self.notes = tuple(notes)
        check_int("max_family_size", max_family_size, SpaceError, 2)
        self.protected_columns = [self.column(name) for name in self.protected]
        self.free_columns = sorted({*range(len(self.names))} - {*self.protected_columns})
        self.sizes = np.array([a.size for a in self.attributes], dtype=np.int64)
        self.present = np.array([a.present for a in self.attributes], dtype=np.int64)
        self.ordered = np.array([a.ordered for a in self.attributes])
        self.coding = Coding([a.size for a in self.attributes], self.free_columns, self.protected_columns)
        if isinstance(constraints, str):
            constraints = [constraints]
        self.constraints: tuple[Constraint, ...] = parse_all(constraints, self.attributes)
        self.link_tables = link_tables(self)
        self.sampler = Sampler(self)

    noun, input, default_strategy = "individual", "rows", "kosei"

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work.

        >>> from evenhand.spaces.attributes import Boolean
        >>> Space([Boolean("member"), Boolean("sex")], protected="sex").supports("texts")
        False
        """
        return feature == "attributes"

    @property
    def space(self) -> Self:
        """The space itself: one of attributes is bound as it is."""
        return self

    def bind(self, data: Any, model: Any) -> Bound:
        """Bind the space to the data of a run."""
        from evenhand.spaces.base import Bound

        del model
        if data is None:
            return Bound(self)
        encoded = self.encode(data)
        return Bound(self, encoded.individuals, encoded.clipped, encoded.dropped, positions=encoded.positions)

    def findings(self) -> Findings:
        """Return an empty table of findings."""
        from evenhand.spaces.findings import Findings

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
        """Return random individuals, the same for a space always; the first of the data where none can be drawn."""
        try:
            return self.sampler.deal(Stream(0), 0, count)[0]
        except SpaceError:
            if people is None or not len(people):
                raise
            return people[:count]

    def digest_of(self, people: Individuals) -> str:
        """Identify the rows that a search starts from."""
        return hashlib.sha256(people.rows.tobytes()).hexdigest()

    @property
    def combinations(self) -> int:
        """How many combinations of protected values there are."""
        return self.coding.combinations

    @property
    def tests(self) -> int:
        """How many combinations of free values there are, constraints not considered."""
        return self.coding.total // self.coding.combinations

    @property
    def countable(self) -> bool:
        """Whether ``tests`` is the number of tests that can be judged: no constraint and no link changes it."""
        return not (self.constraints or self.links)

    @property
    def has_ids(self) -> bool:
        """Whether individuals have ids."""
        return self.coding.fits

    @property
    def width(self) -> int:
        """The most rows of a family: an individual and its counterparts."""
        return min(self.combinations, self.max_family_size)

    @property
    def sampled(self) -> bool:
        """Whether individuals are compared with a sample of their counterparts."""
        return self.combinations > self.max_family_size

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the attributes that are not protected."""
        return tuple(self.names[j] for j in self.free_columns)

    def column(self, name: str) -> int:
        """Return the position of an attribute, or raise with the nearest names.

        >>> from evenhand.spaces.attributes import Boolean
        >>> Space([Boolean("member"), Boolean("sex")], protected="sex").column("sex")
        1
        """
        try:
            return self._places[name]
        except (KeyError, TypeError):
            raise SpaceError(f"no attribute {name!r:.100} in the space; {suggest(str(name), self.names)}") from None

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
        """Infer a space from a frame: kinds, bounds and values of its columns; ``print`` it to see what and why.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"hours": [10, 60], "sex": ["F", "M"], "paid": [0, 1]})
        >>> Space.infer(frame, protected=["sex"], target="paid").names
        ('hours', 'sex')

        Rows without a protected value raise, unless ``missing`` says ``"drop"`` or ``"group"``.
        """
        from evenhand.spaces.infer import infer

        names = _one_of_two(protected, sensitive_features)
        if names is None:
            raise SpaceError("no protected attribute", remedy=("name at least one: ", PROTECTED))
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
        """Give everything that makes this space, in plain values."""
        return {
            "attributes": [a.describe() for a in self.attributes],
            "protected": list(self.protected),
            "constraints": [c.text for c in self.constraints],
            "links": {p: {d: [[v, list(m.items())] for v, m in t.items()] for d, t in ds.items()}
                      for p, ds in self.links.items()},
            "limit": self.max_family_size,
        }  # fmt: skip

    @cached_property
    def digest(self) -> str:
        """Identify the space: equal digests, equal spaces."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True, default=repr).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return table(self)

    def individuals(self, rows: npt.ArrayLike) -> Individuals:
        """Take rows of codes as individuals; raise if one is outside the space."""
        codes = np.asarray(rows)
        if codes.ndim != 2 or codes.shape[1] != len(self.names) or codes.dtype.kind not in "iu":
            raise DataError(
                f"rows must be whole codes of shape (n, {len(self.names)}), got {codes.dtype} {codes.shape}"
            )
        outside = (codes < 0) | (codes >= self.sizes)
        if outside.any():
            i, j = (int(v) for v in np.argwhere(outside)[0])
            attribute = self.attributes[j]
            raise DataError(
                f"individual {i} is outside the space: {attribute.name!r} has code {codes[i, j]}; "
                f"allowed: 0 to {attribute.size - 1} ({attribute.allowed()})"
            )
        return Individuals(self, rows=np.ascontiguousarray(codes, dtype=np.int32))

    def encode(self, frame: Any, *, strict: bool = False) -> Encoded:
        """Turn a frame of the user's values into individuals.

        Values outside the bounds are clipped and counted; rows that cannot be mended (an unknown category, a missing
        value where none is legal, a broken constraint) are dropped and counted. ``strict`` raises instead. So does a
        missing protected value, unless the attribute says what to do about it.
        """
        from evenhand.spaces.frames import columns_of

        columns = columns_of(frame)
        missing = [name for name in self.names if name not in columns]
        if missing:
            raise DataError(f"the data lacks {', '.join(map(repr, missing))}; it has {', '.join(list(columns)[:20])}")
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
                raise DataError(
                    f"individual {i} is outside the space: {attribute.name} = {_shown(values[i])}; "
                    f"allowed: {attribute.allowed()}"
                )
            clipped |= outside
            bad |= rows[:, j] < 0
        kept = np.flatnonzero(~bad)
        codes = rows[kept].astype(np.int32)
        legal = self.legal(codes)
        if strict and not legal.all():
            i = int(np.flatnonzero(~legal)[0])
            broken = [c.text for c in self.constraints if not c.holds(self.values(codes[i : i + 1], c.names))[0]]
            raise DataError(f"individual {i} breaks the constraint {broken[0]!r}; change its values or the constraint")
        kept, codes = kept[legal], codes[legal]
        return Encoded(
            Individuals(self, rows=np.ascontiguousarray(codes)),
            kept,
            clipped=int(clipped[kept].sum()),
            dropped=n - len(kept),
        )

    def _check_protected(self, columns: Mapping[str, npt.NDArray[Any]], rows: int) -> None:
        """Raise where protected values are missing and nobody has said whether that is a group of its own."""
        asked = [a.name for a in self.attributes if a.name in self.protected and not getattr(a, "missing", False)]
        counts = {name: int(missing_mask(columns[name]).sum()) for name in asked}
        if counts := {name: count for name, count in counts.items() if count}:
            remedy = (
                'leave such rows out, or say of the attribute in the space: missing="drop" to have them left out, '
                "missing=True where no value is a group of its own"
            )
            raise no_value(counts, rows, remedy)

    def values(self, rows: Rows, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
        """Decode some columns."""
        return {name: self.attributes[j].decode(rows[:, j]) for name in names for j in [self.column(name)]}

    def frame(self, rows: Rows) -> pd.DataFrame:
        """Turn rows of codes into a frame with the user's own values and dtypes."""
        import pandas as pd

        return pd.DataFrame(
            {a.name: a.column(rows[:, j]) for j, a in enumerate(self.attributes)}, copy=False, columns=list(self.names)
        )

    def array(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Turn rows of codes into a float array of the user's numbers, in the space's column order."""
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
    def protected_numbers(self) -> npt.NDArray[np.float64]:
        """The numbers of every combination of protected values; free columns have their first value."""
        first = self.individuals(np.zeros((1, len(self.names)), dtype=np.int32))
        plain = TabularFamilies(self, first, np.arange(self.coding.combinations), np.zeros(1, dtype=np.int64))
        return self.array(plain.rows[0])

    @cached_property
    def _affine(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], dict[int, npt.NDArray[np.float64]]]:
        """Columns as offset + scale * code where that is exact, as tables of values otherwise."""
        offset, scale = np.zeros(len(self.names)), np.ones(len(self.names))
        tables: dict[int, npt.NDArray[np.float64]] = {}
        for j, attribute in enumerate(self.attributes):
            if isinstance(attribute, Integer) and not attribute.has_missing:
                offset[j], scale[j] = attribute.low, attribute.step
                continue
            try:
                tables[j] = attribute.decode(np.arange(attribute.size)).astype(np.float64)
            except (TypeError, ValueError):
                raise SpaceError(
                    f"the model takes an array of numbers, but {attribute.name!r} has values such as "
                    f"{attribute.allowed()}",
                    remedy=("if it takes a frame: ", FRAME, "; otherwise code the column as numbers"),
                ) from None
        return offset, scale, tables

    def legal(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Tell which rows meet every constraint."""
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
        """With links a test is the set of its family's members, whichever of them it was built from."""
        plain = Individuals(self, rows=individuals.rows, keys=hashed(individuals.rows[:, self.unlinked_columns]))
        family = families(self, plain, seed=0)
        parts = (
            hashed(family.rows.reshape(-1, len(self.names)))
            .view(np.float64)
            .astype(np.uint64)
            .reshape(len(individuals), family.width, 2)
        )
        total = parts.sum(axis=1)
        # The halves have 53 bits; shift the sums up so that packing keeps their lowest bits.
        return complex_keys(total[:, 0] << np.uint64(11), total[:, 1] << np.uint64(11))

    @cached_property
    def unlinked_columns(self) -> list[int]:
        """Free columns that follow no protected attribute."""
        linked = {j for dependents in self.link_tables.values() for j in dependents}
        return [j for j in self.free_columns if j not in linked]

    @cached_property
    def move_table(self) -> Moves:
        """All moves of the free attributes."""
        return Moves(self)

    def families(self, individuals: Individuals, seed: int) -> TabularFamilies:
        """Build everyone who differs from the individuals in protected attributes only."""
        return families(self, individuals, seed)

    def batch_size_for(self, individuals: Individuals, positions: npt.NDArray[np.int64], rows: int) -> int:
        """Say how many individuals fit one call of so many rows with their families; all families are alike."""
        del individuals, positions
        return max(1, rows // self.width)

    def most_different(self, individuals: Individuals, stored: npt.NDArray[Any]) -> Individuals:
        """Take counterparts of individuals back from their stored form; only the protected columns are built anew."""
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
            raise SpaceError("a space needs attributes; got none")
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                raise SpaceError(
                    f"attributes must be Integer, Ordinal, Nominal, Boolean or Real, got {type(attribute).__name__}"
                )
            if not isinstance(attribute.name, str) or not attribute.name:
                raise SpaceError(f"an attribute's name must be a text of at least one letter, got {attribute.name!r}")
            check_whole(f"the name {attribute.name!r}", attribute.name, "none of it")
        twice = repeated(attribute.name for attribute in self.attributes)
        if twice:
            raise SpaceError(f"attribute names must differ; twice: {', '.join(twice)[:200]}")

    def _protected_names(self, protected: str | Sequence[str] | None) -> tuple[str, ...]:
        if protected is not None and not isinstance(protected, Iterable):
            raise SpaceError(f"protected must be a name or a list of names, got {protected!r}")
        names = (protected,) if isinstance(protected, str) else tuple(protected or ())
        if not names:
            raise SpaceError("no protected attribute", remedy=("name at least one: ", PROTECTED))
        for name in names:
            attribute = self.attributes[self.column(name)]
            if attribute.size < 2:
                raise SpaceError(
                    f"the protected attribute {name!r} has a single value ({attribute.allowed()}), so nothing can be "
                    "compared; give it at least two values or protect another attribute"
                )
        if len(set(names)) < len(names):
            raise SpaceError(f"each protected attribute once, got {', '.join(names)}")
        if len(names) == len(self.names):
            raise SpaceError("every attribute is protected; leave at least one free, or there is nobody to test")
        return names


def _one_of_two(protected: Any, sensitive_features: Any) -> Any:
    if protected is not None and sensitive_features is not None:
        raise SpaceError("protected and sensitive_features are two names of one thing; give one of them")
    return protected if protected is not None else sensitive_features


def _shown(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def table(space: Space) -> str:
    """Lay a space out as text.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> print(table(Space([Integer("age", 1, 9), Boolean("sex")], protected="sex")))
    Space: 2 attributes, 9 tests of 2 counterparts each
      age  integer            whole numbers 1 to 9
      sex  boolean  protected False, True
    """
    counterparts = f"{count(space.combinations)} counterparts each"
    if space.combinations > space.max_family_size:
        counterparts = f"{space.max_family_size:,} counterparts each, sampled from {count(space.combinations)}"
    tests = "tests" if space.countable else "combinations of free values"
    lines = [f"Space: {len(space.names)} attributes, {count(space.tests)} {tests} of {counterparts}"]
    name_width = max(len(visible(name)) for name in space.names)
    kind_width = max(len(a.kind) for a in space.attributes)
    why = {note.name: note.reason for note in space.notes}
    for attribute in space.attributes:
        role = "protected" if attribute.name in space.protected else ""
        missing = ", or missing" if attribute.has_missing else ""
        reason = f"  ({why[attribute.name]})" if attribute.name in why else ""
        lines.append(
            f"  {visible(attribute.name):<{name_width}}  {attribute.kind:<{kind_width}}  {role:<9} "
            f"{attribute.allowed()}{missing}{reason}"
        )
    lines += [f"  constraint: {constraint.text}" for constraint in space.constraints]
    for protected, dependents in space.links.items():
        lines += [f"  link: {dependent} follows {protected}" for dependent in dependents]
    return "\n".join(map(visible, lines))
