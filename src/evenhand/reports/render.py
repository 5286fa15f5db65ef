"""From what a report says to HTML. Whatever comes from the user is escaped, and shown where it could not be seen."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from evenhand._format import plain, visible
from evenhand._version import __version__
from evenhand.reports import charts, figures, wording
from evenhand.reports.cards import card_of
from evenhand.reports.content import DECISIONS
from evenhand.reports.figures import count, listed, say, short, sourced, words
from evenhand.reports.wording import Counted
from evenhand.runs.pairs import select_pairs
from evenhand.runs.provenance import threshold_of
from evenhand.spaces.base import space_digest

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from evenhand.estimates.comparisons import Comparison
    from evenhand.estimates.result import Estimate
    from evenhand.reports.content import Content
    from evenhand.runs.run import Run

PAIRS = 3
"""Pairs in the short form."""
COMPARISONS = 8
"""Comparisons of each kind and population that are listed."""
TERMS = 30
"""Terms that are listed with what is decided of the texts that have them."""
SINGLE, WITHIN, SEVERAL = "", "Within combinations: ", "Several attributes at once: "
"""Kinds of comparisons: one attribute; one, with others at given values; several that change together."""
REMARKS = {"texts that cannot move": "Texts without any word that the search could replace"}
"""Words for counts of searches that mean nothing to who never ran one."""


def render(content: Content) -> str:
    """Make the page.

    >>> import evenhand as eh
    >>> from evenhand.reports.report import gathered
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: f["age"] > 3, space, strategy="themis")
    >>> render(gathered(run)).splitlines()[0]
    '<!doctype html>'
    """
    from markupsafe import Markup

    run, counted = content.run, Counted.of(content.run)
    page = sourced(content)
    found = {name: page.estimates[name] for name in content.estimates}
    template = environment().get_template("report.html")
    return template.render(
        content=page,
        estimates=found,
        run=page.run,
        subject=page.subject,
        texts=content.subject.texts,
        sections=sections(content),
        verdict=wording.verdict(page.run, found.get("data"), found.get("uniform"), content.subject.named),
        protected=wording.protected_of(run),
        counted=counted,
        effect=wording.effect(run),
        sides=wording.sides(content.subject, counted),
        explained=wording.explained(content.subject, counted),
        rising=wording.rising([run, *content.others]),
        measured=wording.measured_on(page),
        spread=wording.spread_out(run) if content.subject.people else [],
        remarks=[
            *dict.fromkeys(remark for e in found.values() for remark in wording.remarks(e)),
            *wording.slow(page.subject),
        ],
        compared=_compared(found),
        # What people want is the user's own, and no figure.
        said=lambda c, e: wording.shown(c, content, e),
        by_term=_by_term(found.get("data")),
        # Nothing in these comes from the user without being escaped where it is made.
        curve=Markup(charts.discovery([run, *content.others])),
        facts=facts(page),
        replay=replay(content),
        version=__version__,
    )


@cache
def environment() -> Environment:
    """Set the templates up."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    made = Environment(
        loader=PackageLoader("evenhand.reports", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Control characters, surrogates and text direction marks are made visible.
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    made.filters |= {"plain": plain, "listed": listed, "short": short, "given": figures.given}
    made.filters |= {name: getattr(figures, name) for name in ("percent", "level", "count", "number", "interval")}
    made.filters["number_interval"] = figures.number_interval
    # A line may well end within a long name.
    made.filters["breakable"] = lambda text: escape(visible(words(text))).replace("_", Markup("_<wbr>"))
    made.globals |= {"span": lambda *ends: Markup(charts.span(*ends)), "name_of": charts.name_of}
    made.globals["top_of"] = lambda shares: top(list(shares))
    made.globals |= {"aimed": wording.aimed, "asked": wording.asked, "ended": wording.ended}
    return made


def summary(run: Run) -> str:
    """Make the short form of a report, for notebooks: the verdict, the counts and three pairs. It queries no model.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, strategy="themis")
    >>> "Changing only sex changes this model" in run._repr_html_()
    True
    """
    cards = [card_of(pair) for pair in select_pairs(run, PAIRS)]
    shown = sourced(run, "run")
    made = environment().get_template("short.html")
    return made.render(run=shown, verdict=wording.verdict(shown), cards=sourced(cards, "cards"))


def sections(content: Content) -> dict[str, str]:
    """Name the parts that the report has, in their order."""
    if content.subject.texts:
        parts = {
            "common": "How common it is",
            "comparisons": "Which words",
            "examples": "Examples",
            "quality": "How natural the texts are" if content.quality or "quality" in content.missing else "",
        }
    else:
        parts = {
            "common": "How common it is",
            "comparisons": "Which groups",
            "examples": "Examples",
            "regions": "Where it happens",
        }
    parts |= {"curve": "How the search went"}
    if content.coverage is not None or "coverage" in content.missing:
        parts["coverage"] = "How much of the model was tested"
    parts |= {"run": "How to check this"}
    if content.groups is not None or "groups" in content.missing:
        parts["groups"] = "Group figures"
    parts |= {"limits": "What this does and does not prove"}
    if not content.run.found:
        if not content.cards:
            parts.pop("examples")
        told = content.estimates or "common" in content.missing
        if content.subject.texts:
            told = _by_term(content.estimates.get("data"))["shown"]
        if not told:
            parts.pop("comparisons")
    return {name: heading for name, heading in parts.items() if heading}


def failed(content: Content) -> str:
    """Say which parts failed, and why."""
    names = sections(content) | {"terms": "Which words"}
    parts = list(dict.fromkeys(names.get(name, names.get(name.split()[0], name)) for name in content.failed))
    why = "; ".join(dict.fromkeys(content.failed.values()))
    return f"{len(parts)} {'part' if len(parts) == 1 else 'parts'} could not be made ({', '.join(parts)}): {why}"


def _findings(run: Run) -> Markup:
    """Say how many findings there are, and how many of them were confirmed."""
    parts = [say("{}, {} confirmed by testing again", count(run.found), count(run.confirmed))]
    if run.unconfirmed:
        why = "{} not tested again" if run.unsteady is None else "{} not confirmed"
        parts.append(say(why, count(run.unconfirmed)))
    if run.refuted:
        parts.append(say("{} more refuted and not shown", count(run.refuted)))
    return say(", ".join(["{}"] * len(parts)), *parts)


def facts(content: Content) -> dict[str, Markup]:
    """List how the run was made."""
    run, counts = content.run, content.run.counts
    spent = run.budget
    limits = [(key, getattr(spent, key)) for key in ("tests", "rows", "findings", "seconds") if getattr(spent, key)]
    out = {
        "Model": say("{}", wording.named(run)),
        "Protected": say("{}", ", ".join(map(plain, run.space.protected))),
        "Data": data_of(content),
        "Counts as different": say("{}", Counted.of(run).fact),
        "Search": say("{}", plain(run.identity.search)),
        "Seed": say("<code>{}</code>", run.identity.seed),
        "Budget": say(", ".join(["{} {}"] * len(limits)), *(part for key, n in limits for part in (count(n), key))),
        "Tests": count(run.tests),
        "Findings": _findings(run),
        "Model rows": say("{}, and {} more to confirm", count(run.rows), count(run.rows_checked)),
        "Seconds": figures.written(run.seconds, "seconds"),
        "Ended": say("because {}", wording.ended(run)),
    }
    moved, lost, untestable = (counts.get(name, 0) for name in ("clipped", "dropped", "untestable"))
    if untestable:
        out["Not testable"] = say(
            "{} individuals with fewer than two counterparts that the constraints allow", count(untestable)
        )
    if run.space.supports("texts") and lost:
        out["Rows without a text"] = say("{}, left out", count(lost))
    elif moved or lost:
        out["Data rows"] = say("{} moved to the nearest bound of the space, {} left out", count(moved), count(lost))
    if run.sampled:
        out["Counterparts"] = say("a sample for each individual: some pairs may be missed")
    out |= {REMARKS.get(what, what.capitalize()): count(n) for what, n in run.remarks}
    return out


def data_of(content: Content) -> Markup:
    """Say which rows or texts the report speaks of, as far as that is known."""
    subject = content.subject
    if subject.data is None:
        return say("")
    origin = say(", from {}", figures.given(short(subject.data_name))) if subject.data_name else ""
    size = count(subject.size)
    if subject.without:
        given = "{} of {} texts{}: {} have no term that can be swapped"
        return say(given, size, count(subject.offered), origin, count(subject.without))
    return say("{} {}{}", size, "texts" if subject.texts else "rows", origin)


def replay(content: Content) -> dict[str, Any]:
    """Say how to make the run and the report again, and by what to recognise them."""
    run, subject = content.run, content.subject
    place = None if run.directory is None else shlex.quote(str(run.directory))
    identity = run.identity
    who = "the first texts of the data" if subject.texts else "64 individuals, the same whenever this space is searched"
    digests = {f"the model's answers to {who}": identity.answers}
    if identity.data:
        digests["the data that the search started from"] = identity.data
    digests["the space"] = space_digest(run.space)
    threshold = threshold_of(run) if subject.probe is None else subject.probe.model.threshold
    return {
        "directory": place,
        "model": "MODEL" if threshold is None else f"MODEL --threshold {threshold!r}",
        "call": wording.call_of(run, threshold),
        "digests": {name: str(value) for name, value in digests.items()},
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
        "made": f"evenhand {__version__}, seed {subject.options.seed}"
        + ("" if subject.probe is None else f", {subject.samples:,} samples"),
    }


def _by_term(e: Estimate | None) -> dict[str, Any]:
    """Choose the terms to list; with many decisions, which no table holds, none."""
    terms = () if e is None or not e.terms or len(e.terms[0].shares) > DECISIONS else e.terms
    decisions = [short(value) for value, _ in terms[0].shares] if terms else []
    ends = [abs(end) for term in terms for end in (term.difference_low, term.difference_high) if end is not None]
    return {
        "shown": terms[:TERMS],
        "decisions": decisions,
        "more": len(terms) > TERMS,
        "scored": any(term.mean is not None for term in terms),
        "score_of": [] if e is None else [short(one) for one in e.score_of],
        "reach": max(ends, default=0.0),
    }


def _compared(estimates: Mapping[str, Estimate]) -> list[dict[str, Any]]:
    """Choose the comparisons to list, of each population those that differ most first."""
    out = []
    for population, e in estimates.items():
        for kind in (SINGLE, SEVERAL, WITHIN):
            every = [c for c in e.comparisons if _kind(c) == kind and c.pairs]
            chosen = sorted(every, key=lambda c: -abs(c.rate if c.net is None else c.net))[:COMPARISONS]
            if not chosen:
                continue
            directed = all(c.net is not None for c in chosen)
            most = top([abs(end) for c in chosen for end in _ends(c)])
            numbers = [abs(end) for c in chosen for end in (c.difference_low, c.difference_high) if end is not None]
            out.append(
                {
                    "estimate": e,
                    "numbers": max(numbers, default=0.0),
                    "data": population == "data",
                    "kind": kind,
                    "shown": chosen,
                    "more": len(every) > len(chosen),
                    "directed": directed,
                    "least": -most if directed else 0.0,
                    "most": most,
                }
            )
    return out


def top(shares: Sequence[float]) -> float:
    """Choose where bars of shares end: beyond the longest, and never beyond 100%.

    >>> top([0.2, 0.5]), top([0.98]), top([])
    (0.55, 1.0, 0.01)
    """
    return min(1.0, max(0.01, 1.1 * max(shares, default=0.0)))


def _kind(c: Comparison) -> str:
    if len(c.first) == 1:
        return SINGLE
    return SEVERAL if sum(c.first[name] != c.second[name] for name in c.first) > 1 else WITHIN


def _ends(c: Comparison) -> tuple[float, float]:
    if c.net_low is None or c.net_high is None:
        return c.low, c.high
    return c.net_low, c.net_high
