from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand._format import visible
from evenhand.runs.pair_sentences import TextPair, pairs_at, select_pairs

WHO, WHAT, WHERE = ("Sikh", "Jewish", "Muslim", "Hindu"), ("cook", "poet"), ("park", "mill")
TEXTS = [f"The {who} {what} near the {where}." for who in WHO for what in WHAT for where in WHERE]
VECTORS = (["cook", "poet", "singer", "park", "mill"], np.eye(5)[[0, 0, 0, 1, 1]])


def classify(texts: list[str]) -> Any:
    return ["no" if "Sikh" in text or ("Hindu" in text and "poet" in text) else "yes" for text in texts]


@pytest.fixture(scope="module")
def run() -> eh.Run:
    return eh.audit(
        classify, eh.TextSpace.paper("religion", VECTORS, k=2), "text-random", eh.Budget(tests=60), data=TEXTS
    )


def test_pairs_are_findings_of_different_swaps_and_texts(run: eh.Run) -> None:
    pairs = select_pairs(run, show="real")
    assert len(pairs) == 3
    for pair in pairs:
        assert isinstance(pair, TextPair)
        assert classify([pair.text, pair.counterpart_text]) == [pair.decision, pair.counterpart_decision]
        assert pair.changed == []
    assert len({pair.seed for pair in pairs}) == 3
    assert [p.sentence for p in pairs] == [p.sentence for p in select_pairs(run, show="real")]


def test_every_finding_shows_swaps_and_changes(run: eh.Run) -> None:
    everything = pairs_at(run.pairs, np.arange(run.found))
    assert any(pair.changed for pair in everything)
    for pair in everything:
        for side, text in enumerate((pair.text, pair.counterpart_text)):
            pieces = pair.pieces[side]
            assert "".join(piece.text for piece in pieces) == text
            assert sum(piece.kind == "swapped" for piece in pieces) == 1
            was = [(piece.was, piece.text) for piece in pieces if piece.kind == "changed"]
            assert was == [(old, new) for _, old, new in pair.changed]
            # Undone, they give the seed.
            seed = "".join(piece.was or piece.text for piece in pieces)
            assert side or seed == TEXTS[pair.seed]
        json.dumps(pair.to_dict())


def test_gaps_are_shown() -> None:
    def score(texts: list[str]) -> Any:
        return [len(text) / 100 + 0.3 * ("Sikh" in text) for text in texts]

    run = eh.audit(score, eh.TextSpace.paper("religion"), "text-random", criterion=eh.Gap(0.2), data=TEXTS)
    assert "(scores 0.3" in select_pairs(run, 1)[0].sentence
    assert select_pairs(run, 0) == []
    assert pairs_at(run.pairs, np.array([], dtype=np.int64)) == []


def test_nothing_that_a_terminal_obeys_and_all_scripts() -> None:
    nasty = "\x1b[2J [bold]\u202eSikh\u2066 said\nשלם \ud800"
    pair = TextPair.of(nasty, nasty.replace("Sikh", "Jain"), "a\nb", True, changed=[(1, "\x07", "bold")])
    assert pair.sentence.isprintable()
    for shown in ("\\x1b[2J", "\\u202e", "[Sikh]", "\\n", "שלם", "\\ud800", "{\\x07 -> bold}"):
        assert shown in pair.sentence
    pair.sentence.encode()
    joined = "\u0645\u06cc\u200c\u062e"
    assert visible(joined) == joined
