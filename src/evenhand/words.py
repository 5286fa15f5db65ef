"""Findings in words: the few pairs that say most, as sentences in the user's own names and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import number
from evenhand.spaces.text.findings import TextFindings

if TYPE_CHECKING:
    from evenhand.runs.run import Run
    from evenhand.spaces.findings import Findings
    from evenhand.text_words import TextPair

CANDIDATES = 5_000
NEIGHBOURS = 1_000
WIDEST, NEAREST = 0.1, 0.02
"""The shares of candidates, by gap and by likeness to real people, among which pairs are spread."""


UNSURE = " (Not asked again, so not confirmed.)"
"""What stands behind a pair of a run that did not come to confirm it."""


@dataclass(frozen=True)
class Pair:
    """An individual, what differs in the counterpart, and what the model said of each.

    >>> pair = Pair({"age": 34, "sex": "Female"}, {"sex": "Male"}, "refused", "granted", 1.0)
    >>> pair.sentence
    'age 34, sex Female: refused. The same person with sex Male: granted.'
    """

    individual: dict[str, Any]
    changes: dict[str, Any]
    """The counterpart's values, where they are not the individual's."""
    decision: Any
    counterpart_decision: Any
    gap: float
    measured: bool = False
    """Whether the gap is a difference of scores, and not just the mark of a changed decision."""
    confirmed: bool = True
    """Whether the model was asked about the pair again and answered as before."""
    noun: str = "person"
    """What it is about."""

    @property
    def who(self) -> str:
        """Say who it is about."""
        return ", ".join(phrase(name, value) for name, value in self.individual.items())

    @property
    def swapped(self) -> str:
        """Say what must not matter."""
        return ", ".join(plain(name) for name in self.changes)

    @property
    def sentence(self) -> str:
        """Say the pair in one or two sentences."""
        other = " and ".join(phrase(name, value) for name, value in self.changes.items())
        by = f" (scores {number(self.gap, 6)} apart)" if self.measured else ""
        said, other_said = outcome(self.decision), outcome(self.counterpart_decision)
        sentence = f"{self.who}: {said}. The same {self.noun} with {other}: {other_said}{by}."
        return sentence if self.confirmed else sentence + UNSURE

    def to_dict(self) -> dict[str, Any]:
        """Give the pair in values that JSON has; a missing value is None."""
        return {
            "individual": {name: plain_json(value) for name, value in self.individual.items()},
            "changes": {name: plain_json(value) for name, value in self.changes.items()},
            "decision": plain_json(self.decision),
            "counterpart_decision": plain_json(self.counterpart_decision),
            "gap": self.gap,
            "confirmed": self.confirmed,
            "sentence": self.sentence,
        }


def telling(run: Run, count: int = 3, data: Any = None) -> Sequence[Pair | TextPair]:
    """Choose the pairs that tell most: large gaps, like real people where data is given, unlike each other.

    Parameters
    ----------
    run
        The run whose findings to choose from; its first 5,000 are looked at.
    count
        How many pairs, at most.
    data
        A frame of real rows: pairs that resemble them are preferred. Texts are compared with those they come from.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, strategy="themis")
    >>> [pair.sentence for pair in telling(run, 1)]
    ['age 3, sex F: True. The same person with sex M: False.']
    """
    if run.space.noun == "text":
        from evenhand.text_words import telling_texts

        return telling_texts(run, count)
    if not run.space.supports("attributes"):
        widest = np.argsort(-gaps_of(run, min(run.found, CANDIDATES)), kind="stable")[: max(0, 10 * count)]
        return _unlike(list(pairs_at(run, widest)))[: max(0, count)]
    found = min(run.found, CANDIDATES)
    if found == 0 or count < 1:
        return []
    rows = run.pairs.individuals("individual", slice(found)).rows
    gaps = gaps_of(run, found)
    order = np.arange(found)
    if np.ptp(gaps):
        order = first_by(-gaps, WIDEST, count)
    if data is not None:
        order = order[first_by(_distances(run, rows[order], data), NEAREST, count)]
    chosen = order[spread(rows[order][:, run.space.free_columns], directions(run, found)[order], count)]
    return pairs_at(run, chosen)


def pairs_at(run: Run, positions: npt.NDArray[np.int64]) -> Sequence[Pair | TextPair]:
    """Give the findings at some positions, which are sorted where the run is one of texts, as pairs.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: f["member"], space, strategy="themis")
    >>> pairs_at(run, np.array([0]))[0].changes
    {'member': True}
    """
    return pairs_in(run.pairs, positions)


def confirmation(run: Run) -> str:
    """Say how many findings there are, and how many of them are confirmed.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> confirmation(eh.audit(lambda f: f["member"], space, strategy="themis"))
    '9, all confirmed by asking again'
    >>> confirmation(eh.audit(lambda f: f["member"], space, strategy="themis", confirm=2))
    '9, of which 2 confirmed by asking again; 7 of 9 findings not asked again, so not confirmed'
    """
    if not run.doubts:
        return f"{run.found:,}, all confirmed by asking again" if run.found else "0"
    which = "all" if run.confirmed == run.found else f"of which {run.confirmed:,}"
    return "; ".join([f"{run.found:,}, {which} confirmed by asking again" if run.found else "0", *run.doubts])


def pairs_in(pairs: Findings, positions: npt.NDArray[np.int64]) -> Sequence[Pair | TextPair]:
    """Give some of any findings as pairs, as ``pairs_at`` does those of a run."""
    if not len(positions):
        return []
    if isinstance(pairs, TextFindings):
        from evenhand.text_words import text_pairs_in

        return text_pairs_in(pairs, positions)
    if not pairs.space.supports("attributes"):
        return _of_frame(pairs, positions)
    return pairs_of(
        pairs.space,
        pairs.individuals("individual", positions).rows,
        pairs.individuals("counterpart", positions).rows,
        pairs.decisions("decision", positions),
        pairs.decisions("counterpart_decision", positions),
        pairs.joined()["gap"][positions] if "gap" in pairs.joined() else None,
        pairs.confirmed_at(positions),
    )


def _unlike(pairs: list[Any]) -> list[Any]:
    """Put pairs first that say what none before them says: who got what, and what was changed."""
    seen: dict[str, int] = {}
    turns = []
    for pair in pairs:
        kind = repr((pair.decision, pair.counterpart_decision, pair.changes))
        turns.append(seen.setdefault(kind, 0))
        seen[kind] += 1
    return [pairs[i] for i in np.argsort(turns, kind="stable")]


def _of_frame(pairs: Findings, positions: npt.NDArray[np.int64]) -> list[Pair]:
    """Make pairs of findings of any kind by their frame: a column ``counterpart_NAME`` is of the counterpart."""
    frame, measured = pairs.frame(positions), "gap" in pairs.joined()
    names = [str(name) for name in frame.columns]
    others = {name: f"counterpart_{name}" for name in names if f"counterpart_{name}" in names}
    others.pop("decision")
    left_out = {*others.values(), "decision", "counterpart_decision", "gap", "confirmed"}
    return [
        Pair(
            {name: native(row[name]) for name in names if name not in left_out},
            {name: native(row[other]) for name, other in others.items() if not same(row[name], row[other])},
            native(row["decision"]),
            native(row["counterpart_decision"]),
            float(row["gap"]),
            measured,
            bool(row["confirmed"]),
            pairs.space.noun,
        )
        for row in frame.to_dict("records")
    ]


def pairs_of(
    space: Any,
    rows: npt.NDArray[np.int32],
    others: npt.NDArray[np.int32],
    said: npt.NDArray[Any],
    other_said: npt.NDArray[Any],
    gaps: npt.NDArray[np.float64] | None,
    confirmed: npt.NDArray[np.bool_] | None = None,
) -> list[Pair]:
    """Make pairs of rows of codes, what was said of each, and how far apart their scores are, where that is known."""
    people, counterparts = records(space, rows), records(space, others)
    # What is protected comes first, then what follows it.
    names = [*space.protected, *space.free]
    return [
        Pair(person, {name: other[name] for name in names if not same(person[name], other[name])},
             native(said[i]), native(other_said[i]), 1.0 if gaps is None else float(gaps[i]), gaps is not None,
             confirmed is None or bool(confirmed[i]))
        for i, (person, other) in enumerate(zip(people, counterparts, strict=True))
    ]  # fmt: skip


def phrase(name: str, value: Any) -> str:
    """Say an attribute and its value.

    >>> phrase("age", 34), phrase("work", None)
    ('age 34', 'work missing')
    """
    return f"{plain(name)} {plain(value)}"


def plain(value: Any) -> str:
    r"""Write a value for a reader: short numbers, "missing" for none, nothing that a terminal would obey.

    >>> plain(0.30000000000000004), plain(float("nan")), plain("a" + chr(27) + "b")
    ('0.3', 'missing', 'a\\x1bb')
    """
    if _missing(value):
        return "missing"
    text = number(value, 6, grouped=False) if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)[1:-1]


def outcome(value: Any) -> str:
    """Write what a model said: a decision as it is, a number for a reader.

    >>> outcome("granted"), outcome(1), outcome(12345.678)
    ('granted', '1', '12,345.7')
    """
    return number(value, 6) if isinstance(value, float) and not _missing(value) else plain(value)


def first_by(measure: npt.NDArray[np.float64], share: float, count: int) -> npt.NDArray[np.int64]:
    """Find the smallest share, in order, and always some more than are wanted, so that there is a choice."""
    return np.argsort(measure, kind="stable")[: max(10 * count, math.ceil(len(measure) * share))]


def gaps_of(run: Run, found: int) -> npt.NDArray[np.float64]:
    """Return the gaps of the first findings; 1 where the decision alone was looked at."""
    gaps = run.pairs.joined().get("gap")
    return np.ones(found) if gaps is None else gaps[:found]


def directions(run: Run, found: int) -> npt.NDArray[np.int64]:
    """Give each a number for what was decided and for whom, so that refused women and refused men are two things."""
    protected = run.pairs.individuals("individual", slice(found)).rows[:, run.space.protected_columns]
    joined = run.pairs.joined()
    said = [joined[name][:found] for name in ("decision", "counterpart_decision")]
    # The numbers of a regression are all different: only which of the two is larger is a direction.
    codes = [np.sign(said[0] - said[1])] if said[0].dtype.kind == "f" else said
    _, numbers = np.unique(np.column_stack([protected, *codes]), axis=0, return_inverse=True)
    return numbers.reshape(-1)


def _distances(run: Run, rows: npt.NDArray[np.int32], data: Any) -> npt.NDArray[np.float64]:
    """How far each row is from the nearest real one: attributes that differ, ordered ones by how much."""
    space = run.space
    real = space.encode(data).individuals.rows
    if not len(real):
        return np.zeros(len(rows))
    real = real[:: max(1, len(real) // NEIGHBOURS)]
    total = np.zeros((len(rows), len(real)), dtype=np.float32)
    for j in range(len(space.names)):
        mine, theirs = rows[:, j, None], real[None, :, j]
        if space.ordered[j]:
            # Two standard deviations of the real people count as much as another category.
            scale = max(1.0, float(real[:, j].std()) * 2, (space.sizes[j] - 1) / 20)
            total += (np.abs(mine - theirs) / scale).astype(np.float32)
        else:
            total += mine != theirs
    return np.asarray(total.min(axis=1), dtype=np.float64)


def spread(rows: npt.NDArray[np.int32], directions: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Pick rows one by one: first a direction not seen yet, then the most attributes unlike all those picked."""
    chosen = [0]
    unlike = (rows != rows[0]).sum(axis=1)
    while len(chosen) < min(count, len(rows)):
        unseen = ~np.isin(directions, directions[chosen])
        best = int(np.argmax(unlike + unseen * (rows.shape[1] + 1) * (unlike > 0)))
        if unlike[best] == 0:
            break
        chosen.append(best)
        unlike = np.minimum(unlike, (rows != rows[best]).sum(axis=1))
    return np.array(chosen)


def records(space: Any, rows: npt.NDArray[np.int32]) -> list[dict[str, Any]]:
    """Give rows of codes as the user's names and values."""
    columns = space.values(rows, space.names)
    return [{name: native(columns[name][i]) for name in space.names} for i in range(len(rows))]


def native(value: Any) -> Any:
    """Make a NumPy value a plain one.

    >>> native(np.int64(3))
    3
    """
    return value.item() if isinstance(value, np.generic) else value


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are the same; a missing one is the same as another."""
    return bool(left == right) or (_missing(left) and _missing(right))


def plain_json(value: Any) -> Any:
    """Make a value one that JSON has.

    >>> plain_json(float("nan")), plain_json(3)
    (None, 3)
    """
    if _missing(value):
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)
