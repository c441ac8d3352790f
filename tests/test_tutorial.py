"""The cells of the tutorial run one after the other, as in a fresh notebook, but on the smallest runs."""

import json
from pathlib import Path

from tiny import TINY

NOTEBOOK = Path(__file__).parents[1] / "examples" / "tutorial.ipynb"


def test_the_tutorial_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, *others = (cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code")
    names = {}
    exec("".join(first["source"]), names)
    assert names["SMALL"]["steps"] > TINY["steps"]
    names["SMALL"] = TINY
    for cell in others:
        exec("".join(cell["source"]), names)
    assert names["run"].dir.name == "tutorial-run"
    assert len(names["sigma"]) == 2
    assert names["state"].iteration * names["program"].steps_per_iteration >= TINY["steps"]
    assert 0 <= names["score"] < 16  # the square's side, squared
