"""Errors are data: a parameter, its value, the problem and the remedy, which each front end writes in its own way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from evenhand import errors
from evenhand.config.file import error_text
from evenhand.errors import GAP, UNSET, EvenhandError, FlakyModel, LimitExceeded, MissingExtra

OWN = {FlakyModel: ("noisy", 0.5), LimitExceeded: ("too large", "rows", "9", 8), MissingExtra: ("torch", "torch", "it")}
"""The arguments of classes with fields of their own."""
SOURCE = Path(errors.__file__).parent
CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EvenhandError)]


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind not in OWN])
def test_an_error_renders_its_fields(kind):
    error = kind("must be small", parameter="gamma", value=[1, 2], remedy=("use ", GAP))
    assert (error.parameter, error.value, error.uses) == ("gamma", [1, 2], [GAP])
    assert str(error) == "gamma must be small, got [1, 2]; use criterion=eh.Gap(0.1)"
    assert error.reason == "gamma must be small, got [1, 2]"
    assert error_text(error, "flag", "--gamma") == "--gamma must be small, got [1, 2]; use --gamma 0.1"
    assert (
        error_text(error, "file", "criterion") == "criterion must be small, got [1, 2]; use criterion = 0.1 in [audit]"
    )


@pytest.mark.parametrize("kind", OWN)
def test_an_error_with_fields_of_its_own_has_no_parameter(kind):
    error = kind(*OWN[kind])
    assert error.parameter is None
    assert str(error).startswith(error.reason)
    assert str(error) == "; ".join(filter(None, (error.reason, error.remedy)))


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind not in OWN])
def test_missing_fields_leave_no_trace(kind):
    assert str(kind("the file is empty")) == "the file is empty"
    assert kind("the file is empty").value is UNSET
    assert str(kind("must be given", parameter="data")) == "data must be given"
    assert str(kind("is empty", remedy="give rows")) == "is empty; give rows"


def test_values_are_shortened_and_harmless():
    error = EvenhandError("must be short", parameter="name", value="\x1b[31m" + "a" * 500)
    assert len(str(error)) < 120
    assert "\x1b" not in str(error)


INNER = {"cli/probe.py", "models/formats.py", "models/programs.py", "models/protocols.py"}
"""Files whose errors become part of others, which have the remedy: why a reply, or a file, cannot be used."""
RENDERED = "ConfigError(text)"
"""An error whose text is complete, written for the configuration file."""


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_error_names_a_parameter_a_value_or_a_remedy(path):
    names = {kind.__name__ for kind in CLASSES if kind not in OWN}
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] not in names:
            continue
        given = {keyword.arg for keyword in node.keywords} & {"parameter", "value", "remedy", None}
        exempt = str(path.relative_to(SOURCE)) in INNER or ast.unparse(node) == RENDERED
        assert given or exempt, f"{path.name}:{node.lineno}: {ast.unparse(node)[:80]}"
