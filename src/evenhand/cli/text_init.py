"""What ``evenhand init --text`` writes."""

from __future__ import annotations

import os
from pathlib import Path

ABOUT = """\
# A .skops file, a .joblib or .pkl file (needs --trust-pickle), the folder of a Hugging Face model, or
# "module:attribute" for any object in a Python module in the current directory: a pipeline that was fitted
# on texts, a function that takes a list of texts, or eh.wrap(net, encode=...)."""


def written(
    data: Path, column: str | None, encoding: str | None, protected: list[str], output: Path, model: str | None
) -> tuple[str, str]:
    """Say what is in the texts, and give the configuration."""
    from evenhand.cli.init import seen_from
    from evenhand.cli.template import AUDIT, HEAD, KEPT, TEXT, TEXTS_MEASURED, listed
    from evenhand.text.files import read_texts
    from evenhand.text.lexicon import NAMES
    from evenhand.text.space import TextSpace
    from evenhand.visible import visible, visible_toml

    space = TextSpace(list(protected))
    ground = space.begin(read_texts(data, column, encoding or "utf-8"))
    here = output.parent
    content = (HEAD + TEXT + AUDIT + TEXTS_MEASURED + KEPT).format(
        name=visible(str(output)),
        about=ABOUT,
        model=visible_toml(seen_from(model or "classifier:classify", output, bool(model))),
        texts=visible_toml(os.path.relpath(data, here)),
        column=f"column = {visible_toml(column)}"
        if column
        else '# column = "text"           # the column that has the texts',
        encoding=f"encoding = {visible_toml(encoding)}"
        if encoding
        else '# encoding = "utf-8"        # how the characters of the file are written',
        names=", ".join(NAMES),
        protected=listed([os.path.relpath(p, here) if p.endswith(".toml") else p for p in protected]),
        strategy="text-random",
        pad=" " * 4,
        coverage="",
        setting="max_iter = 10             # settings of the strategy",
    )
    return f"{space}\n{len(ground.seeds):,} texts have a term, {ground.without:,} have none", content
