"""The cells of the tutorial run one after the other, as in a fresh notebook."""

import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[1] / "examples" / "tutorial.ipynb"


def test_the_tutorial_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        exec("".join(cell["source"]), names)
    assert names["run"].dir.name == "tutorial-run"
    assert names["state"].iteration * names["program"].steps_per_iteration >= names["STEPS"]
    assert 0 <= names["score"] < 8  # the square's diagonal
