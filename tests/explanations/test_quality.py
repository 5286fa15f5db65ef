"""The quality of findings, compared with their seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.explanations.quality import text_quality as measured
from evenhand.spaces.text.tokens import split
from tests.text_worlds import TextWorld, team_space, team_texts, text_world

BUDGET = eh.Budget(tests=600)


def audited(seed: int, **settings: object) -> tuple[eh.Run, TextWorld]:
    world = text_world(seed, **settings)
    return eh.audit(world, world.space, "text-random", BUDGET, seed, data=world.data), world


@pytest.mark.parametrize("seed", [0, 1])
def test_findings_are_measured_against_the_texts_that_they_were(seed: int) -> None:
    run, world = audited(seed)
    found = eh.quality(run, bleu=False)
    source = (world.space.similar.words, world.space.similar.vectors)
    seeds = [world.data[row] for row in run.findings["seed"]]
    expected = measured(seeds, run.findings["text"].tolist(), vectors=source, bleu=False)
    pd.testing.assert_frame_equal(found.frame, expected)
    assert (found.frame["changed"] == run.findings["changed"].map(len)).all()
    assert 0 < found.raw < run.found


def test_the_mean_is_of_edited_findings_and_raw_ones_are_counted_apart() -> None:
    run, _ = audited(2)
    found = eh.quality(run, bleu=False)
    edited = run.findings["changed"].map(len).to_numpy() > 0
    assert (found.edited == edited).all()
    assert found.raw == (~edited).sum()
    assert (found.frame.loc[~edited, "jaccard"] == 1).all()
    assert (found.frame.loc[~edited, ["changed", "distance"]] == 0).all(axis=None)
    assert found.mean["jaccard"] == pytest.approx(found.frame.loc[edited, "jaccard"].mean())
    assert f"{found.raw:,} raw" in repr(found)


def test_limits_filter_findings() -> None:
    run, _ = audited(3)
    found = eh.quality(run, bleu=False)
    kept = run.findings[found.within(changed=2, jaccard=0.5)]
    assert 0 < len(kept) < run.found
    assert (kept["changed"].map(len) <= 2).all()


def test_the_swap_lowers_no_score_if_the_counterpart_is_shown() -> None:
    """With a gap the text shown may be a counterpart of the one that was searched; then words move."""
    lexicon = {"team": ["reds", "the very best blues", "greens"]}
    words = ["loud", "noisy", "lively"]
    space = eh.TextSpace(lexicon, (words, np.eye(3) + 0.5), k=2)

    def score(texts: list[str]) -> list[float]:
        return [0.5 * ("best" in text) - 0.2 * ("reds" in text) + 0.01 * len(text) for text in texts]

    run = eh.audit(eh.wrap(score, input="text"), space, "text-random", eh.Budget(tests=30), criterion=eh.Gap(0.1),
                   data=["Those greens were loud and lively!"])  # fmt: skip
    found = eh.quality(run, bleu=False)
    assert run.found > 3
    assert (run.findings["text"].str.contains("best") | run.findings["text"].str.contains("reds")).any()
    assert (found.frame["changed"] == run.findings["changed"].map(len)).all()
    assert not found.frame.isna().any(axis=None)
    for text, jaccard, changed in zip(
        run.findings["text"], found.frame["jaccard"], found.frame["changed"], strict=True
    ):
        size = len(set(split(text)[1::2]))
        assert jaccard >= (size - changed) / (size + changed)


def test_a_loaded_run_is_measured_too(tmp_path: object) -> None:
    world = TextWorld(team_space(), team_texts(4, 40))
    run = eh.audit(world, world.space, "text-random", eh.Budget(tests=200), data=world.data, directory=str(tmp_path))
    loaded = eh.quality(eh.Run.load(str(tmp_path)), bleu=False)
    pd.testing.assert_frame_equal(loaded.frame, eh.quality(run, bleu=False).frame.drop(columns="distance"))


def test_a_word_that_grows_into_its_neighbours_is_not_measured() -> None:
    space = eh.TextSpace({"team": ["reds", "blues"]}, (["see", "www"], [[1, 0], [1, 0.1]]))
    run = eh.audit(lambda texts: ["reds" in text for text in texts], space, "text-random", data=["reds: see.org now"])
    found = eh.quality(run, bleu=False)
    assert run.findings["text"].tolist() == ["reds: see.org now", "reds: www.org now"]
    assert found.frame["changed"].tolist() == [0, 1]
    assert found.frame["jaccard"].isna().tolist() == [False, True]
    assert found.within(changed=9, jaccard=0).tolist() == [True, False]


def test_nothing_found_is_nothing_measured() -> None:
    run = eh.audit(lambda texts: [0] * len(texts), team_space(), "text-random", BUDGET, data=team_texts(0, 5))
    found = eh.quality(run)
    assert len(found.frame) == found.raw == 0
    assert repr(found) == "Quality: 0 edited findings; 0 raw ones"


def test_a_run_on_rows_has_no_texts() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    run = eh.audit(lambda frame: frame["member"], space, "themis")
    with pytest.raises(eh.errors.DataError, match="quality is measured on texts"):
        eh.quality(run)
    with pytest.raises(eh.errors.DataError, match="run must be a run as eh.audit returns it, got int"):
        eh.quality(3)


def test_findings_are_measured_in_the_order_that_is_asked_for() -> None:
    run, _ = audited(1)
    every = eh.quality(run, bleu=False).frame
    for at in ([5, 1, 3, 1], [-1], slice(2, 7), np.arange(run.found) % 3 == 0):
        which = np.arange(run.found)[at]
        found = eh.quality(run, bleu=False, at=at).frame
        pd.testing.assert_frame_equal(found, every.iloc[which].reset_index(drop=True))
    for wrong in ([10**6], "x", 3, [0.5]):
        with pytest.raises(eh.errors.DataError, match="at must be a slice, a mask or numbers below"):
            eh.quality(run, at=wrong)
