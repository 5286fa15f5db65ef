"""Settings that several errors recommend, as Python writes them and as other front ends know them."""

from __future__ import annotations

from evenhand.errors import Use

FLIP = Use("criterion=eh.Flip()", "audit.criterion", "flip")
GAP = Use("criterion=eh.Gap(0.1)", "audit.criterion", 0.1)
THRESHOLD = Use("eh.wrap(model, threshold=0.5)", "model.threshold", 0.5)
TIMEOUT = Use("eh.wrap(model, timeout=...)", "model.timeout")
REGRESSION = Use("eh.wrap(model, regression=True)", "wrap.regression", True)
ARRAY = Use('eh.wrap(model, input="array")', "wrap.input", "array")
FRAME = Use('eh.wrap(model, input="frame")', "wrap.input", "frame")
SCORE_DIFFERENCES = Use("eh.Adf(gradient='scores')", "audit.settings", {"gradient": "scores"})
ORDER = Use("eh.Order([...])", "estimate.order")
DATA = Use("data=...", "data.path")
TEXTS = Use("data=[...]", "text.path")
CHUNK = Use("chunk=...", "audit.chunk")
PROTECTED = Use("protected=['sex']", "space.protected", ["sex"])
MISSING_DROP = Use('missing="drop"', "space.missing", "drop")
MISSING_GROUP = Use('missing="group"', "space.missing", "group")
OVERRIDES = Use("overrides={...}", "space.path")
TRUST_PICKLE = Use("evenhand.model.load_model(path, trust_pickle=True)", "call.trust_pickle", True)
TEXT_SPACE = Use("eh.TextSpace", "text.path")
DIRECTORY = Use("directory=...", "audit.directory")


def search(name: str) -> Use:
    """Name a search.

    >>> str(search("kosei"))
    "strategy='kosei'"
    """
    return Use(f"strategy={name!r}", "audit.strategy", name)


KOSEI, TEXT_RANDOM, TEXT_IMPORTANCE = search("kosei"), search("text-random"), search("text-importance")
DECIDE = ("decide with ", THRESHOLD)
AMOUNTS = ("if they are amounts, say so with ", REGRESSION, "; if scores, ", *DECIDE)
COMPARE = ("use ", GAP, ", or decide with ", THRESHOLD)
WITHOUT_GRADIENTS = (
    "differences of scores do without: ", SCORE_DIFFERENCES, "; ", KOSEI, " needs labels only",
)  # fmt: skip
FOR_TEXTS = (TEXT_IMPORTANCE, " does with scores, ", TEXT_RANDOM, " with labels")


def exclude(name: str) -> Use:
    """Leave a column out."""
    return Use(f"exclude=[{name!r}]", "space.exclude", [name])


def override(name: str, attribute: str) -> Use:
    """Write an attribute instead of inferring it."""
    return Use(f"overrides={{{name!r}: {attribute}}}", "space.path")


def trust_types(names: list[str]) -> Use:
    """Trust the types of a .skops file."""
    return Use(f"evenhand.model.load_model(path, trust={names})", "call.trust", names)
