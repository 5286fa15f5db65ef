"""Fresh evidence about a model, on individuals that no repair used: rates, accuracy, AUC and calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._intervals import clopper_pearson, tango
from evenhand.budget import Budget, StopReason
from evenhand.criteria import Criterion
from evenhand.engine.judge import ModelProbe
from evenhand.errors import DataError, EstimateError, MissingExtra, ModelError, SpaceError
from evenhand.estimates.estimate import CHUNK, Plan, measured
from evenhand.estimates.groups import Groups, groups
from evenhand.estimates.pair_counts import Favour, alike
from evenhand.estimates.populations import SMALL, Data, target_of
from evenhand.estimates.result import Estimate
from evenhand.models.base import Model
from evenhand.models.client import ModelClient
from evenhand.repairs.context import seed_of
from evenhand.repairs.data import Labelled, LabelledTexts, judged
from evenhand.runs.audit import Driver
from evenhand.runs.run import Run
from evenhand.search import Strategy
from evenhand.spaces.base import AnySpace
from evenhand.spaces.frames import pd
from evenhand.spaces.tabular import Space

CALL = 16_384
"""Rows of a call."""
BINS = 10
RESAMPLES = 500
SHOWN = 4
Numbers = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
WATCHED, FEWEST = 20_000, 2_000
"""Maximum number of rows to judge a watched attribute, and minimum number of individuals."""
STRATA = 8
"""Number of values of an ordered attribute, across its range, that an individual is compared with."""
FEW = 20
"""With fewer tests that the repair did not use, nothing can be shown."""


@dataclass(frozen=True)
class Interval:
    """A figure with its interval.

    >>> Interval(0.5, 0.4, 0.6).low
    0.4
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """Calibration of scores: the Brier score, and the expected calibration error."""

    brier: Interval
    error: Interval
    """Expected calibration error, over ten bins of equal width; it is too high in small samples."""


@dataclass(frozen=True)
class Answers:
    """A model's answers to labelled rows, row by row, so that two models can be compared on the same rows."""

    decisions: npt.NDArray[Any]
    correct: Mask
    positive: Mask | None = None
    """Which rows have each label, one column per label; for two labels only the second."""
    level: Numbers | None = None
    """The scores of the same labels."""
    squares: Numbers | None = None
    """The Brier score of each row, if scores are probabilities."""
    promise: Numbers | None = None
    """The probability of the second of two labels, or of the most probable of several."""
    came_true: Mask | None = None
    scored: bool = False
    """Whether the model returns scores, and not only labels."""


def answers(model: Model, rows: Labelled | LabelledTexts) -> Answers:
    """Query a model about labelled rows or texts, unchanged."""
    X, client, n = rows.asked(model), ModelClient(model), len(rows)
    parts = [X[i : i + CALL] for i in range(0, n, CALL)]
    # In one call each, so that a user's frame keeps its index, which a model may use.
    with client.calls.at_once():
        decisions = np.concatenate([client.labels(part, len(part)) for part in parts])
    labels = sorted(set(rows.truth.tolist()), key=str)
    truth, decided = as_texts(rows.truth, labels), as_texts(decisions, labels)
    if not set(truth.tolist()) & set(decided.tolist()):
        values, predicted = (", ".join(sorted(set(texts.tolist()))[:SHOWN]) for texts in (truth, decided))
        raise DataError(
            f"y has the values {values}, but the model predicts {predicted}", remedy="encode both the same way"
        )
    with client.calls.at_once():
        scores = _scores(client, parts)
    if scores is None:
        return Answers(decisions, decided == truth)
    classes = as_texts(np.asarray(labels) if model.classes is None else model.classes, labels).tolist()
    return Answers(decisions, decided == truth, scored=True, **_scored(scores, truth, classes))


def as_texts(values: npt.NDArray[Any], labels: list[Any]) -> npt.NDArray[Any]:
    """Write decisions as labels, whatever their types: 1 is True if the labels are booleans.

    >>> as_texts(np.array([1, 0, 2]), [False, True]).tolist()
    ['True', 'False', '2']
    """
    codes, seen = pd.factorize(values)
    texts = [next((str(label) for label in labels if alike(value, label)), str(value)) for value in seen.tolist()]
    return np.array(texts)[codes]


