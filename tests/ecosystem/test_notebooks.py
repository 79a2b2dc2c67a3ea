"""Every notebook runs from its first cell to its last, as somebody who opens it would see."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
# what a kernel does with a cell's last line
SHOW = "import pandas as _p\n_p.set_option('display.width', 200)\n"


def program(notebook: Path) -> str:
    """All code cells as one script; a cell that ends in an expression prints it."""
    cells = json.loads(notebook.read_text())["cells"]
    parts = [SHOW]
    for number, cell in enumerate(c for c in cells if c["cell_type"] == "code"):
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        if isinstance(tree.body[-1], ast.Expr):
            last = ast.Call(ast.Name("print", ast.Load()), [tree.body[-1].value], [])
            tree.body[-1] = ast.Expr(last)
        parts.append(ast.unparse(ast.fix_missing_locations(tree)))
    return "\n".join(parts)


def test_there_are_three_and_none_holds_an_old_output() -> None:
    assert [n.stem for n in NOTEBOOKS] == ["own_loss", "study", "train_and_look"]
    for notebook in NOTEBOOKS:
        content = json.loads(notebook.read_text())
        assert content["nbformat"] == 4
        assert not any(cell.get("outputs") for cell in content["cells"])


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda n: n.stem)
def test_it_runs(notebook: Path, tmp_path: Path) -> None:
    for run in ("runs/looking", "runs/quiet", "study/plain_0"):  # as if it had run before
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "run.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-c", program(notebook)],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    words = {
        "own_loss": "with the loss",
        "study": "4 runs 8 games",
        "train_and_look": "green_lines",
    }
    assert words[notebook.stem] in done.stdout
