"""Imports point one way, the package stays light, and functions stay short."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "evenhand"
SOURCES = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}

BASE = "_format _intervals _rng errors _interrupts _files _validate _sandbox plugins budget criteria"
ORDER = [
    *BASE.split(),
    *("spaces", "_keyset", "search", "models", "strategies", "engine", "runs"),
    *("estimates", "explanations", "proofs", "repairs", "reports", "datasets", "demo"),
    *("regression_corpus", "testing", "results"),
    *("config", "service", "cli", "pytest_plugin", "__init__", "__main__"),
]
"""From the ground up: a package imports only from those before it."""

HEAVY = {
    "pandas",
    "sklearn",
    "scipy",
    "matplotlib",
    "rich",
    "jinja2",
    "onnxruntime",
    "polars",
    "torch",
    "pydantic",
    "fastapi",
    "sqlalchemy",
    "z3",
    "fairlearn",
}


def unit(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    lazy: set[ast.AST] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            lazy |= set(ast.walk(node))
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module and node not in lazy:
            names = [f"evenhand.{name.name}" for name in node.names if name.name != "__version__"]
            modules = [node.module] if node.module != "evenhand" else names
        for module in modules:
            parts = module.split(".")
            if parts[0] == "evenhand" and len(parts) > 1:
                assert ORDER.index(parts[1]) <= ORDER.index(unit(path)), f"{path.name} imports {module}"


def test_strategies_know_neither_models_nor_the_oracle() -> None:
    for path in (SOURCE / "strategies").glob("*.py"):
        text = path.read_text()
        assert "evenhand.models" not in text
        assert "evenhand.engine.oracle" not in text


def test_import_is_light() -> None:
    code = f"import evenhand, evenhand.cli.app, sys; print(sorted({HEAVY | {'numpy'}!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_alone_imports_only_what_errors_and_late_names_need() -> None:
    code = "import evenhand, sys; print(sorted({'dataclasses', 'decimal', 'inspect', 'pathlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=SOURCES)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_functions_are_short_and_take_few_arguments(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0]
        words = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
        assert node.end_lineno - node.lineno + 1 - words <= 60, f"{path.name}: {node.name} is too long"
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        given = [one for one in given if one.arg not in ("self", "cls")]
        assert len(given) <= 12, f"{path.name}: {node.name} has too many parameters"


def test_few_places_ask_for_the_kind_of_space() -> None:
    kinds = {"Space", "TextSpace", "BoundTextSpace", "AnySpace", "BoundSpace"}
    places = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if unit(path) != "spaces"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        if kinds & {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    ]
    assert len(places) <= 8, places