def _scores(client: ModelClient, parts: list[Any]) -> Numbers | None:
    """Query scores; None if there are none, or if they are only labels."""
    if not client.model.has_scores:
        return None
    try:
        scores = np.concatenate([client.scores(part, len(part)) for part in parts])
    except ModelError:
        return None
    # Whole numbers without a threshold are labels; so are zeros and ones, even with a threshold.
    names = (scores == np.rint(scores)).all() if client.model.threshold is None else np.isin(scores, (0, 1)).all()
    return None if scores.shape[1] == 1 and names else scores


def _scored(scores: Numbers, truth: npt.NDArray[Any], classes: list[str]) -> dict[str, Any]:
    probable = bool((scores >= 0).all() and (scores <= 1).all())
    if scores.shape[1] == 1 and len(classes) == 2:
        scores = np.column_stack([1 - scores[:, 0] if probable else -scores[:, 0], scores[:, 0]])
    if scores.shape[1] != len(classes):
        return {}
    right = truth[:, None] == np.array(classes)
    # In one order for all models, so that two can be compared.
    ranked = [1] if len(classes) == 2 else np.argsort(classes).tolist()
    out: dict[str, Any] = {"positive": right[:, ranked], "level": scores[:, ranked]}
    if not probable or not np.allclose(scores.sum(axis=1), 1, atol=1e-3):
        return out
    likeliest = scores.argmax(axis=1) if len(classes) > 2 else np.ones(len(scores), dtype=np.int64)
    here = np.arange(len(scores))
    squares = np.square(scores - right).sum(axis=1) / (2 if len(classes) == 2 else 1)
    return {**out, "squares": squares, "promise": scores[here, likeliest], "came_true": right[here, likeliest]}


def accuracy(one: Answers, confidence: float) -> Interval:
    """Share of correct decisions, with Clopper and Pearson's interval."""
    low, high = clopper_pearson(int(one.correct.sum()), len(one.correct), confidence)
    return Interval(float(one.correct.mean()), float(low), float(high))


def share_difference(before: Mask, after: Mask, confidence: float, misjudged: float = 0.0) -> Interval:
    """How much a share rose on the same rows: those that changed one way minus those that changed the other (Tango).

    >>> gain = share_difference(np.arange(100) < 50, np.arange(100) < 60, 0.95)
    >>> gain.value, gain.low > 0
    (0.1, True)
    """
    up, down = int((after & ~before).sum()), int((before & ~after).sum())
    low, high = tango(up, down, len(before), confidence)
    # A misjudged individual may have changed from one side to the other.
    reach = 2 * misjudged / len(before)
    return Interval((up - down) / len(before), max(-1.0, float(low) - reach), min(1.0, float(high) + reach))


def auc(one: Answers, confidence: float) -> Interval | None:
    """Area under the ROC curve, with DeLong's interval; for several labels, the mean of each against the rest.

    None if there are no scores, or if all rows have the same label.
    """
    parts = _placements(one)
    if not parts:
        return None
    value = _area(parts)
    if value in (0.0, 1.0):
        # There is no spread: all disjoint pairs are in the same order.
        fewer = min(len(side) for part in parts for side in (part.above, part.below))
        low, high = clopper_pearson(int(value) * fewer, fewer, confidence)
        return Interval(value, float(low), float(high))
    return _clipped(_normal(value, _spread(parts), confidence), 0.0)


def auc_difference(before: Answers, after: Answers, confidence: float) -> Interval | None:
    """How much the area rose, on the same rows (DeLong)."""
    first, second = _placements(before), _placements(after)
    if not first or len(first) != len(second):
        return None
    apart = [Placements(a.positive, b.above - a.above, b.below - a.below) for a, b in zip(first, second, strict=True)]
    return _normal(_area(apart), _spread(apart), confidence)


