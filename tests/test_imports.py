"""Imports point one way, and the package stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "evenhand"

BASE = (
    "_version _format _stats _interrupts _malloc _rng _write errors _files _validate _sandbox plugins budget criteria"
)
ORDER = [
    *BASE.split(),
    *("spaces", "_keyset", "search", "models", "strategies", "engine", "runs"),
    *("estimates", "explanations", "repairs", "reports", "datasets", "demo", "regression_corpus", "testing", "results"),
    *("config", "cli", "pytest_plugin", "__init__", "__main__"),
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
            modules = [node.module] if node.module != "evenhand" else [f"evenhand.{a.name}" for a in node.names]
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
