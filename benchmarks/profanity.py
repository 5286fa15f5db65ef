"""A third-party classifier from PyPI: ``alt-profanity-check``, a linear SVM.

Texts are tested as they are, each with all its counterparts. The generated comments come with the package; those that
people wrote are in the folder that EVENHAND_TEXT_DATA names, a table with the columns ``text`` and ``toxic``.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short

LEXICONS = ("age", "ethnic", "gender", "orientation", "race", "religion")
BLOCK = 500


def classify(texts: list[str]) -> Any:
    from profanity_check import predict

    return predict(texts)


def audited(texts: list[str], lexicon: str) -> dict[str, Any]:
    """Audit the texts as they are, and count what each identity does in their places."""
    space = eh.TextSpace.paper(lexicon)
    as_they_are = eh.TextRandom(seeds=None, max_iter=1, phase="global")
    run, seconds = cpu(lambda: eh.audit(classify, space, as_they_are, eh.Budget(tests=10**6), data=texts))
    return {
        "tests": run.tests,
        "findings": run.found,
        "rows": run.rows,
        "cpu_seconds": short(seconds),
        "identities": by_identity(texts, lexicon),
    }


def by_identity(texts: list[str], lexicon: str) -> dict[str, list[int]]:
    """Put each identity into every place that has a term: places, flagged then, flagged only then, no longer flagged.

    Where it stands already the text is counted as it is, so that all identities stand in the same places.
    """
    bound = eh.TextSpace.paper(lexicon, max_family_size=10**6).begin(texts)
    counts = np.zeros((len(bound.swaps.identities), 4), dtype=np.int64)
    for first in range(0, len(bound.seeds), BLOCK):
        some = bound.seeds[np.arange(first, min(first + BLOCK, len(bound.seeds)))]
        families, found = bound.families(some, 0), bound.found.of(some.seeds)
        options = bound.swaps.options(found)
        said = np.asarray(classify(families.asked)) == 1
        own, other = said[families.starts], np.delete(said, families.starts)
        before = np.concatenate([own[found.text], own[options.source]])
        after = np.concatenate([own[found.text], other])
        identity = np.concatenate([found.identity, options.identity])
        for column, which in enumerate((after | True, after, after & ~before, before & ~after)):
            np.add.at(counts[:, column], identity[which], 1)
    return dict(zip(bound.swaps.identities, counts.tolist(), strict=True))


def written() -> Path | None:
    """Return the table of comments that people wrote, where there is one."""
    folder = os.environ.get("EVENHAND_TEXT_DATA")
    return next(iter(sorted(Path(folder).glob("*.csv*"))), None) if folder else None


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "profanity.json")
    options.add_argument("--comments", type=Path, default=written(), help="a table of comments that people wrote")
    options.add_argument("--lexicons", nargs="+", default=LEXICONS)
    options.add_argument("--most", type=int, help="texts of each source")
    given = options.parse_args(arguments)
    result: dict[str, Any] = {"machine": facts(), "package": version("alt-profanity-check")}
    generated = eh.datasets.load("comments")
    result["generated"] = {generated.lexicon: audited(list(generated.texts[: given.most]), generated.lexicon)}
    if given.comments is not None:
        texts = list(eh.datasets.read_comments(given.comments).texts[: given.most])
        result["texts"] = len(texts)
        result["written"] = {lexicon: audited(texts, lexicon) for lexicon in given.lexicons}
    result["load_after"] = facts()["load"]
    save(given.out, result)
    for source in ("generated", "written"):
        for lexicon, row in result.get(source, {}).items():
            print(source, lexicon, {key: value for key, value in row.items() if key != "identities"})


if __name__ == "__main__":
    main()
