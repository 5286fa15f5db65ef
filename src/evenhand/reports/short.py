"""The short form of a report, for notebooks: the verdict, the counts and three pairs. It asks no model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.reports.cards import cards_of_pairs
from evenhand.reports.figures import sourced
from evenhand.reports.rendering import environment
from evenhand.reports.wording import verdict
from evenhand.words import telling

if TYPE_CHECKING:
    from evenhand.runs.run import Run

SHOWN = 3


def short(run: Run) -> str:
    """Make the short form.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, strategy="themis")
    >>> "Yes: the search found " in run._repr_html_()
    True
    """
    cards = cards_of_pairs(telling(run, SHOWN), run.space.protected)
    shown = sourced(run, "run")
    made = environment().get_template("short.html")
    return made.render(run=shown, verdict=verdict(shown), cards=sourced(cards, "cards"))
