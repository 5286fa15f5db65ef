"""A simple HTML page of runs: one offline file with the pairs side by side, the counts and the discovery curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand._version import __version__
from evenhand.errors import RunError
from evenhand.text.space import TextSpace

if TYPE_CHECKING:
    from evenhand.covering import Coverage
    from evenhand.run import Run
    from evenhand.text_words import TextPair
    from evenhand.words import Pair

__all__ = ["Section", "render", "write"]


@dataclass(frozen=True)
class Section:
    """One audited model: its run, the pairs to show, and runs to draw beside it."""

    title: str
    run: Run
    pairs: Sequence[Pair | TextPair]
    note: str = ""
    others: Sequence[Run] = ()
    """Further runs of the same model, for comparison."""
    coverage: Coverage | None = None
    """What the run's tests reach."""


def render(sections: Sequence[Section], title: str = "evenhand audit") -> str:
    """Make the page as text.

    >>> import evenhand as eh
    >>> from evenhand.words import telling
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, strategy="themis")
    >>> html = render([Section("Loans", run, telling(run))])
    >>> "Loans" in html and "<script" not in html
    True
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from evenhand.page.chart import discovery
    from evenhand.words import plain

    environment = Environment(
        loader=PackageLoader("evenhand.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    shown = []
    for number, section in enumerate(sections):
        runs = [section.run, *section.others]
        texts = isinstance(section.run.space, TextSpace)
        shown.append({"of": section, "runs": runs, "texts": texts, "chart": discovery(runs, salt=str(number))})
    texts = bool(shown) and all(section["texts"] for section in shown)
    return environment.get_template("page.html").render(title=title, version=__version__, sections=shown, texts=texts)


def write(path: str | Path, sections: Sequence[Section], **settings: Any) -> Path:
    """Write the page to a file and return its path; ``settings`` are those of ``render``."""
    path = Path(path)
    html = render(sections, **settings)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; choose another place for the page") from error
    return path
