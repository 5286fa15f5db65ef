"""Imports point one way, and the package stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "evenhand"

LAYERS = [
    {
        "errors",
        "remedies",
        "_version",
        "_format",
        "visible",
        "_validate",
        "budget",
        "stream",
        "clock",
        "heap",
        "limits",
        "bounded",
        "trial",
        "fields",
        "plugins",
    }
    | {"_write", "interrupts"},
    {"space", "text", "criterion", "identity", "memo", "log", "directory", "findings", "text_findings"},
    {"search", "model"},
    {
        "strategies",
        "datasets",
        "asker",
        "slopes",
        "word_slopes",
        "word_masks",
        "word_vectors",
        "most_different",
        "surrogate",
    },
    {"unused", "ledger", "questions", "oracle", "check", "judge", "trail", "starting"},
    {"run", "loading", "retracing", "sources", "text_quality"},
    {"reporting", "demo", "measuring", "repairing", "locating", "shrinking"}
    | {"exporting", "comparing", "evidence", "regression_corpus", "replaying", "rejudging", "covering", "testing"},
    {"config"},
    {"cli", "pytest_plugin", "__init__", "__main__"},
]
"""From the ground up; a module imports from its own layer and those before it."""

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


def layer(name: str) -> int:
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    raise AssertionError(f"say in which layer {name} is")


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
                assert layer(parts[1]) <= layer(unit(path)), f"{path.name} imports {module}"


def test_strategies_know_neither_models_nor_the_oracle() -> None:
    for path in (SOURCE / "strategies").glob("*.py"):
        text = path.read_text()
        assert "evenhand.models" not in text
        assert "evenhand.engine.oracle" not in text


def test_import_is_light() -> None:
    code = f"import evenhand, evenhand.cli.app, sys; print(sorted({HEAVY | {'numpy'}!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
