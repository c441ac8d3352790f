"""Verdicts from known numbers, and an experiment that is interrupted, continued and not repeated."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tiny import TINY
from vgcrl.cli import main
from vgcrl.experiments import EXPERIMENTS
from vgcrl.experiments.experiment import stated_claim
from vgcrl.experiments.paper import paper_rows
from vgcrl.experiments.program_tables import BEHIND
from vgcrl.experiments.projection import draw_spaces
from vgcrl.experiments.result_page import link, read_page
from vgcrl.experiments.spectral import roughness
from vgcrl.experiments.verdicts import AGAINST, FAILS, HOLDS, NOT_SHOWN, NOT_TESTED, WEAKER, judge, tally
from vgcrl.show.report import markdown
from vgcrl.show.tables import with_interval
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

RESULTS = Path(__file__).parents[1] / "results"
NOISE = np.array([-0.1, 0.0, 0.1, 0.05, -0.05])


@pytest.mark.parametrize(
    ("centre", "higher", "verdict"),
    [
        (2.0, True, HOLDS),
        (0.5, True, WEAKER),
        (0.02, True, NOT_SHOWN),
        (-2.0, True, FAILS),
        (-2.0, False, HOLDS),
        (-0.5, False, WEAKER),
        (2.0, False, FAILS),
        (0.02, False, NOT_SHOWN),
    ],
)
def test_verdicts(centre, higher, verdict):
    full = 1.0 if higher else -1.0
    found, mean, ci = judge(centre + NOISE, least=0, full=full, higher=higher)
    assert found == verdict
    assert mean == pytest.approx(centre)
    assert ci[0] < mean < ci[1]


def test_one_run_proves_nothing():
    assert judge([5.0], least=0, full=1) == (NOT_TESTED, 5.0, None)


def test_claims_are_counted_by_verdict():
    assert tally([HOLDS, FAILS, HOLDS, NOT_SHOWN]) == "4 claims: 2 hold, 1 is not shown, 1 does not hold."
    assert tally([AGAINST]) == "1 claim: 1 holds against the paper's table."


def test_roughness_counts_unlike_neighbours():
    halves = np.zeros((10, 10), int)
    halves[:, 5:] = 1
    assert roughness(halves) == pytest.approx(10 / 180)
    assert roughness(np.zeros((4, 4), int)) == 0
    assert roughness(np.indices((6, 6)).sum(axis=0) % 2) == 1


def test_paper_tables_are_complete():
    assert len(paper_rows("pointmass_sn")) == 6
    assert len(paper_rows("discrete")) == 30
    assert len(paper_rows("continuous")) == 96


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_resolves(name, quick):
    for options in EXPERIMENTS[name].runs(quick).values():
        resolved = resolve(options)
        assert resolve(Options.of(resolved)) == resolved
        assert quick or resolved.seeds * len(resolved.settings) >= 3


@pytest.fixture
def small(monkeypatch):
    """The windy experiment with tiny runs, all of two dimensions, so that one program is compiled."""
    original = EXPERIMENTS["windy"].runs

    def runs(quick):
        return {k: options | TINY | {"dims": 2} for k, options in original(quick).items()}

    monkeypatch.setitem(EXPERIMENTS, "windy", EXPERIMENTS["windy"]._replace(runs=runs))
    return runs


def numbers(folder):
    result = json.loads((folder / "result.json").read_text())
    lasts = [p["last"] for p in result["programs"].values()]
    return [c["measured"] for c in result["claims"]], [{**last, "wall": 0} for last in lasts]


@pytest.mark.parametrize("folder", [p.parent for p in sorted(RESULTS.glob("*/result.json"))], ids=lambda p: p.name)
def test_what_a_forge_shows_is_what_was_measured(folder):
    shown = (folder / "README.md").read_text()
    assert shown == markdown(read_page(folder, link))
    assert all((folder / file).is_file() for file in re.findall(r"!\[.*\]\((.*)\)", shown))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_command_trains_what_the_committed_table_holds(name):
    result = json.loads((RESULTS / name / "result.json").read_text())
    assert set(result["programs"]) == set(EXPERIMENTS[name].runs(False))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_page_says_whose_claim_it_is_what_came_of_it_and_of_how_many_steps_and_seeds(name):
    claim, outcome, verdicts = read_page(RESULTS / name).sections[:3]
    assert claim.text == stated_claim(EXPERIMENTS[name], quick=False)
    assert claim.text.startswith(("The paper's claim: ", "Claim: "))
    assert outcome.text == tally([row[1] for row in verdicts.table.rows])
    (table,) = (section.table for section in read_page(RESULTS / name).sections if section.title == BEHIND)
    assert len(table.rows) == len(EXPERIMENTS[name].runs(False))
    assert "steps" in table.columns
    assert any("seeds" in column for column in table.columns)


def test_reproduce_continues_and_does_not_repeat(small, tmp_path, capsys):
    assert main(["reproduce", "windy", "--quick", "--out", str(tmp_path / "one")]) == 0
    folder = tmp_path / "one" / "windy-quick"
    said = capsys.readouterr()
    assert "report:" in said.out
    result = json.loads((folder / "result.json").read_text())
    assert result["command"] == "vgcrl reproduce windy --quick"
    assert {"hardware", "versions", "claims", "programs"} <= result.keys()
    assert {c["verdict"] for c in result["claims"]} <= {HOLDS, WEAKER, NOT_SHOWN, FAILS}
    page = (folder / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 2
    for shown in (said.err, page):
        assert "the whole experiment, which has 8 runs of 640 steps. The paper" in shown
    for claim in result["claims"]:
        measured = with_interval(claim["measured"], claim["ci95"])
        assert f"{claim['sentence']}: {measured} (paper: " in said.err
        assert "±" in measured
    assert all(c["sentence"].split(" (")[0] in page.replace("&#39;", "'") for c in result["claims"])

    shown = (folder / "README.md").read_text()
    assert re.findall(r"!\[.*\]\((.*)\)", shown) == ["learned-sigma.png", "error-over-training.png"]
    assert all(f"| {c['sentence']} | {c['verdict']} |" in shown for c in result["claims"])

    files = list((folder / "runs").rglob("state.safetensors"))
    before = [p.stat().st_mtime_ns for p in files]
    assert main(["reproduce", "windy", "--quick", "--out", str(tmp_path / "one")]) == 0
    assert capsys.readouterr().err.count("done before") == 2
    assert [p.stat().st_mtime_ns for p in files] == before

    # As an interruption leaves it: the first program half done, the second not begun.
    other = tmp_path / "two" / "windy-quick" / "runs" / "2d"
    other.parent.mkdir(parents=True)
    shutil.copytree(folder / "runs" / "2d", other)
    shutil.rmtree(other / "checkpoints" / "000000000640")
    for out, states in (("one", ["done", "done"]), ("two", ["begun", "to do"])):
        assert main(["reproduce", "windy", "--quick", "--dry-run", "--out", str(tmp_path / out)]) == 0
        rows = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()[2:]]
        assert rows == [[name, "4", "640", state] for name, state in zip(("2d", "10d"), states, strict=True)]
    assert main(["reproduce", "windy", "--quick", "--out", str(tmp_path / "two")]) == 0
    said = capsys.readouterr().err
    assert "2d: continues" in said
    assert "10d: starts" in said
    assert numbers(tmp_path / "two" / "windy-quick") == numbers(folder)


def test_report_of_an_experiment_and_a_bad_name(small, tmp_path, capsys):
    assert main(["reproduce", "wind", "--out", str(tmp_path)]) == 2
    assert "did you mean windy" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_dry_run_of_all_is_the_plan_of_each(tmp_path, capsys):
    assert main(["reproduce", "all", "--quick", "--dry-run", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for name, experiment in EXPERIMENTS.items():
        programs, (_, plan) = experiment.runs(True), said.split(f"{name}: {stated_claim(experiment, quick=True)}\n")
        assert [line.split()[0] for line in plan.splitlines()[1 : 1 + len(programs)]] == list(programs)
    assert not list(tmp_path.iterdir())


def test_every_mark_of_the_spaces_is_in_the_legend():
    w = np.array([[2.0, 0.5], [0.0, 1.0], [1.0, 1.0]])
    figure = draw_spaces(np.linalg.pinv(w), w, np.array([[0.5, 0.5], [-0.5, 0.0]]), np.ones((4, 2, 3)))
    (legend,) = figure.legends
    named = {text.get_text() for text in legend.get_texts()}
    assert named == {"episode 1", "goal of episode 1", "episode 2", "goal of episode 2", "start", "prior of goals"}
    assert [axis.get_xlabel() for axis in figure.axes] == ["s1", "o1", "z1"]
