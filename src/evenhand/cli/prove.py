"""The commands ``evenhand prove`` and ``evenhand check-proof``."""

from __future__ import annotations

from pathlib import Path

import typer

from evenhand._format import capital, seconds
from evenhand.cli.app import FOUND, UNDECIDED
from evenhand.cli.output import console, echo, emit, fill, show_facts
from evenhand.cli.plan import get_model, make_plan
from evenhand.config.file import Config
from evenhand.errors import ConfigError
from evenhand.proofs.checker import check_proof as check
from evenhand.proofs.proof import Proof
from evenhand.proofs.prove import prove as make_proof
from evenhand.spaces.base import table as table_of


def prove(config: Config) -> None:
    """Prove who is treated differently, and report it."""
    call, wanted = config.call, config.prove
    plan = make_plan(config)
    found = make_proof(plan.model, table_of(plan.space), data=plan.data, **wanted.given("seconds", "boxes"))
    if wanted.save is not None:
        found.save(Path(wanted.save))
    if call.json:
        emit(found.to_dict())
    elif not call.quiet:
        show(found)
        if wanted.save is not None:
            echo(f"Wrote {wanted.save}")
    if found.counts.unfair:
        raise typer.Exit(FOUND)
    if found.counts.undecided:
        raise typer.Exit(UNDECIDED)


def show(found: Proof) -> None:
    """Print a proof: a sentence, and the main facts."""
    out = console()
    fill(capital(found.sentence) + ".", out)
    facts = [("status", found.status.value), ("proved by", found.method)]
    if found.data is not None:
        facts.append(("rows of the data", f"{found.data} of {found.data.total:,}"))
    if found.marginals is not None:
        facts.append(("values of the data, independently drawn", str(found.marginals)))
    if found.people is not None:
        facts.append(("people near the rows", found.people.sentence))
    if found.untestable:
        facts.append(("no counterpart", f"{found.untestable:,} individuals"))
    show_facts([*facts, ("model rows", f"{found.rows:,}"), ("seconds", seconds(found.seconds))], out)
    if found.counterexample is not None:
        fill("For example:", out)
        # A row as a series would turn whole numbers into floats.
        pair = found.counterexample.to_dict("records")[0]
        fill(", ".join(f"{name} {value}" for name, value in pair.items()), out, "  ", "    ")


def check_proof(config: Config) -> None:
    """Check a certificate, and print what it proves."""
    if config.model.path is None:
        raise ConfigError("no model", remedy="name the one that the certificate is about: --model FILE")
    found = check(Path(config.call.proof), get_model(config.model.path, config.call))
    if config.call.json:
        emit(found.to_dict())
    elif not config.call.quiet:
        fill(f"{capital(found.sentence)}.", console())
