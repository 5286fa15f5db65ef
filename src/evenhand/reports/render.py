"""Renders a report as HTML. Everything from the user is escaped, and invisible characters are made visible."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from evenhand import __version__
from evenhand._format import plain, visible
from evenhand.reports import charts, figures, wording
from evenhand.reports.content import DECISIONS
from evenhand.reports.figures import count, listed, say, short, sourced, words
from evenhand.reports.people import FEW, Map
from evenhand.reports.wording import Counted
from evenhand.runs.replay import threshold_of
from evenhand.runs.run import sentence_of_shares
from evenhand.spaces.base import space_digest

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from evenhand.estimates.favoured import Comparison
    from evenhand.estimates.result import Estimate
    from evenhand.reports.content import Content
    from evenhand.runs.run import Run

COMPARISONS = 8
"""Maximum number of comparisons to list, for each kind and population."""
TERMS = 30
"""Maximum number of terms to list, with the decisions for texts that have them."""
TITLES = {
    "Estimate": "How common discrimination is",
    "Compared": "Two models compared",
    "Repair": "A repaired model",
    "Comparison": "Repairs compared",
}
"""Headings of reports on other results than runs."""
SINGLE, WITHIN, SEVERAL = "", "Within combinations", "Several attributes at once"
"""Kinds of comparisons: one attribute; one attribute, with others at given values; several attributes together."""
REMARKS = {"texts without a replaceable word": "Texts without a word that the search can replace"}
"""Descriptions of counts of searches, for readers who did not run the search."""


def render(content: Content) -> str:
    """Make the page."""
    from markupsafe import Markup

    run, counted = content.run, Counted.of(content.run)
    page = sourced(content)
    found = {name: page.estimates[name] for name in content.estimates}
    rates = {name: page.rates[name] for name in content.rates}
    template = environment().get_template("report.html")
    verdict, note = wording.answer(page.run, rates.get("data"), rates.get("uniform"), content.subject.named)
    return template.render(
        content=page,
        estimates=found,
        rates=rates,
        run=page.run,
        subject=page.subject,
        texts=content.subject.texts,
        sections=sections(content),
        verdict=verdict or note,
        note=note if verdict else "",
        protected=wording.protected_of(run),
        counted=counted,
        effect=wording.effect(run),
        sides=wording.sides(content.subject, counted),
        explained=wording.explained(content.subject, counted),
        rising=wording.rising([run, *content.others]),
        measured=wording.measured_on(page),
        spread=wording.spread_out(run) if content.subject.people else [],
        remarks=[
            *(wording.exact_for_rows(content.subject.texts) for e in rates.values() if wording.every_row(e)),
            *dict.fromkeys(remark for e in found.values() for remark in wording.remarks(e)),
            *wording.slow(page.subject),
            *wording.read(run),
        ],
        compared=_compared(found),
        # The favourable outcome is the user's own value, not a figure.
        said=lambda c, e: wording.shown(c, content, e),
        by_term=_by_term(found.get("data")),
        # Everything from the user in these is escaped where it is made.
        curve=Markup(charts.discovery([run, *content.others])),
        gains=_gains(content, page, counted),
        where=_where(page.map),
        noun=wording.score_noun(run),
        size=""
        if page.scores is None
        else Markup(
            charts.scatter(
                page.scores, "Scores of the same people with one and the other value", wording.score_noun(run)
            )
        ),
        status=wording.status(run, content.rates),
        steps=wording.next_steps(content),
        strip=wording.strip(content),
        unaudited=wording.not_audited(run),
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
    made.globals["css"] = _style
    made.filters |= {"plain": plain, "listed": listed, "short": short, "given": figures.given}
    made.filters |= {name: getattr(figures, name) for name in ("percent", "level", "count", "number", "interval")}
    made.filters |= {"number_interval": figures.number_interval, "written": figures.written}
    # Long names may be broken across lines.
    made.filters["breakable"] = lambda text: escape(visible(words(text))).replace("_", Markup("_<wbr>"))
    made.globals |= {"span": lambda *ends: Markup(charts.span(*ends)), "name_of": charts.name_of}
    made.globals["top_of"] = lambda shares: top(list(shares))
    made.globals |= {name: getattr(wording, name) for name in ("aimed", "asked", "ended", "every_row")}
    return made


def _style(name: str) -> Markup:
    """Read a style sheet."""
    from markupsafe import Markup

    return Markup(resources.files("evenhand.reports").joinpath(name).read_text("utf-8").rstrip("\n"))


def view(value: Any) -> str:
    """Make what a notebook shows of a result. It queries no model."""
    from evenhand.reports.views import view_of

    return environment().get_template("view.html").render(view=view_of(value))


def render_result(value: Any, title: str | None) -> str:
    """Make the page of an estimate, a comparison or a repair. It queries no model."""
    from evenhand.reports.views import view_of

    heading = title or TITLES[type(value).__name__]
    return environment().get_template("page.html").render(view=view_of(value), title=heading, version=__version__)


def sections(content: Content) -> dict[str, str]:
    """List the parts of the report, in order: what most readers need, then the appendix."""
    texts, run = content.subject.texts, content.run
    known = {*content.missing}
    parts = {
        "comparisons": "Which words" if texts else "Who gains and who loses",
        "examples": "One text, two decisions" if texts else "One person, two decisions",
        "regions": "" if texts else "Where it happens",
        "size": "How large the differences are" if content.scores is not None or "scores" in known else "",
        "groups": "Group figures" if content.groups is not None or "groups" in known else "",
        "limits": "What this does and does not prove",
        "common": "How common it is" if content.rates else "",
        "quality": "How natural the texts are" if texts and (content.quality or "quality" in known) else "",
        "curve": "How the search went",
        "coverage": "How much of the model was tested" if content.coverage is not None or "coverage" in known else "",
        "run": "How to check this",
    }
    if not run.found:
        if not content.cards:
            parts.pop("examples")
        shown = content.estimates or "common" in known
        if texts:
            shown = _by_term(content.estimates.get("data"))["shown"]
        if not shown:
            parts.pop("comparisons")
    return {name: heading for name, heading in parts.items() if heading}


def _gains(content: Content, page: Content, counted: Counted) -> charts.Gains | None:
    """Choose who gains and who loses."""
    from markupsafe import Markup

    population = "data" if "data" in content.estimates else "uniform"
    if population not in content.estimates or not content.estimates[population].found:
        return None
    made = charts.gains(page.estimates[population], wording.ahead(content.subject, counted))
    maps = [replace(one, chart=Markup(one.chart)) for one in made.maps]
    return replace(made, chart=Markup(made.chart), maps=maps)


def _where(chart: Map | None) -> charts.Grid | None:
    """Draw the rate over the two attributes that matter most; cells of few people have no rate."""
    from markupsafe import Markup

    if chart is None:
        return None
    cells = [
        [
            None if not cell.people else charts.Cell(cell.rate, cell.people) if cell.people >= FEW
            else charts.Cell(None, "few")
            for cell in line
        ]
        for line in chart.cells
    ]  # fmt: skip
    down, across = list(chart.rows), list(chart.columns)
    label = f"Treated differently, by {chart.down} and {chart.across}"
    return charts.Grid("", down, across, cells, Markup(charts.heat(down, across, cells, label)))


def failed(content: Content) -> str:
    """Describe which parts failed, and why."""
    names = sections(content) | {"terms": "Which words", "common": "How common it is", "map": "Where it happens"}
    parts = list(dict.fromkeys(names.get(name, names.get(name.split()[0], name)) for name in content.failed))
    why = "; ".join(dict.fromkeys(content.failed.values()))
    return f"{len(parts)} {'part' if len(parts) == 1 else 'parts'} could not be made ({', '.join(parts)}): {why}"


def _findings(run: Run) -> Markup:
    """Write how many findings there are, and how many of them were confirmed."""
    parts = [
        say("{}, all confirmed by testing again", count(run.found))
        if run.found and run.confirmed == run.found
        else say("{}, {} confirmed by testing again", count(run.found), count(run.confirmed))
        if run.found
        else count(run.found)
    ]
    if run.unconfirmed:
        why = "{} not tested again" if run.unsteady is None else "{} not confirmed"
        parts.append(say(why, count(run.unconfirmed)))
    if run.refuted:
        parts.append(say("{} more refuted and not shown", count(run.refuted)))
    return say(", ".join(["{}"] * len(parts)), *parts)


def facts(content: Content) -> dict[str, Markup]:
    """List the facts of the run."""
    run, counts = content.run, content.run.counts
    limits = [(key, limit) for key in vars(run.budget) if (limit := getattr(run.budget, key))]
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
        "Model rows": say(
            "{}, and {} more to check the model and to confirm", count(run.rows), count(run.rows_checked)
        ),
        "Seconds": figures.written(run.seconds, "seconds"),
        "Ended": say("because {}", wording.ended(run)),
    }
    if run.row_shares:
        out["Searches"] = figures.linked(sentence_of_shares(run.row_shares))
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
    """Describe the rows or texts of the report, if known."""
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
    """Describe how to repeat the run and the report, and the digests that identify them."""
    run, subject = content.run, content.subject
    place = None if run.directory is None else shlex.quote(str(run.directory))
    identity = run.identity
    who = "the first texts of the data" if subject.texts else "64 fixed individuals of this space"
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
    """Choose the terms to list; none if there are too many decisions for a table."""
    terms = [] if e is None or not e.terms or len(e.terms[0].shares) > DECISIONS else wording.in_order(e.terms)
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
    """Choose the comparisons to list for each population, largest differences first."""
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
                    "population": population,
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
    """Choose the end of the scale for shares: above the largest, and at most 100%."""
    return min(1.0, max(0.01, 1.1 * max(shares, default=0.0)))


def _kind(c: Comparison) -> str:
    if len(c.first) == 1:
        return SINGLE
    return SEVERAL if sum(c.first[name] != c.second[name] for name in c.first) > 1 else WITHIN


def _ends(c: Comparison) -> tuple[float, float]:
    if c.net_low is None or c.net_high is None:
        return c.low, c.high
    return c.net_low, c.net_high
