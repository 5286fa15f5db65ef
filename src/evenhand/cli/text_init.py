"""What ``evenhand init --text`` writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

TEMPLATE = """\
# Run with: evenhand audit {name}
# Paths are seen from this file. Options of the command override what is said here.

[model]
# A .skops file, a .joblib or .pkl file (needs --trust-pickle), the folder of a Hugging Face model, or
# "module:attribute" for any object in a Python module in the current directory: a pipeline that was fitted
# on texts, a function that takes a list of texts, or eh.wrap(net, encode=...).
path = "classifier:classify"
# threshold = 0.5           # decide for the second class from this score on
# timeout = 60.0            # seconds for one call of the model

[text]
path = {texts}
{column}
# encoding = "utf-8"        # how the characters of the file are written
# What must not matter: lexicons by name ({names}),
# .toml files of your own, or terms: {{ team = ["reds", "blues"] }}
protected = [{protected}]
# similar = "vectors.npz"   # vectors of words: replace words by similar ones, to test more than these texts;
                            # by default those of the model, where it has an embedding
k = 10                      # how many similar words a word has
occurrences = "each"        # replace each occurrence of a term by itself, or all "together"
ambiguous = "context"       # "black" is a term where the words around it say so; or "always", "never"
# avoid_protected = true    # similar words are no terms of any lexicon
# agree = false             # similar words must have the same shape: both end in -ing, and so on
# limit = 1000              # the most texts that one is compared with

[audit]
strategy = "text-random"    # evenhand strategies lists them
seed = 0                    # same seed, same findings
criterion = "flip"          # the decision changes; or a number: scores more than that apart
# directory = "run"         # keep the run, to resume and replay it
# fail_above = 0            # exit with 1 if there are more findings

[audit.settings]
# max_iter = 10             # settings of the strategy

[budget]                    # the first limit to be reached ends the run
tests = 100000
# rows = 1000000
# findings = 1000
# seconds = 60.0
"""


def written(data: Path, column: str | None, protected: Sequence[str], output: Path) -> tuple[str, str]:
    """Say what is in the texts, and give the configuration."""
    from evenhand.cli.init import quoted
    from evenhand.text.files import read_texts
    from evenhand.text.lexicon import NAMES
    from evenhand.text.space import TextSpace

    space = TextSpace(list(protected))
    ground = space.begin(read_texts(data, column))
    here = output.parent
    content = TEMPLATE.format(
        name=output,
        texts=quoted(os.path.relpath(data, here)),
        column=f"column = {quoted(column)}"
        if column
        else '# column = "text"           # the column that has the texts',
        names=", ".join(NAMES),
        protected=", ".join(quoted(os.path.relpath(p, here) if p.endswith(".toml") else p) for p in protected),
    )
    return f"{space}\n{len(ground.seeds):,} texts have a term, {ground.without:,} have none", content
