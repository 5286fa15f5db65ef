"""Repairs that add labelled rows or texts and train: a share of the findings, more each round, or counterparts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from evenhand._format import percent
from evenhand._validate import check_number, check_settings
from evenhand.errors import StrategyError
from evenhand.repairs.context import Candidate, RepairContext, Round, check_start, seed_of
from evenhand.repairs.training import FineTuning, Labels, Start, check_voters

AGAIN = 1_000_000
"""The number of the estimate that measures the best round again, which no round has."""
MOST = 100
"""Maximum number of copies of a text that get a term."""


@dataclass(frozen=True)
class Counterfactual:
    """Add counterparts of the training rows, or texts, with the same labels, and train once.

    Needs no search and no vote. A counterpart of a row has other protected values; linked attributes also change, and
    everything else stays unchanged. A counterpart of a text has another term, or another spelling, in place of all
    terms of one identity.

    >>> Counterfactual("all").counterparts
    'all'
    """

    counterparts: Literal["one", "all"] | None = None
    """One random counterpart of each row, or all valid ones. By default one for rows, and all for texts, because few
    texts have a protected term."""
    start: Start | FineTuning | None = None
    """Train from scratch or further from the fitted model, as for ``Augment``."""
    mentions: int = 1
    """For texts: how many copies of each text without a term are added, with a random term at a random place and the
    same label. Otherwise a model learns from the few texts with a term that the term matters."""

    does: ClassVar[str] = "which adds counterparts of the training data with the same labels"

    def __post_init__(self) -> None:
        check_settings(self, mentions=(0, MOST))
        check_start(self)

    def apply(self, context: RepairContext) -> Candidate:
        """Train on rows and counterparts."""
        rows, texts = context.rows, context.space.supports("texts")
        every = texts if self.counterparts is None else self.counterparts == "all"
        at, people, written = rows.counterparts(every, seed_of(context.seed, "draw"))
        without, notes = len(rows) - len(np.unique(at)), []
        if without and texts:
            notes.append(f"{len(rows) - without:,} of {len(rows):,} training texts have counterparts")
        elif without:
            notes.append(f"{without:,} training rows are outside the space or have no counterpart; none was added")
        if not len(at):
            noun = "text" if texts else "row"
            return Candidate(None, reason=f"nothing to train with: no training {noun} has a counterpart", notes=notes)
        context.used.add(people)
        context.tell(f"training with {len(at):,} counterparts")
        if texts and self.mentions:
            more = rows.mentions(self.mentions, seed_of(context.seed, "draw", 1))
            context.used.add(more)
            at, written = np.concatenate([at, more.seeds]), [*written, *more.rows]
            notes.append(f"{len(more):,} copies of texts without a term got one at random")
        model = context.train(written, rows.y[at], self.start)
        return Candidate(model, len(at), notes=notes, control=partial(context.control, self.start))


@dataclass(frozen=True)
class Augment:
    """Add a random share of the findings to the training rows, and train with them.

    Zhang, Wang, Sun and others, "White-box fairness testing through adversarial sampling", ICSE 2020, section 4 (RQ3):
    five per cent of the findings, labelled by majority vote, in five repeats, starting from the trained weights. With
    several repeats, the model with the median estimate is returned, neither the best nor the worst.

    >>> Augment(members="all", labels="mean").share
    0.05
    """

    share: float = 0.05
    """The share of the findings."""
    repeats: int = 1
    start: Start | FineTuning | None = None
    """Train from ``"scratch"``, or further from the fitted ``"model"``; a ``FineTuning`` sets how a network is trained
    further. By default networks, and functions ``train(X, y, start)``, start from the model, and others from scratch.
    """
    members: Literal["individual", "all"] = "individual"
    """Add the individual that was found, or all members of its family, with the same label."""
    labels: Labels = "vote"
    """Label by a majority ``"vote"``, by the ``"mean"`` of the model's scores over the family, or by the ``"model"``'s
    decision."""
    counterparts: bool = False
    """Also add one counterpart of each training row, as ``Counterfactual`` does."""
    voters: tuple[Any, ...] = ()
    """Estimators that vote; if empty, five classifiers of different kinds."""
    blind: bool = True
    """Whether voters ignore protected attributes."""
    samples: int = 20_000
    """Number of individuals for the estimate of each repeat."""

    search: ClassVar[str] = "adf"
    does: ClassVar[str] = "which adds a share of the findings to the training data"

    def __post_init__(self) -> None:
        check_settings(self)
        check_voters(self)
        check_start(self)
        check_number("share", self.share, StrategyError, above=0, most=1, remedy="for example 0.05")

    def apply(self, context: RepairContext) -> Candidate:
        """Augment and train, once for each repeat."""
        if context.nothing is not None:
            return context.nothing
        wanted = max(1, round(self.share * context.findings.found))
        current = context.rate(context.original, self.samples, 0) if self.repeats > 1 else 0.0
        models, rounds, added = [], [], 0
        for at in range(self.repeats):
            people = context.draw(wanted, at)
            context.tell(f"{f'repeat {at + 1}: ' if self.repeats > 1 else ''}training with {len(people):,} findings")
            model, added = train_with(self, context, people, at)
            models.append(model)
            rate = context.rate(model, self.samples, 0) if self.repeats > 1 else 0.0
            rounds.append(Round(at + 1, 100 * self.share, wanted, len(people), current, rate, False))
        rates = np.array([one.candidate for one in rounds])
        # For an even number, the worse of the two in the middle.
        chosen = int(np.argsort(rates, kind="stable")[self.repeats // 2])
        rounds[chosen] = replace(rounds[chosen], kept=True)
        notes = [
            f"{self.repeats} repeats left {percent(rates.min())} to {percent(rates.max())} of {context.counted} "
            f"discriminatory, {percent(rates.mean())} on average, compared with {percent(current)} for the "
            "original; the model with the median rate was chosen"
        ]
        control: Callable[[], Any] = partial(context.control, self.start)
        return Candidate(models[chosen], added, rounds, notes if self.repeats > 1 else [], control=control)


def train_with(method: Any, context: RepairContext, people: Any, number: int) -> tuple[Any, int]:
    """Train with some findings, labelled and completed according to the settings; return the number of added rows."""
    rows = context.rows
    context.used.add(people)
    labels = context.label(people, method.labels, method.voters, method.blind)
    if method.members == "all":
        owner, people = rows.members(people, seed_of(context.seed, "voters"))
        context.used.add(people)
        labels = labels[owner]
    added = rows.written(people.rows)
    if getattr(method, "counterparts", False):
        at, others, written = rows.counterparts(False, seed_of(context.seed, "draw", number))
        context.used.add(others)
        added, labels = rows.joined(added, written), np.concatenate([labels, rows.y[at]])
    return context.train(added, labels, method.start), len(labels)


@dataclass(frozen=True)
class Retrain:
    """Add random findings to the training rows and retrain, a larger share each round; the best round is kept.

    Udeshi, Arora and Chattopadhyay, "Automated directed fairness testing", ASE 2018, Algorithm 5. Round ``i`` = 2, 3,
    and so on draws a percentage of the training size from ``[2**(i-2), 2**(i-1)]``, adds that many findings to the
    *original* rows, and trains. A model is kept if its estimated rate is lower than that of the best so far; both are
    estimated again in each round, on the same individuals. The paper ends with the first round that is no better
    (``patience=1``), and leaves open how findings are labelled.

    The search goes on, up to 64 times its budget, until there are as many findings as a round needs. The best round's
    model is measured again on other individuals, and returned only if its rate is still lower than the original's.

    >>> Retrain(patience=1).samples
    20000
    """

    patience: int = 3
    """Number of consecutive rounds without an improvement that end the repair."""
    start: Start | FineTuning | None = None
    """Train from scratch or further from the fitted model, as for ``Augment``."""
    members: Literal["individual", "all"] = "individual"
    """Add the individual that was found, or all members of its family, with the same label."""
    labels: Labels = "vote"
    """Who labels what is added, as for ``Augment``."""
    voters: tuple[Any, ...] = ()
    """Estimators that vote; if empty, five classifiers of different kinds."""
    blind: bool = True
    """Whether voters ignore protected attributes."""
    samples: int = 20_000
    """Individuals of each estimate that decides between two models."""

    search: ClassVar[str] = "aequitas"
    does: ClassVar[str] = "which adds more and more findings to the training data"

    def __post_init__(self) -> None:
        check_settings(self)
        check_voters(self)
        check_start(self)

    def apply(self, context: RepairContext) -> Candidate:
        """Retrain round by round."""
        if context.nothing is not None:
            return context.nothing
        candidate, best = Candidate(None, control=partial(context.control, self.start)), context.original
        i, misses = 2, 0
        while misses < self.patience and (share := _percent(context, i)) <= 100:
            wanted = max(1, int(share * len(context.rows) / 100))
            found = context.find(wanted).found
            people = context.draw(wanted, i)
            context.tell(f"round {i - 1}: training with {len(people):,} findings")
            model, added = train_with(self, context, people, i)
            before, after = (context.rate(one, self.samples, i) for one in (best, model))
            falls = before > after
            candidate.rounds.append(Round(i - 1, share, wanted, len(people), before, after, falls))
            if wanted > found:
                candidate.notes.append(
                    f"round {i - 1} needed {wanted:,} findings, and there are only {found:,}: all were added"
                )
            if falls:
                best = candidate.model = model
                candidate.added = added
            misses = 0 if falls else misses + 1
            i += 1
        return self._confirmed(context, candidate)

    def _confirmed(self, context: RepairContext, candidate: Candidate) -> Candidate:
        """Measure the best round again, because the best of several estimates is too low by selection."""
        if candidate.model is None:
            candidate.reason = "no round lowered the estimated rate"
            return candidate
        before, after = (context.rate(one, self.samples, AGAIN) for one in (context.original, candidate.model))
        measured = f"measured again, the best round's rate is {percent(after)}, and the original's {percent(before)}"
        if after < before:
            candidate.notes.append(measured)
            return candidate
        return Candidate(None, rounds=candidate.rounds, notes=candidate.notes, reason=measured)


def _percent(context: RepairContext, i: int) -> float:
    """Draw the percentage of a round."""
    low = 2.0 ** (i - 2)
    return low + low * context.unit("percent", i)