@dataclass(frozen=True)
class Placements:
    """For one label: for each row with it, the share of others below; for each other row, of such rows above."""

    positive: Mask
    above: Numbers
    below: Numbers


def _placements(one: Answers) -> list[Placements]:
    """Rank the rows by the score of each label.

    DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
    characteristic curves", Biometrics 1988.
    """
    from scipy.stats import rankdata

    out: list[Placements] = []
    if one.positive is None or one.level is None:
        return out
    for positive, level in zip(one.positive.T, one.level.T, strict=True):
        high, low = level[positive], level[~positive]
        if not len(high) or not len(low):
            continue
        ranks = rankdata(np.concatenate([high, low]))
        above = (ranks[: len(high)] - rankdata(high)) / len(low)
        below = 1 - (ranks[len(high) :] - rankdata(low)) / len(high)
        out.append(Placements(positive, above, below))
    return out


def _area(parts: list[Placements]) -> float:
    return float(np.mean([part.above.mean() for part in parts]))


def _spread(parts: list[Placements]) -> float:
    """The standard error of the mean area; each row affects the areas of all labels."""
    pull = np.zeros(len(parts[0].positive))
    for part in parts:
        pull[part.positive] += _pull(part.above)
        pull[~part.positive] += _pull(part.below)
    return float(np.sqrt(np.square(pull).sum()) / len(parts))


def _pull(shares: Numbers) -> Any:
    """The influence of each row on the mean of its side; for a single row it is unknown, and 0.5 is a large value."""
    n = len(shares)
    return 0.5 if n == 1 else (shares - shares.mean()) / np.sqrt(n * (n - 1))


def calibration(one: Answers, confidence: float, seed: int) -> Calibration | None:
    """The Brier score and the expected calibration error; None if scores are not probabilities."""
    if one.squares is None:
        return None
    brier = _normal(float(one.squares.mean()), _error(one.squares), confidence)
    drawn = np.array([_expected(one, rows) for rows in _resamples(len(one.decisions), seed)])
    return Calibration(_clipped(brier, 0.0, 2.0), _quantiles(_expected(one), drawn, confidence))


def calibration_difference(before: Answers, after: Answers, confidence: float, seed: int) -> Calibration | None:
    """How much both rose, on the same rows."""
    if before.squares is None or after.squares is None:
        return None
    apart = after.squares - before.squares
    rows = _resamples(len(apart), seed)
    drawn = np.array([_expected(after, row) - _expected(before, row) for row in rows])
    error = _quantiles(_expected(after) - _expected(before), drawn, confidence)
    return Calibration(_normal(float(apart.mean()), _error(apart), confidence), error)


def _expected(one: Answers, rows: Any = slice(None)) -> float:
    assert one.promise is not None
    assert one.came_true is not None
    promise, true = one.promise[rows], one.came_true[rows]
    bins = np.minimum((promise * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, promise, BINS) - np.bincount(bins, true, BINS)
    return float(np.abs(gaps).sum() / len(promise))


def _resamples(n: int, seed: int) -> list[npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, n, n) for _ in range(RESAMPLES)]


def _quantiles(value: float, drawn: Numbers, confidence: float) -> Interval:
    low, high = np.quantile(drawn, ((1 - confidence) / 2, (1 + confidence) / 2))
    return Interval(value, min(value, float(low)), max(value, float(high)))


def _error(values: Numbers) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 1.0


def _normal(value: float, error: float, confidence: float) -> Interval:
    from scipy.special import ndtri

    reach = float(ndtri((1 + confidence) / 2)) * error
    return Interval(value, value - reach, value + reach)


def _clipped(one: Interval, low: float, high: float = 1.0) -> Interval:
    return Interval(one.value, max(low, one.low), min(high, one.high))


