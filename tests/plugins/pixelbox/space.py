"""Boxes of pixels: small grey images with a patch whose filling must not matter."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from evenhand._rng import Stream
from evenhand.errors import DataError, SpaceError
from evenhand.spaces.base import Binding
from evenhand.spaces.findings import Findings, array_of, decision_column
from evenhand.spaces.individuals import hashed


class PixelSpace:
    """Square images of few levels of grey; the patch has one of some fillings, and all other pixels are free.

    It is both what the user names and, because it needs no data, what a run works with.
    """

    noun, input, default_strategy, protected = "image", "rows", "pixel-flips", ("patch",)
    sampled, constraints, has_ids, countable = False, (), False, True

    def __init__(
        self,
        side: int = 4,
        patch: Sequence[int] = (0, 0, 2, 2),
        levels: int = 4,
        fillings: Sequence[int] = (0, 3),
    ) -> None:
        top, left, height, width = patch
        if top + height > side or left + width > side or len(fillings) < 2 or max(fillings) >= levels:
            raise SpaceError(f"patch {tuple(patch)} or fillings {tuple(fillings)} do not fit {side} x {side} images")
        self.side, self.patch, self.levels, self.fillings = side, tuple(patch), levels, np.array(fillings)
        inside = np.zeros((side, side), dtype=bool)
        inside[top : top + height, left : left + width] = True
        self.inside, self.free = np.flatnonzero(inside), np.flatnonzero(~inside)

    # What it is.

    @property
    def space(self) -> Self:
        return self

    def supports(self, feature: str) -> bool:
        return feature == "pixels"

    def describe(self) -> dict[str, Any]:
        settings = {"side": self.side, "patch": list(self.patch), "levels": self.levels}
        return {"kind": "pixels", **settings, "fillings": self.fillings.tolist()}

    @classmethod
    def described(cls, described: dict[str, Any]) -> PixelSpace:
        """Take a space back from its description: the entry point of the group ``evenhand.spaces``."""
        return cls(**{name: value for name, value in described.items() if name != "kind"})

    # Individuals.

    def images(self, rows: Any) -> Images:
        """Take rows of levels as images."""
        return Images(self, np.ascontiguousarray(rows, dtype=np.uint8))

    def random(self, stream: Stream, number: int, count: int) -> Images:
        """Draw images, by their number: the first ones of a larger count are those of a smaller one."""
        here = np.arange(count)
        rows = np.empty((count, self.side**2), dtype=np.uint8)
        for pixel in range(self.side**2):
            rows[:, pixel] = stream.below(self.levels, "images", here, number * self.side**2 + pixel)
        rows[:, self.inside] = self.fillings[stream.below(len(self.fillings), "filling", here, number)][:, None]
        return self.images(rows)

    def bind(self, data: Any, model: Any) -> Binding:
        """Take images as individuals; those whose patch is not filled as it should be are left out and counted."""
        if data is None:
            return Binding(self)
        rows = np.asarray(data, dtype=float).reshape(len(data), -1)
        if rows.shape[1] != self.side**2:
            raise DataError(f"images of {self.side**2} pixels are wanted, got some of {rows.shape[1]}")
        levels = np.clip(np.round(rows), 0, self.levels - 1).astype(np.uint8)
        filled = (levels[:, self.inside] == levels[:, self.inside[:1]]).all(axis=1)
        filled &= np.isin(levels[:, self.inside[0]], self.fillings)
        clipped = int((levels != rows).any(axis=1)[filled].sum())
        return Binding(self, self.images(levels[filled]), clipped, int((~filled).sum()))

    def probes(self, people: Any, count: int = 64) -> Images:
        return self.random(Stream(0), 0, count)

    def digest_of(self, people: Images) -> str:
        return hashlib.sha256(people.rows.tobytes()).hexdigest()

    @property
    def tests(self) -> int:
        return int(self.levels ** len(self.free))

    # Families.

    @property
    def width(self) -> int:
        return len(self.fillings)

    def families(self, individuals: Images, seed: int) -> Fillings:
        return Fillings(individuals)

    def batch_size_for(self, individuals: Images, positions: Any, rows: int) -> int:
        return max(1, min(len(positions), rows // self.width))

    def most_different(self, individuals: Images, stored: Any) -> Images:
        return self.images(stored)

    # What a model takes, and what is kept.

    def inputs(self, rows: Any, kind: str, columns: Sequence[str] | None = None) -> Any:
        if kind == "array":
            return np.asarray(rows, dtype=float).reshape(-1, self.side, self.side)
        import pandas as pd

        return pd.DataFrame(rows, columns=[f"p{i}" for i in range(self.side**2)])

    def family_inputs(self, families: Fillings, kind: str, columns: Sequence[str] | None = None) -> Any:
        return self.inputs(families.asked, kind, columns)

    def findings(self) -> Findings:
        return PixelFindings(self)


class Images:
    """A block of images, one row of levels each."""

    def __init__(self, space: PixelSpace, rows: Any) -> None:
        self.space, self.rows = space, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Any) -> Images:
        return Images(self.space, self.rows[which])

    @property
    def keys(self) -> Any:
        """The same for all images that differ in the patch alone."""
        return hashed(self.rows[:, self.space.free])

    @property
    def ids(self) -> Any:
        raise NotImplementedError("images have no numbers")

    @property
    def stored(self) -> Any:
        return self.rows


class Fillings:
    """Families: each image with every filling of its patch."""

    valid = testable = None

    def __init__(self, individuals: Images) -> None:
        self.individuals, self.space = individuals, individuals.space
        filling = individuals.rows[:, self.space.inside[0]]
        self.own = (filling[:, None] == self.space.fillings).argmax(axis=1)

    def __len__(self) -> int:
        return len(self.individuals)

    def __getitem__(self, which: Any) -> Fillings:
        return Fillings(self.individuals[which])

    @property
    def places(self) -> Any:
        return np.full(len(self), self.space.width)

    @property
    def asked(self) -> Any:
        rows = np.repeat(self.individuals.rows, self.space.width, axis=0)
        rows[:, self.space.inside] = np.tile(self.space.fillings, len(self))[:, None]
        return rows

    def to_grid(self, answers: Any) -> Any:
        return answers.reshape(len(self), self.space.width, *answers.shape[1:])

    def members(self, which: Any, place: Any) -> Images:
        """Give one member of each of some families; ``Findings`` keeps their stored form."""
        return self.space.images(self.to_grid(self.asked)[which, place])

    def most_different(self, places: Any) -> Any:
        return self.members(np.arange(len(self)), places).stored


class PixelFindings(Findings):
    """Pairs of images."""

    def check_sides(self, answer: dict[str, Any], count: int) -> None:
        """Raise a ``ValueError`` where an answer that was stored does not have the two sides of so many pairs."""
        for name in ("individual", "counterpart"):
            stored = array_of(answer, name, "u", count, 2)
            if stored.shape[1] != self.space.side**2:
                raise ValueError(f"{name} has {stored.shape[1]} pixels, and the space {self.space.side**2}")

    def rows(self, which: str = "individual", at: Any = slice(None)) -> Any:
        return self.select(which, at) if self.count else np.zeros((0, self.space.side**2), dtype=np.uint8)

    def frame(self, at: Any = slice(None)) -> Any:
        """Lay pairs out: a column for what is free, and two for each name of what is protected."""
        import pandas as pd

        one, other = (self.rows(side, at) for side in ("individual", "counterpart"))
        first = self.space.inside[0]
        columns: dict[str, Any] = {
            "image": [self._drawn(row) for row in one],
            "patch": one[:, first].astype(int),
            "counterpart_patch": other[:, first].astype(int),
        }
        for name in ("decision", "counterpart_decision"):
            columns[name] = decision_column(self.decisions(name, at)) if self.count else np.zeros(0)
        columns["gap"] = self.joined()["gap"][at] if "gap" in self.joined() else np.ones(len(one))
        columns["confirmed"] = self.confirmed_at(at)
        return pd.DataFrame(columns)

    def _drawn(self, row: Any) -> str:
        cells = np.array(list("0123456789"))[row]
        cells[self.space.inside] = "#"
        return "/".join("".join(line) for line in cells.reshape(self.space.side, -1))
