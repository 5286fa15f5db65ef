from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

import evenhand as eh
from evenhand.errors import DataError, ModelError, StrategyError
from evenhand.repairs.data import labelled
from evenhand.repairs.training import Voters, majority, own_labels

from .people import CODED, SPACE, Coded, people


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1)))
def test_the_majority_is_the_most_frequent_vote_and_else_the_first(votes: list[list[int]]) -> None:
    got = majority(np.array(votes), 4)
    for at, column in enumerate(zip(*votes, strict=True)):
        counts = Counter(column)
        assert got[at] == next(vote for vote in column if counts[vote] == max(counts.values()))


def test_default_voters_learn_the_labels() -> None:
    X, y = people(300)
    rows = labelled(X, np.where(y == 1, "yes", "no"), SPACE)
    said = Voters(rows, (), 0, blind=False).label(rows.encoded.individuals)
    assert (said == rows.y).mean() > 0.9
    assert said.dtype == rows.y.dtype


@pytest.mark.parametrize("given", [(), CODED])
def test_labels_of_blind_voters_do_not_depend_on_protected_attributes(given: Any) -> None:
    rows = labelled(*people(200), SPACE)
    everyone = SPACE.individuals(SPACE.coding.rows(np.arange(0, SPACE.coding.total, 3)))
    owner, members = rows.members(everyone, 0)
    blind = Voters(rows, given, 0)
    labels = blind.label(members)
    # Where as many vote one way as the other, an individual's own votes decide.
    votes = [blind._votes(members.rows)[:, owner == at].sum() for at in range(len(everyone))]
    even = 2 * np.array(votes) == len(blind.voters) * np.bincount(owner)
    for at in np.flatnonzero(~even):
        assert len(set(labels[owner == at].tolist())) == 1
    seeing = Voters(rows, given, 0, blind=False).label(members)
    assert any(len(set(seeing[owner == at].tolist())) > 1 for at in range(len(everyone)))


def test_the_models_own_labels_are_its_decisions_or_its_mean_score() -> None:
    rows = labelled(*people(200), SPACE)
    model = Coded(random_state=0).fit(rows.X, rows.y)
    some = rows.encoded.individuals[:50]
    wrapped = eh.wrap(model, input="frame")
    assert own_labels(wrapped, rows, some, "model", 0).tolist() == model.predict(rows.written(some.rows)).tolist()
    owner, members = rows.members(some, 0)
    scores = model.predict_proba(rows.written(members.rows))[:, 1]
    means = np.array([scores[owner == at].mean() for at in range(50)])
    uneven = np.abs(means - 0.5) > 1e-9
    assert (own_labels(wrapped, rows, some, "mean", 0) == (means > 0.5))[uneven].all()

    class Silent(Coded):
        predict_proba = None  # type: ignore[assignment]

    silent = eh.wrap(Silent(random_state=0).fit(rows.X, rows.y), input="frame")
    decisions = model.predict(rows.written(members.rows))
    shares = np.array([decisions[owner == at].mean() for at in range(50)])
    clear = shares != 0.5
    assert (own_labels(silent, rows, some, "mean", 0) == (shares > 0.5))[clear].all()


def test_the_users_voters_are_cloned_and_vote() -> None:
    X, y = people(200)
    rows = labelled(X, y, SPACE)
    voters = Voters(rows, CODED, 0, blind=False)
    by_hand = np.stack([type(c)(c.depth, random_state=0).fit(X, y).predict(X) for c in CODED])
    assert (voters.label(rows.encoded.individuals) == majority(by_hand, 2)).all()
    assert all(not hasattr(voter, "tree_") for voter in CODED)


def test_a_familys_vote_is_one_for_all_its_members() -> None:
    X, y = people(200)
    voters = Voters(labelled(X, y, SPACE), CODED, 0)
    individuals = SPACE.encode(X).individuals
    others = individuals.rows.copy()
    others[:, SPACE.column("sex")] ^= 1
    # With two members and three voters a tie is impossible only where all agree: look at those without one.
    votes = np.stack([voters._votes(rows).sum(axis=0) for rows in (individuals.rows, others)]).sum(axis=0)
    clear = votes != 3
    mine, theirs = (voters.label(who) for who in (individuals, SPACE.individuals(others)))
    assert (mine == theirs)[clear].all()
    assert (mine[clear] == (votes[clear] > 3)).all()
    seeing = Voters(labelled(X, y, SPACE), CODED, 0, blind=False)
    alone = [seeing.label(who) for who in (individuals, SPACE.individuals(others))]
    assert (alone[0] != alone[1]).any()


def test_a_voter_with_other_labels_is_refused() -> None:
    rows = labelled(*people(20), SPACE)
    with pytest.raises(DataError, match="a voter gave the label 7"):
        Voters(rows, [lambda X, y: lambda frame: np.full(len(frame), 7)], 0).label(rows.encoded.individuals)
    with pytest.raises(ModelError, match="could not be trained"):
        Voters(rows, [lambda X, y: 1 / 0], 0)


@pytest.mark.parametrize("kind", [float, bool, int])
def test_labels_go_by_value(kind: type) -> None:
    """A voter's 1 is a vote for 1.0, and for True."""
    X, y = people(100)
    rows = labelled(X, y.astype(kind), SPACE)
    by_hand = labelled(X, y, SPACE)
    said = [Voters(one, CODED, 0).label(rows.encoded.individuals) for one in (rows, by_hand)]
    assert said[0].dtype == np.dtype(kind)
    assert (said[0] == said[1]).all()


@pytest.mark.parametrize("method", [eh.repairs.Retrain, eh.repairs.Augment])
@pytest.mark.parametrize(
    "voters", [5, make_pipeline(Coded()), None, "tree"], ids=["number", "pipeline", "none", "text"]
)
def test_voters_are_several(method: Any, voters: Any) -> None:
    with pytest.raises(StrategyError, match="voters must be a tuple of estimators"):
        method(voters=voters)


def test_codes_are_features_whatever_is_missing() -> None:
    space = eh.Space([eh.Real("a", 0, 1, step=0.5, missing=True), eh.Nominal("s", ["x", "y"])], protected="s")
    rows = labelled({"a": [0.5, None] * 20, "s": ["x", "y"] * 20}, [0, 1] * 20, space)
    assert Voters(rows, (), 0).label(rows.encoded.individuals).tolist() == [0, 1] * 20