@dataclass
class Evidence:
    """Evidence about a model, from individuals that the repair did not use. Returned by ``eh.repair``."""

    uniform: Estimate | None
    """The rate among uniform random individuals; None for texts, and if the repair used all of them."""
    data: Estimate | None
    """The rate among the held-out rows or texts; None if the repair used the tests of all of them."""
    audit: Run | None
    """The run of a search that the repair did not use; None for a control."""
    accuracy: Interval
    auc: Interval | None
    calibration: Calibration | None
    groups: Groups | None
    """Group figures, if ``favourable`` is set and the extra ``fairness`` is installed."""
    others: dict[str, Estimate]
    """Estimates of how often another attribute alone makes a difference; empty for a control."""
    answered: Answers = field(repr=False)
    verdicts: dict[str, Mask] = field(repr=False)
    """Verdicts of the samples, in order, for comparing two models on the same individuals."""
    kept: float | None = None
    """For texts: the share of the findings of the check in the original model that this model also treats differently;
    1 for the original, None if nothing was found."""
    texts: bool = False
    """Whether the model takes texts."""

    def estimate(self, name: str) -> Estimate | None:
        """Return an estimate by its name: "uniform", "data", or a watched attribute's; None if there is none."""
        return {"uniform": self.uniform, "data": self.data, **self.others}.get(name)

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values."""
        return {
            "uniform": None if self.uniform is None else self.uniform.to_dict(),
            "data": None if self.data is None else self.data.to_dict(),
            "audit": None if self.audit is None else self.audit.to_dict(),
            "accuracy": asdict(self.accuracy),
            "auc": None if self.auc is None else asdict(self.auc),
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "groups": None if self.groups is None else self.groups.to_dict(),
            "others": {name: {"rate": e.rate, "low": e.low, "high": e.high} for name, e in self.others.items()},
            **({} if self.kept is None else {"kept": self.kept}),
        }


@dataclass
class EvidencePlan:
    """The measurements of the original and the repaired models, on the same individuals."""

    held: Labelled | LabelledTexts
    used: Any
    criterion: Criterion
    check: Strategy
    budget: Budget
    samples: int
    confidence: float
    favourable: Any
    watch: Sequence[str]
    movable: Sequence[str]
    """Attributes to which discrimination might have moved, watched or not."""
    seed: int
    tell: Callable[[str], object]
    notes: list[str] = field(default_factory=list)
    """What could not be measured, and why."""
    found: list[str] | None = field(default=None, init=False)
    """For texts: the findings of the check in the original model, used to judge the repaired models."""

    @property
    def shown_by(self) -> str:
        """The population that must be large enough to show what changed."""
        return "uniform" if isinstance(self.held, Labelled) else "data"

    def gather(self, model: Model, who: str, control: bool = False) -> Evidence:
        """Gather evidence about a model, the original first. For a control, no search and no other attributes."""
        self.tell(f"estimating {who}")
        answered, verdicts = answers(model, self.held), {}
        found: dict[str, Estimate] = {}
        spaces = [("data", Plan(Data(self.held.data), confidence=self.confidence), self.held.space)]
        if isinstance(self.held, Labelled):
            spaces.insert(0, ("uniform", self._uniform(self.held.space), self.held.space))
            watched = () if control else self.watch
            spaces += [self._watched(alone(self.held.space, name)) for name in watched]
        for number, (name, one, space) in enumerate(spaces):
            try:
                found[name], verdicts[name] = self._estimate(model, space, one, number)
            except (EstimateError, SpaceError):
                # No individual is left, or none has a counterpart in this attribute, so there is nothing to report.
                continue
        run = None
        if not control:
            self.tell(f"searching {who} with {type(self.check).__name__.lower()}")
            run = self._audit(model)
        return Evidence(
            found.pop("uniform", None),
            found.pop("data", None),
            run,
            accuracy(answered, self.confidence),
            auc(answered, self.confidence),
            calibration(answered, self.confidence, seed_of(self.seed, "boots")),
            self._groups(model),
            found,
            answered,
            verdicts,
            self._kept(model, run),
            isinstance(self.held, LabelledTexts),
        )

    def _uniform(self, space: Space) -> Plan:
        """Judge this many individuals, or all that the repair did not use if these are fewer."""
        tests = space.tests
        every = tests <= SMALL and tests - len(self.used) <= self.samples
        return Plan(samples=max(self.samples, tests) if every else self.samples, confidence=self.confidence)

    @property
    def held_added(self) -> int:
        """Number of held-out rows that equal a row added by the repair."""
        return int(self.used.added(self.held.people).sum())

    def few(self, evidence: Evidence) -> bool:
        """Whether the repair left too few individuals to show anything."""
        found = evidence.estimate(self.shown_by)
        if found is None:
            return len(self.used) > 0 or self.shown_by == "data"
        return found.counts["left_out"] > 0 and len(evidence.verdicts[self.shown_by]) < min(FEW, self.samples)

    def _watched(self, space: Space) -> tuple[str, Plan, Space]:
        enough = max(FEWEST, WATCHED // space.width)
        return space.protected[0], Plan(samples=min(self.samples, enough), confidence=self.confidence), space

    def _estimate(self, model: Model, space: AnySpace, plan: Plan, number: int) -> tuple[Estimate, Mask]:
        seed = seed_of(self.seed, "final", number)
        favour = Favour(model, self.favourable if space is self.held.space else None)
        target = target_of(plan, space, self.criterion, seed, CHUNK)
        probe = ModelProbe(model, target.bound, self.criterion)
        result, survey = measured(plan, target, probe, favour, seed, exclude=self.used.excluder(seed))
        if result.stop == "interrupted":
            raise KeyboardInterrupt
        assert survey.verdicts is not None
        return result, np.concatenate(survey.verdicts)

    def _audit(self, model: Model) -> Run:
        space, seed = self.held.space, seed_of(self.seed, "audit")
        driver = Driver(model, space, self.check, seed, self.criterion, self.held.data, exclude=self.used)
        run = driver.run(self.budget)
        if run.stop is StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        return run

    def _kept(self, model: Model, run: Run | None) -> float | None:
        """For texts, return the share of the findings in the original model that this one still treats differently.

        When a text is parsed again, it may have a different family than in the search, because an edited word can be a
        term or remove one. So the set consists of the texts that the original treats differently after parsing them
        again.
        """
        held, seed = self.held, seed_of(self.seed, "final", 1)
        if isinstance(held, Labelled):
            return None
        if self.found is None:
            assert run is not None
            count = run.found
            some = np.unique(np.linspace(0, count - 1, min(count, self.samples)).round().astype(np.int64))
            texts = run.pairs.rows(at=some) if count else []
            positions, unfair = judged(model, held.space, texts, self.criterion, seed)
            self.found = [texts[at] for at in positions[unfair].tolist()]
            return 1.0 if self.found else None
        if not self.found:
            return None
        return float(judged(model, held.space, self.found, self.criterion, seed)[1].mean())

    def _groups(self, model: Model) -> Groups | None:
        if self.favourable is None or not isinstance(self.held, Labelled):
            return None
        try:
            return groups(
                model, self.held.space, self.held.frame, self.favourable, y=self.held.truth, confidence=self.confidence
            )
        except MissingExtra as error:
            if str(error) not in self.notes:
                self.notes.append(str(error))
            return None


def movable(space: Space) -> list[str]:
    """List the attributes to which discrimination might move: single protected ones, then nominal, then ordered ones.

    >>> from evenhand.spaces.attributes import Boolean, Integer, Nominal
    >>> movable(Space([Integer("age", 1, 9), Boolean("member"), Nominal("sex", ["F", "M"])], protected="sex"))
    ['member', 'age']
    """
    apart = list(space.protected) if len(space.protected) > 1 else []
    free = [a for a in space.attributes if a.name in space.free and a.size > 1]
    return apart + [a.name for a in sorted(free, key=lambda a: a.ordered and a.size > 2)]


def alone(space: Space, name: str) -> Space:
    """Return the space with only one attribute protected; if it has many ordered values, a few represent them."""
    links = {name: space.links[name]} if name in space.links else None
    limit = STRATA if space.attributes[space.column(name)].ordered else space.max_family_size
    return Space(
        space.attributes, [name], [c.text for c in space.constraints], links, min(limit, space.max_family_size)
    )
