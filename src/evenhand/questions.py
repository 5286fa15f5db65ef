"""Questions other than tests: decisions, scores, slopes, swaps of words, and work of a search's own."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from evenhand._rng import Bits
from evenhand.asker import Asker
from evenhand.errors import DECIDE, KOSEI, THRESHOLD, ModelError, StrategyError
from evenhand.ledger import Arrays, Ledger
from evenhand.log import Frame
from evenhand.search import Query
from evenhand.slopes import Slopes
from evenhand.spaces.base import Block
from evenhand.spaces.findings import Decisions
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.text.individuals import TextPairs
from evenhand.word_slopes import WordSlopes


class Questions:
    """Asks them, block by block, and books them."""

    def __init__(self, asker: Asker, ledger: Ledger) -> None:
        self.asker, self.ledger = asker, ledger
        self.labels = Decisions()

    def answer(self, query: Query) -> Any:
        """Answer one query."""
        if query.kind == "work":
            return self._work(query)
        if query.kind == "gradient":
            return self._gradient(query)
        if query.kind == "swap":
            return self._swap(query)
        return self._ask(query)

    def _ask(self, query: Query) -> npt.NDArray[Any]:
        """Answer a question about the individuals themselves, block by block."""
        individuals = query.individuals
        assert individuals is not None
        if query.kind == "label":
            self._refuse_numbers()
        one = self._label if query.kind == "label" else self._score
        parts, at = [], 0
        while at < len(individuals):
            block = individuals[at : at + self.ledger.room]
            parts.append(one(block))
            at += len(block)
        return np.concatenate(parts) if parts else np.zeros(0)

    def _label(self, block: Block) -> npt.NDArray[Any]:
        def ask() -> Arrays:
            return {"answer": self.labels.pack(self.asker.labels(block.rows, (*DECIDE, ", or use ", KOSEI)))}

        # The list grows while the model is asked; a stored answer has its own.
        frame = self.ledger.stored("label", "label", block, len(block), ask, decisions=self.labels.values)
        if frame.header["decisions"] != self.labels.values:
            self.labels = Decisions(frame.header["decisions"])
        return self.labels.unpack(frame.arrays["answer"], len(block))

    def _score(self, block: Block) -> npt.NDArray[Any]:
        frame = self.ledger.stored(
            "score", "score", block, len(block), lambda: {"answer": self.asker.scores(block.rows)}
        )
        return frame.arrays["answer"]

    def _refuse_numbers(self) -> None:
        if self.asker.model.regression:
            raise ModelError(
                f"{self.asker.model.name} returns numbers, and this search asks for decisions",
                remedy=("make them decisions with ", THRESHOLD, ", or use ", KOSEI),
            )

    def _work(self, query: Query) -> Any:
        assert query.call is not None
        self.ledger.check_budget()
        frame = self.ledger.stored_frame("work", "", 0)
        if frame is None:
            frame = Frame("work", {"digest": ""}, {"answer": np.asarray(query.call())})
            self.ledger.store(frame)
        else:
            self.ledger.clock.replayed()
        return frame.arrays["answer"]

    def _gradient(self, query: Query) -> npt.NDArray[np.float64]:
        check_contrasts(self.asker)
        individuals, classes, slopes = cast(Individuals, query.individuals), query.classes, self.asker.slopes
        if slopes is None:
            raise StrategyError(
                f"gradients are asked of attributes, and the space is one of {self.ledger.ground.space.noun}s"
            )
        assert classes is not None
        jumps, parts, at = query.jumps, [], 0
        while at < len(individuals):
            part = slice(at, at + max(1, self.ledger.room // slopes.cost))
            there = None if jumps is None else jumps[part]
            block = individuals[part]
            at += len(block)
            # Frame by frame, so that a budget is looked at and a kill loses no more than one block.
            ask = partial(self._ask_slopes, slopes, block, classes[part], there)
            frame = self.ledger.stored("gradient", "gradient", block, len(block) * slopes.cost, ask)
            parts.append(frame.arrays["answer"])
        return np.concatenate(parts) if parts else np.zeros((0, len(slopes.space.names)))

    def _ask_slopes(
        self, slopes: Slopes, block: Individuals, classes: npt.NDArray[np.int64], jumps: Rows | None
    ) -> Arrays:
        return {"answer": slopes.ask(block.rows, classes, jumps)}

    def _swap(self, query: Query) -> npt.NDArray[np.int32]:
        check_contrasts(self.asker)
        pairs, slopes = query.pairs, self.asker.word_slopes
        if slopes is None or pairs is None:
            raise StrategyError(f"swaps are asked of texts, and the space is one of {self.ledger.ground.space.noun}s")
        parts = []
        for part, rows in slopes.parts(pairs, query.limit, lambda: self.ledger.room):
            draws = None if query.draws is None else query.draws[part]
            # What is stored is the choice: gradients of words are large.
            ask = partial(self._ask_swaps, slopes, pairs[part], query.rule, draws, query.limit)
            frame = self.ledger.stored("swap", slopes.question, pairs.individuals[part], rows, ask)
            parts.append(frame.arrays["answer"])
        return np.concatenate(parts) if parts else np.zeros((0, 2), dtype=np.int32)

    def _ask_swaps(
        self, slopes: WordSlopes, pairs: TextPairs, rule: str, draws: Bits | None, limit: int | None
    ) -> Arrays:
        return {"answer": slopes.ask(pairs, rule, draws, limit)}


def check_contrasts(asker: Asker) -> None:
    """Raise where a search has not said that it asks for contrasts or gradients."""
    if not asker.contrasts:
        raise StrategyError(
            "a search that asks for contrasts or gradients has the class attribute uses_gradient = True"
        )
