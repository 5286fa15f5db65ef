"""The searches of texts by Zhang and others (TSE 2021): by random words, by gradients, and by scores without a word."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_settings
from evenhand.errors import TEXTS, DataError
from evenhand.search import (
    Problem,
    Query,
    Search,
    Verdicts,
    contrast,
    count_rounds,
    judge,
    of_class,
    score,
    swap,
)
from evenhand.spaces.text.individuals import TextIndividuals, TextPairs
from evenhand.spaces.text.space import replace_random_word
from evenhand.spaces.text.tokens import Positions

Numbers: TypeAlias = npt.NDArray[np.integer[Any]]
Choice: TypeAlias = Generator[Query, Any, tuple[Numbers, Numbers]]
"""Asks, then returns for each text the position of a word, and which of its similar words replaces it."""
IDLE = 100
"""A search ends after this many individuals per text without a fresh test."""
NUDGES = 10
"""Maximum number of words that are replaced at random before a text is used again."""


@dataclass(frozen=True)
class TextWalk:
    """Walkers side by side: their numbers, and the texts where they are."""

    walkers: Positions
    texts: TextIndividuals

    def __len__(self) -> int:
        return len(self.walkers)

    def __getitem__(self, which: Any) -> TextWalk:
        """Return some of the walkers."""
        return TextWalk(self.walkers[which], self.texts[which])

    @staticmethod
    def join(parts: Sequence[TextWalk]) -> TextWalk:
        """Put walkers one after the other."""
        walkers = np.concatenate([part.walkers for part in parts])
        return TextWalk(walkers, TextIndividuals.join([part.texts for part in parts]))


Led = Generator[Query, Any, TextWalk]


@dataclass(frozen=True, kw_only=True)
class TextSearch:
    """A global phase that leads texts to discrimination, and a local phase that walks on from those found."""

    seeds: int | None = 1000
    """Number of texts that a round starts from, drawn from the data; None: all."""
    max_iter: int = 10
    """Judgements of each seed in the global phase."""
    trials: int = 1000
    """Steps of each walk of the local phase."""
    phase: Literal["both", "global", "local"] = "both"
    """``local`` walks only from seeds that are discriminatory themselves."""
    rounds: int | None = None
    """Number of rounds; None: until the budget ends or nothing new is found, and one for a single phase."""

    needs: ClassVar[str] = "texts"

    def __post_init__(self) -> None:
        check_settings(self)

    def search(self, problem: Problem) -> Search:
        """Run both phases from one set of texts after another; end if nothing new has been found for long."""
        texts, idle = _different_texts(problem), 0
        for walk in self._starts(problem, texts):
            search, answer = self._round(problem, walk), None
            while True:
                try:
                    query = search.send(answer)
                except StopIteration:
                    break
                answer = yield query
                verdicts = getattr(answer, "verdicts", answer)
                if isinstance(verdicts, Verdicts):
                    assert query.individuals is not None
                    idle = 0 if len(verdicts.positions) else idle + len(query.individuals)
            if idle >= IDLE * len(texts):
                return

    def _round(self, problem: Problem, walk: TextWalk) -> Search:
        found = yield from self._global_phase(problem, walk)
        if self.phase != "global" and len(found):
            yield from self._local_phase(problem, found)

    def _global_phase(self, problem: Problem, walk: TextWalk) -> Led:
        raise NotImplementedError

    def _local_phase(self, problem: Problem, walk: TextWalk) -> Search:
        raise NotImplementedError

    @property
    def _iterations(self) -> int:
        return 1 if self.phase == "local" else self.max_iter

    def _starts(self, problem: Problem, texts: TextIndividuals) -> Iterator[TextWalk]:
        """Yield the texts that each round starts from.

        First every text of the data once, unedited. Then all again, with words replaced at random and with new numbers,
        so that walks from them differ.
        """
        size = self.seeds or len(texts)
        cuts = range(0, len(texts), size)
        for number in count_rounds(self.rounds if self.phase == "both" else self.rounds or 1):
            again, cut = divmod(number, len(cuts))
            part = texts[cuts[cut] : cuts[cut] + size]
            walk = TextWalk(again * len(texts) + cuts[cut] + np.arange(len(part)), part)
            for step in range(min(again, NUDGES)):
                walk = move_randomly(problem, walk, "again", step)
            if len(walk):
                yield walk
            elif again and not problem.texts.movable(texts).any():
                return


def move_randomly(problem: Problem, walk: TextWalk, phase: str, step: int) -> TextWalk:
    """Replace a random word of each text by a random similar one; drop texts without such a word."""
    able, texts = replace_random_word(problem.texts, walk.texts, problem.stream, phase, walk.walkers, step)
    if len(able) < len(walk) and phase != "again":
        problem.count("texts_that_cannot_move", len(walk) - len(able))
    return TextWalk(walk.walkers[able], texts)


def given_texts(problem: Problem) -> TextIndividuals:
    """Return the texts of the data; raise if there are none."""
    texts: TextIndividuals = problem.texts.seeds if problem.data is None else problem.data
    if not len(texts):
        raise DataError("there is no text to start from", remedy=("give texts with a protected term: ", TEXTS))
    return texts


def _different_texts(problem: Problem) -> TextIndividuals:
    """Return the different texts of the data, in an order that the run's seed decides.

    Texts that differ only in the judged term count as one.
    """
    texts = given_texts(problem)
    texts = texts[problem.stream.shuffled(np.arange(len(texts)), len(texts), "seeds")]
    _, first = np.unique(texts.keys, return_index=True)
    return texts[np.sort(first)]


@dataclass(frozen=True)
class TextRandom(TextSearch):
    """Replace random words by random similar words, until a text is discriminatory; then around such texts.

    Zhang, Wang, Sun and others, "Automatic fairness testing of neural classifiers through adversarial sampling", TSE
    2021. Their baseline RP: the phases of ADF, with word and replacement chosen "completely at random". The paper does
          not say among which words; here, uniformly among those that are free and have similar words. A walk continues
          from its current text, whether it is a finding or not, and similar words are those of the current word. All
          texts advance together; the path of one does not depend on the others. The paper ends with the last walk
          (``rounds=1``); here
    the next texts follow until the budget ends, and after them all texts again, with words replaced at random.

    >>> TextRandom(phase="global").max_iter
    10
    """

    def _global_phase(self, problem: Problem, walk: TextWalk) -> Led:
        """Judge, and change what is not discriminatory."""
        found = []
        for iteration in range(self._iterations):
            verdicts = yield from judge(walk.texts)
            found.append(walk[verdicts.found])
            walk = walk[np.flatnonzero(~verdicts.unfair)]
            if iteration == self._iterations - 1 or not len(walk):
                break
            walk = move_randomly(problem, walk, "lead", iteration)
        return TextWalk.join(found)

    def _local_phase(self, problem: Problem, walk: TextWalk) -> Search:
        """Change and judge, again and again."""
        for trial in range(self.trials):
            walk = move_randomly(problem, walk, "walk", trial)
            if not len(walk):
                break
            yield from judge(walk.texts)


@dataclass(frozen=True, kw_only=True)
class PairSearch(TextSearch):
    """The two phases, for any way to choose a word and its replacement."""

    pair: bool = True
    """Whether the most different counterpart is also used."""

    uses_gradient: ClassVar[bool] = True

    @property
    def _effort(self) -> tuple[int, int | None]:
        """Number of steps of a walk after which effects of words are computed again, and number of words."""
        return 1, None

    def _choose(self, problem: Problem, pairs: TextPairs) -> Choice:
        raise NotImplementedError

    def _global_phase(self, problem: Problem, walk: TextWalk) -> Led:
        """Judge, and replace the chosen word in texts that are not discriminatory."""
        found = []
        for iteration in range(self._iterations):
            seen = yield from contrast(walk.texts)
            found.append(walk[seen.verdicts.found])
            if iteration == self._iterations - 1:
                break
            able = _movable(problem, walk.texts, np.flatnonzero(~seen.verdicts.unfair))
            if not len(able):
                break
            walk, pairs = walk[able], TextPairs(walk.texts, seen.most_different, seen.classes)[able]
            positions, which = yield from self._choose(problem, pairs if self.pair else pairs.alone)
            walk = TextWalk(walk.walkers, _replaced(problem, walk.texts, positions, which))
        return TextWalk.join(found)

    def _local_phase(self, problem: Problem, walk: TextWalk) -> Search:
        """Replace words that matter little to both texts by a similar one, drawn uniformly."""
        every, limit = self._effort
        # They have just been judged and are cached.
        seen = yield from contrast(walk.texts)
        for trial in range(self.trials):
            if trial % every == 0:
                able = _movable(problem, walk.texts)
                if not len(able):
                    break
                pairs = TextPairs(walk.texts, seen.most_different if self.pair else None, seen.classes)[able]
                walk, ahead = walk[able], range(trial, min(trial + every, self.trials))
                draws = np.stack([problem.stream.bits("choice", walk.walkers, step) for step in ahead], axis=1)
                words = yield from swap(pairs, "least", draws, limit)
            walk = _replaced_randomly(problem, walk, words[:, trial % every], trial)
            if (trial + 1) % every or trial + 1 == self.trials:
                yield from judge(walk.texts)
            else:
                seen = yield from contrast(walk.texts)


@dataclass(frozen=True)
class TextAdf(PairSearch):
    """Replace the word at which a text and its most different counterpart diverge, until it is discriminatory.

    Zhang, Wang, Sun and others, "Automatic fairness testing of neural classifiers through adversarial sampling", TSE
    2021. With ``direction="asc"``, the word with the largest difference of the two gradients is replaced by the similar
          word that is most in the direction of the loss's gradient. With ``"hotflip"``, the replacement is chosen that,
          to first order, most raises the loss of the text nearer to the decision boundary, compared with the other.
          Walks around findings replace words that matter little to both. With ``pair=False``, only the text itself is
          used: the plain adversarial search that the paper compares with. Needs a model with gradients of words. The
          space sets the number of similar words.

    The paper prints HotFlip with an absolute value, which loses the direction to the boundary; that is
    ``direction="hotflip-unsigned"``, with ``pair=False`` too. The paper ends with the last walk (``rounds=1``); here
    the next texts follow until the budget ends, and after them all texts again, with words replaced at random.

    >>> TextAdf(direction="hotflip-unsigned", rounds=1, phase="global").max_iter
    10
    """

    direction: Literal["asc", "hotflip", "hotflip-unsigned"] = "asc"
    """How word and replacement are chosen."""

    gradient: ClassVar[str] = "model"

    def _choose(self, problem: Problem, pairs: TextPairs) -> Choice:
        del problem
        chosen = yield from swap(pairs, self.direction)
        return chosen[:, 0], chosen[:, 1]


def _movable(problem: Problem, texts: TextIndividuals, which: Positions | None = None) -> Positions:
    """Return which texts have a word that can be replaced; the others are counted and dropped."""
    movable = np.bincount(texts.texts.rows[problem.texts.movable(texts)], minlength=len(texts)) > 0
    which = np.arange(len(texts)) if which is None else which
    able = which[movable[which]]
    if len(able) < len(which):
        problem.count("texts_that_cannot_move", len(which) - len(able))
    return able


def _replaced(problem: Problem, texts: TextIndividuals, positions: Numbers, which: Numbers) -> TextIndividuals:
    """Replace one word of each text by one of its similar words, if it has any."""
    assert problem.texts.moves is not None
    flat = texts.texts.starts[:-1] + positions
    words = texts.texts.words[flat]
    similar = problem.texts.moves.of(words)[np.arange(len(flat)), which]
    return texts.put(flat, np.where(similar >= 0, similar, words))


def _replaced_randomly(problem: Problem, walk: TextWalk, positions: Numbers, trial: int) -> TextWalk:
    """Replace a word of each text by one of its similar words, drawn uniformly."""
    texts = walk.texts.texts
    assert problem.texts.moves is not None
    counts = problem.texts.moves.counts(texts.words[texts.starts[:-1] + positions])
    bits = problem.stream.bits("similar", walk.walkers, trial) % np.maximum(counts, 1).astype(np.uint64)
    return TextWalk(walk.walkers, _replaced(problem, walk.texts, positions, bits.astype(np.int64)))


@dataclass(frozen=True, kw_only=True)
class TextImportance(PairSearch):
    """Replace the word that matters most differently to a text and to its most different counterpart.

    Zhang, Wang, Sun and others, "Automatic fairness testing of neural classifiers through adversarial sampling", TSE
    2021. The paper mentions it as future work: the phases of `TextAdf` for every model with scores. The effect of a
          word is the change of the score of the text's decision when the word is left out. In the global phase, the
          word whose effects differ most between the two is replaced by the similar word that lowers the score of the
          text most; all are tried. In the local phase, words that matter little to both are replaced; their effects are
          computed again only at every ``every`` steps, because that takes two rows per word. With ``pair=False``, only
          the text itself is used, with half the rows: suitable for models whose scores are sums over words, where a
          word has the same effect in both.

    >>> TextImportance(phase="global").words
    100
    """

    words: int = 100
    """Maximum number of words of a text to leave out, one at a time; if there are more, a pseudo-random selection."""
    every: int = 10
    """Number of steps of a walk after which effects of words are computed again."""

    gradient: ClassVar[str] = "scores"

    @property
    def _effort(self) -> tuple[int, int | None]:
        return self.every, self.words

    def _choose(self, problem: Problem, pairs: TextPairs) -> Choice:
        """Choose a word by leaving words out, and its replacement by trying all."""
        chosen = yield from swap(pairs, "largest", limit=self.words)
        moves, texts = problem.texts.moves, pairs.individuals.texts
        assert moves is not None
        similar = moves.of(texts.words[texts.starts[:-1] + chosen[:, 0]])
        row, which = np.nonzero(similar >= 0)
        tried = pairs.individuals[row]
        tried = tried.put(tried.texts.starts[:-1] + chosen[row, 0], similar[row, which])
        scores = np.full(similar.shape, np.inf)
        scores[row, which] = of_class((yield from score(tried)), pairs.classes[row])
        return chosen[:, 0], scores.argmin(axis=1)
