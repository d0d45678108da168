"""Folders are stages of the pipeline or layers, and imports only point to the left."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.paths import ROOT

#: Every layer, in the order of the pipeline. A layer may import itself and those of lines above its own; layers of one
#: line do not know each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("dissector.errors", "dissector.array_types", "dissector.extras"),
    ("dissector.arrow",),
    ("dissector.terminal", "dissector.spec"),
    ("dissector.capture",),
    ("dissector.link",),
    ("dissector.codec",),
    ("dissector.pseudonyms",),
    ("dissector.tcp",),
    ("dissector.options",),
    ("dissector.frames",),
    ("dissector.filters", "dissector.summary"),
    ("dissector.display", "dissector.explain", "dissector.generate"),
    ("dissector.codegen",),
    ("analysis.context",),
    ("analysis.rules",),
    ("analysis.check",),
    ("analysis.stats",),
    ("analysis.annotate", "analysis.slice", "analysis.plots", "analysis.spark"),
    ("analysis.archive",),
    ("analysis.report", "analysis.codegen"),
    ("uprscope",),
)
RANK = {layer: rank for rank, line in enumerate(LAYERS) for layer in line}
PACKAGES = ("dissector", "analysis", "uprscope")


@cache
def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def layer_of(module: str) -> str | None:
    """Return the layer of a module; None for the packages themselves, which hold nothing but a version."""
    names = module.split(".")
    return next((name for name in (".".join(names[:2]), names[0]) if name in RANK), None)


def imported(module: str) -> set[str]:
    """Return the modules of this project that a module imports, wherever the import stands."""
    found = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            base = node.module or ""
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules() else base for alias in node.names}
    return {name for name in found if name.split(".")[0] in PACKAGES}


def test_every_module_has_a_layer() -> None:
    strangers = [name for name in modules() if layer_of(name) is None and name not in PACKAGES]
    assert not strangers
    assert {layer_of(name) for name in modules()} - {None} == set(RANK)


@pytest.mark.parametrize("layer", RANK)
def test_imports_point_to_the_left(layer: str) -> None:
    wrong = [
        f"{module} imports {name}"
        for module in modules()
        if layer_of(module) == layer
        for name in imported(module)
        if (there := layer_of(name)) is not None and there != layer and RANK[there] >= RANK[layer]
    ]
    assert not wrong


def test_no_module_names_one_to_its_right_in_a_string() -> None:
    """A table of modules that are loaded by name must not hide an import that could not stand in the code."""
    wrong = []
    for module in modules():
        layer = layer_of(module)
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
                there = layer_of(node.value) if node.value in modules() else None
                if layer and there and there != layer and RANK[there] >= RANK[layer]:
                    wrong.append(f"{module} names {node.value}")
    assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_a_class_name_has_one_meaning(package: str) -> None:
    """No two classes of one package tree share a name, private or not; the layers generated for scapy are left out."""
    places = defaultdict(list)
    for module in modules():
        if module.split(".")[0] == package and module != "dissector.generate.scapy_layers":
            for node in ast.walk(tree(module)):
                if isinstance(node, ast.ClassDef):
                    places[node.name.lstrip("_")].append(module)
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_all_kinds_of_imports_are_seen() -> None:
    """The checks above see imports inside functions, below TYPE_CHECKING and of whole modules."""
    assert "dissector.frames.sources" in imported("uprscope.cli.dissect")
    assert any(layer_of(name) == "dissector.link" for name in imported("dissector.tcp.connections"))
    assert all(RANK[a[0]] < RANK[b[0]] for a, b in pairwise(LAYERS))
