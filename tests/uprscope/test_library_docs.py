"""What docs/library.md and docs/notebook.ipynb show is what the library does: every block and cell is run.

``pytest tests/uprscope/test_library_docs.py --update-cases`` writes what they print now into both.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "library.md"
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
_BLOCK = re.compile(r"```python\n(.*?)```\n(\n```text\n(.*?)```\n)?", re.DOTALL)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder where the captures are reachable as the examples name them."""
    (tmp_path / "captures").symlink_to(ROOT / "captures")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")


def printed(source: str, namespace: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, str(PAGE), "exec"), namespace)  # noqa: S102 - our own
    return out.getvalue()


def test_the_page(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text()
    namespace: dict[str, Any] = {}
    found = 0

    def run(match: re.Match[str]) -> str:
        nonlocal found
        found += 1
        shown = printed(match[1], namespace)
        assert bool(shown) == bool(match[2]), match[1]
        return f"```python\n{match[1]}```\n" + (f"\n```text\n{shown}```\n" if shown else "")

    fresh = _BLOCK.sub(run, text)
    assert found >= 12
    if request.config.getoption("--update-cases"):
        PAGE.write_text(fresh)
        return
    assert fresh == text


def run_cell(source: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell as Jupyter does: what it prints, then its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), namespace)  # noqa: S102 - our own
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if out.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": out.getvalue().splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        page = getattr(value, "_repr_html_", lambda: None)()
        if page is not None:
            data["text/html"] = page.splitlines(keepends=True)
        if type(value).__name__ == "Figure":
            picture = io.BytesIO()
            value.savefig(picture, format="png", dpi=80, metadata={"Software": None})
            data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": data["text/plain"]}
        outputs.append({"data": data, "metadata": {}, "output_type": "execute_result"})
    return outputs


def texts(outputs: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return what can be compared: text of every kind, and that there is a picture, whose bytes depend on fonts."""
    found = []
    for output in outputs:
        if output["output_type"] == "stream":
            found.append(("stdout", output["text"]))
        else:
            for kind, lines in sorted(output["data"].items()):
                found.append((kind, [] if kind == "image/png" else lines))
    return found


def test_the_notebook(request: pytest.FixtureRequest) -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 7
    for count, cell in enumerate(cells, 1):
        try:
            outputs = run_cell("".join(cell["source"]), namespace)
        except Exception:  # noqa: BLE001 - the cell's own traceback says more than ours
            pytest.fail(f"cell {count}:\n{traceback.format_exc()}")
        for output in outputs:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count
        if request.config.getoption("--update-cases"):
            cell["outputs"], cell["execution_count"] = outputs, count
            continue
        assert cell["execution_count"] == count
        assert texts(cell["outputs"]) == texts(outputs), f"cell {count}"
    if request.config.getoption("--update-cases"):
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def test_everything_public_is_shown() -> None:
    import uprscope

    page = PAGE.read_text()
    functions = [name for name in uprscope.__all__ if name[0].islower() and not name.startswith("_")]
    assert {"frames", "connections", "streams", "stats", "check", "check_frames", "explain", "decode"} == set(functions)
    for name in functions:
        assert f"uprscope.{name}(" in page, name
