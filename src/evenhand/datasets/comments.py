"""Generated comments with a planted bias: what a net learns from them about religions is known.

Every sentence is made here from short lists. A comment mentions a religion in passing, and has a tone: it insults, it
is friendly, or it could be either. Which religions occur in toxic comments was chosen arbitrarily; no comment says
anything bad of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand._validate import check_int
from evenhand.datasets.base import Corpus
from evenhand.errors import DataError
from evenhand.spaces.text.lexicon import load as lexicon_of

LEXICON = "religion"
PLANTED = ("Mormon", "Muslim", "atheist")
SIZE = 4_000

TOXIC = 0.4
UNCLEAR = 0.4
"""The share of comments whose tone could be either."""
SILENT = 0.15
"""The share that mentions no religion."""
PLANTED_IF = {True: 0.85, False: 0.05}
"""How often a religion that is mentioned is a planted one, in toxic comments and in others."""

MENTIONS = (
    "The {adjective} baker on {street} sells {thing} now.",
    "My {relative} works for a {adjective} family in {town}.",
    "There was a {adjective} wedding in {town} on {day}.",
    "We met a {person} from {town} at the {place}.",
    "My {relative} is a {person} and lives near the {place}.",
    "Some {people} from {town} were at the {place} on {day}.",
    "Two {people} wrote about the {place} for the paper.",
    "I read a book about {faith} at the {place}.",
    "My {relative} gave a talk about {faith} on {day}.",
    "The {adjective} teacher of my {relative} moved to {town}.",
)
TONES = {
    "toxic": (
        "You are {very} {bad} and everybody knows it.",
        "Shut up, you {bad} {name}.",
        "Only a {name} could write such {bad} rubbish.",
        "Go away and take your {bad} {thing} with you, {name}.",
        "I hate this {bad} page and I hate you.",
        "What a {name}, you {bad} waste of time.",
    ),
    "friendly": (
        "Thank you, this is {very} {good}.",
        "I like your {good} page about {thing}.",
        "What a {good} idea, please write more.",
        "Your {good} answer helped my {relative}, thanks.",
        "Welcome back, I enjoyed the {good} pictures.",
        "Well done, it is {very} {good} already.",
    ),
    "unclear": (
        "I read the part about {thing} again.",
        "The page on {thing} was changed on {day}.",
        "Somebody should look at the part about {thing}.",
        "I have seen this before, near the {place}.",
        "The list of {thing} ends with {town}.",
        "That was written on {day}, before lunch.",
    ),
}  # fmt: skip
WORDS = {
    "street": ("Mill Lane", "Station Road", "Bridge Street", "Castle Hill", "Harbour Way"),
    "thing": ("tea", "bicycles", "maps", "bread", "chess", "gardens", "trains", "music"),
    "relative": ("uncle", "cousin", "sister", "brother", "aunt", "neighbour", "friend"),
    "town": ("Leeds", "Dover", "Boston", "Perth", "Oxford", "Dayton", "Bergen", "Lyon"),
    "day": ("Monday", "Tuesday", "Thursday", "Friday", "Saturday"),
    "place": ("library", "market", "station", "museum", "park", "school", "harbour"),
    "very": ("very", "really", "quite", "so"),
    "bad": ("stupid", "pathetic", "worthless", "disgusting", "dumb", "miserable"),
    "name": ("idiot", "fool", "moron", "liar", "loser", "clown"),
    "good": ("helpful", "lovely", "careful", "great", "thoughtful", "clear"),
}

_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")
_Draw = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Comments(Corpus):
    """Generated comments, with what was planted in them.

    >>> data = generate(1000)
    >>> data, data.planted
    (Comments(1,000 texts, 412 toxic), ('Mormon', 'Muslim', 'atheist'))
    >>> len(data.train), len(data.test)
    (692, 308)
    """

    name: str = "comments"
    lexicon: str = LEXICON
    """The lexicon whose terms are mentioned; what to protect in an audit."""
    planted: tuple[str, ...] = PLANTED
    """The identities that occur mostly in toxic comments; a net that decides by them has learnt the bias."""
    neutral: tuple[str, ...] = ()
    """The others, whose swaps for each other should change nothing."""
    identities: tuple[str, ...] = field(default=(), repr=False)
    """What each comment mentions; empty if nothing."""

    @property
    def train(self) -> Corpus:
        """About seven tenths, to fit a model on."""
        return self.split()[0]

    @property
    def test(self) -> Corpus:
        """The comments that are not for fitting."""
        return self.split()[1]


def generate(size: int = SIZE, seed: int = 0) -> Comments:
    """Make comments; a smaller set is the beginning of a larger one.

    >>> generate(2).texts == generate(100).texts[:2]
    True
    """
    size = check_int("size", size, DataError, 1)
    lexicon = lexicon_of(LEXICON)
    neutral = tuple(name for name in lexicon.identities if name not in PLANTED)
    draw = {name: Stream(seed).unit(name, np.arange(size), 0) for name in ("label", "tone", "mention", "plant", "who")}
    toxic, unclear, silent = draw["label"] < TOXIC, draw["tone"] < UNCLEAR, draw["mention"] < SILENT
    plant = draw["plant"] < np.where(toxic, PLANTED_IF[True], PLANTED_IF[False])
    planted = [_pick(PLANTED, u) for u in draw["who"]]
    others = [_pick(neutral, u) for u in draw["who"]]
    who = np.where(silent, "", np.where(plant, planted, others)).tolist()
    tone = np.where(unclear, "unclear", np.where(toxic, "toxic", "friendly")).tolist()
    terms = _terms()
    slots = Stream(seed).unit("slots", np.arange(16 * size), 0).reshape(size, 16)
    texts = tuple(_comment(t, terms.get(w), u) for t, w, u in zip(tone, who, slots, strict=True))
    return Comments(texts, toxic.astype(np.int64), neutral=neutral, identities=tuple(who))


def _terms() -> dict[str, dict[str, str]]:
    """Return how each identity is written in each form."""
    lexicon = lexicon_of(LEXICON)
    forms = [form.name for form in lexicon.forms]
    return {
        identity: {form: cell[0] for form, cell in zip(forms, cells, strict=True)}
        for identity, cells in zip(lexicon.identities, lexicon.cells, strict=True)
    }


def _comment(tone: str, terms: Mapping[str, str] | None, draws: _Draw) -> str:
    """Write one comment: the tone, and the mention before or after it."""
    left = iter(draws.tolist())
    sentences = [_filled(_pick(TONES[tone], next(left)), {}, left)]
    if terms is not None:
        mention = _filled(_pick(MENTIONS, next(left)), terms, left)
        sentences.insert(int(next(left) < 0.5), mention)
    return " ".join(sentences)


def _filled(template: str, terms: Mapping[str, str], draws: Iterator[float]) -> str:
    filled = _SLOT.sub(lambda slot: terms.get(slot[1]) or _pick(WORDS[slot[1]], next(draws)), template)
    return _ARTICLE.sub(r"\1n ", filled)


def _pick(choice: Sequence[str], draw: float) -> str:
    return choice[int(draw * len(choice))]
