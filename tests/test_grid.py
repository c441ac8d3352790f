"""The paper's large tables: every row has its run, marks and verdicts from known numbers, and cells that outlive runs.

The point mass stands in for the bodies.
"""

import dataclasses
import json
import math
import shutil
import signal
from collections import Counter
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from shared import made_once
from tiny import TINY
from vgcrl.cli import main, parse
from vgcrl.envs import Broken
from vgcrl.errors import UsageError
from vgcrl.experiments import (
    EXPERIMENTS,
    cells,
    comparison,
    continuous,
    discrete,
    grid,
    marks,
    movement,
    paired_claims,
    planning,
    program_tables,
)
from vgcrl.experiments.entries import entries
from vgcrl.experiments.marks import BETTER, EQUAL, NOT_RUN, UNJUDGED, WORSE, mark
from vgcrl.experiments.paired_claims import PairedClaim
from vgcrl.experiments.paper import paper_rows
from vgcrl.experiments.request import Request
from vgcrl.experiments.verdicts import AGAINST, FAILS, HOLDS, NOT_TESTED
from vgcrl.training import logs, loop, run_folder, summary
from vgcrl.training.logs import to_json
from vgcrl.training.resolve import resolve

pytestmark = pytest.mark.usefixtures("unrendered")

RESULTS = Path(__file__).parents[1] / "results"
QUICK = Request(quick=True)
GRIDS = {"discrete": discrete.GRID, "continuous": continuous.GRID}


def key(row):
    return row["env"], int(row["goal_dim"]), row["posterior"], int(row["p_her"]), int(row["sn"])


@pytest.mark.parametrize("name", GRIDS)
def test_every_published_row_is_one_setting_of_one_program(name):
    """Read off the configurations, without the rows that the programs carry."""
    which, found = GRIDS[name], []
    names = {ours: papers for papers, ours in which.posteriors.items()}
    jobs = [job for job in grid.jobs(which, Request()) if "aside" not in job.rows[0]]
    assert len({job.name for job in jobs}) == len(jobs)
    for job in jobs:
        config = resolve(job.options)
        assert config.steps == 10_000_000
        assert config.seeds == 3
        assert (config.envs, config.updates_per_step) == (512, 0.0625)
        run = [
            (
                config.env,
                config.goal_dim,
                names[config.posterior],
                int(s["relabel_fraction"] > 0),
                int(s["spectral_norm"] > 0),
            )
            for s in config.settings
        ]
        assert run == [key(row) for row in job.rows]
        found += run
    assert Counter(found) == Counter(key(row) for row in paper_rows(name))
    assert set(Counter(found).values()) == {1}


@pytest.mark.parametrize("asked", [{}, {"envs": 128, "steps": 5_000_000, "looks": 10}, {"seeds": 5, "quick": True}])
def test_a_program_alone_is_as_among_all(asked):
    """Where another process makes it, by a command of its own."""
    ask = Request(**asked)
    for job in grid.jobs(discrete.GRID, ask):
        alone = grid.alone(job, ask)._replace(program=job.name)
        (same,) = grid.select(grid.jobs(discrete.GRID, alone), alone)
        assert same.options == job.options, job.name


def test_policies_of_programs_trained_together_are_not_removed(tmp_path):
    """Before they are examined their folder has no configuration."""
    job = next(iter(grid.jobs(discrete.GRID, QUICK)))
    policy = grid.run_path(tmp_path, job) / "looks" / "100" / "policy.safetensors"
    policy.parent.mkdir(parents=True)
    policy.touch()
    with pytest.raises(UsageError, match="holds other files"):
        grid.make(job, tmp_path, cells.QUICK_EVALUATION, print)
    assert policy.exists()


def test_early_training_has_one_environment_and_all_techniques():
    (job,) = (job for job in grid.jobs(discrete.GRID, Request()) if "one-environment" in job.name)
    config = resolve(job.options)
    assert (config.envs, config.updates_per_step, config.goal_dim, config.steps) == (1, 1.0, 200, 100_000)
    assert [(s["relabel_fraction"], s["spectral_norm"]) for s in config.settings] == [
        (0, 0),
        (0.5, 0),
        (0, 2),
        (0.5, 2),
    ]
    (short,) = (job for job in grid.jobs(discrete.GRID, Request(steps=1000)) if "one-environment" in job.name)
    assert resolve(short.options).steps == 1000


def test_skills_that_move_differ_from_the_table_in_what_q_sees_only():
    """And in how long they are trained, unless that is asked for."""
    sizes, configs = {"steps": 1000, "envs": 8, "updates_per_step": 1.0}, []
    for name in ("HalfCheetah-G10", "HalfCheetah-G10-velocity"):
        ask = Request(program=name, **sizes)
        (job,) = grid.select(grid.jobs(discrete.GRID, ask), ask)
        configs.append(dataclasses.asdict(resolve(job.options)))
    one, other = configs
    assert {k: v for k, v in other.items() if v != one[k]} == {"features": "velocity"}


def test_a_program_beside_the_table_has_an_update_per_step_and_the_papers_numbers():
    (job,) = (job for job in grid.jobs(discrete.GRID, Request()) if "update-per-step" in job.name)
    config = resolve(job.options)
    assert (config.envs, config.updates_per_step, config.steps, config.seeds) == (64, 1.0, 10_000_000, 3)
    table = {key(row): row for row in paper_rows("discrete")}
    assert [row["LGR_v"] for row in job.rows] == [table[key(row)]["LGR_v"] for row in job.rows] == ["0.673", "0.704"]


@pytest.mark.parametrize("name", GRIDS)
def test_quick_is_one_body_and_two_sizes(name):
    rows = grid.published(GRIDS[name], quick=True)
    assert {row["env"] for row in rows} == {"HalfCheetah"}
    assert {int(row["goal_dim"]) for row in rows} == ({10, 20} if name == "discrete" else {2, 5})


# [1, 2, 3]: mean 2, half of the interval 4.303 / sqrt(3) = 2.484
@pytest.mark.parametrize(
    ("values", "paper", "higher", "expected"),
    [
        ([1, 2, 3], 4.4, True, EQUAL),
        ([1, 2, 3], -0.4, False, EQUAL),
        ([1, 2, 3], 4.5, True, WORSE),
        ([1, 2, 3], 4.5, False, BETTER),
        ([1, 2, 3], -0.5, True, BETTER),
        ([1, 2, 3], -0.5, False, WORSE),
        ([2, 2, 2], 2.0, True, EQUAL),
        ([2], 1.0, True, UNJUDGED),
        ([1, 2, 3], None, True, UNJUDGED),
        ([], 1.0, True, NOT_RUN),
        ([1, 2, np.nan], 2.0, True, WORSE),
    ],
)
def test_marks(values, paper, higher, expected):
    assert mark(np.array(values), paper, higher) == expected


def test_seeds_that_agree_within_an_episode_tell_nothing():
    """147 of 150 against 150 of 150."""
    gain = 1.0 - np.full(3, 0.97999996)  # as a mean of float32 comes out
    assert mark(gain, 0.0, True) == BETTER
    assert mark(gain, 0.0, True, finest=1 / 50) == EQUAL
    assert mark(2 * gain, 0.0, True, finest=1 / 50) == BETTER


def row(env="Ant", size=200, posterior="categorical", p_her=0, sn=0, **numbers):
    published = {"F": "1.0", "LGR_z": "0.5", "LGR_s": "100", "LGR_v": "0.5"} | numbers
    return {"env": env, "goal_dim": str(size), "posterior": posterior, "p_her": str(p_her), "sn": str(sn), **published}


@cache
def first_job():
    """Options and the configuration that they come to, as a file has it."""
    options = grid.jobs(discrete.GRID, Request())[0].options
    return options, resolve(options).to_json()


def fake(rows, **final):
    """A job and its cell: metric -> (setting, seed)."""
    options, config = first_job()
    job = cells.Job("fake", tuple(rows), options)
    final = {"F": 1.0, "lgr_s": 100.0, "lgr_v": 0.5, "spread_v": 0.1, "spread_x": 5.0, "lgr_z": 0.5} | final
    final = {k: np.broadcast_to(v, (len(rows), 3)).tolist() for k, v in final.items()}
    final = json.loads(logs.to_json(final))  # as in a file: null is what is no number
    cell = {
        "program": "fake",
        "config": json.loads(config) | {"engine": "mujoco"},
        "settings": job.settings,
        "seeds": [0, 1, 2],
        "steps": 1000,
        "runs": 3 * len(rows),
        "envs": 4,
        "updates_per_step": 0.5,
        "episodes": 8,
        "targets": {"count": 42, "still_lgr_v": 1.5, "spread_v": 1.2},
        "final": final,
        "curves": {"step": [0, 1000], **{k: [v, v] for k, v in final.items()}},
        "strips": {},
        "wall_seconds": 60.0,
        "minutes_per_row": 0.5,
        "hardware": "a machine",
        "versions": {"vgcrl": "0"},
    }
    cells.check(job, cell)
    return job, cell


DAMAGES = {
    "a number for a record": lambda cell: cell.update(config=3),
    "no engine": lambda cell: cell["config"].pop("engine"),
    "no steps": lambda cell: cell["config"].pop("steps"),
    "a negative number": lambda cell: cell.update(steps=-1),
    "a word for a number": lambda cell: cell.update(envs="x"),
    "no number": lambda cell: cell.update(wall_seconds=float("inf")),
    "targets not counted": lambda cell: cell["targets"].pop("count"),
    "targets without speed": lambda cell: cell["targets"].pop("spread_v"),
    "no metric": lambda cell: cell["final"].pop("F"),
    "a word among numbers": lambda cell: cell["final"].update(F=[["x"] * 3]),
    "too few seeds": lambda cell: cell["final"].update(F=[[1.0]]),
    "a short curve": lambda cell: cell["curves"].update(step=[0]),
    "no curve": lambda cell: cell["curves"].update(F=None),
    "a filmstrip of no run": lambda cell: cell.update(strips={"best": [9, 9]}),
    "a filmstrip elsewhere": lambda cell: cell.update(strips={"../../x": [0, 0]}),
    "versions in numbers": lambda cell: cell.update(versions={"jax": 1}),
    "that of another program": lambda cell: cell.update(program="Ant-G10"),
    "no program": lambda cell: cell.pop("program"),
    "another environment": lambda cell: cell["config"].update(env="Ant"),
    "another number of skills": lambda cell: cell["config"].update(goal_dim=7),
    "no number for an option": lambda cell: cell["config"].update(updates_per_step="a"),
    "no value of an option": lambda cell: cell["config"].update(engine=None),
    "too large for a square": lambda cell: cell["final"]["F"][0].__setitem__(0, 1e200),
    "too large for a number": lambda cell: cell["final"]["lgr_z"][0].__setitem__(0, 10**400),
    "not a number": lambda cell: cell["final"]["F"][0].__setitem__(0, math.nan),
    "a seed twice": lambda cell: cell.update(seeds=[1, 1, 1]),
    "0 steps": lambda cell: cell.update(steps=0),
    "seeds in words": lambda cell: cell.update(seeds=["a", "b", "c"]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cell_is_told_in_one_line(damage, tmp_path):
    job, cell = fake([row()])
    path = cells.cell_path(tmp_path, job)
    cells.write(tmp_path, job, cell, {})
    assert cells.read(tmp_path, job) == cell
    DAMAGES[damage](cell)
    path.write_text(json.dumps(cell))
    with pytest.raises(UsageError, match="is not a program's file"):
        cells.read(tmp_path, job)


def test_a_run_that_diverged_has_its_filmstrip():
    job, cell = fake([row()], lgr_v=0.5)
    cell["strips"], cell["final"]["lgr_v"] = {"best": [0, 1]}, [[None] * 3]
    (title,) = grid.pictures({"fake": cell}, [job])
    assert title == "Skills of fake: best run by LGR_v, – (plain, seed 1)"


P_HER = PairedClaim("P-HER helps", ("p_her",), lambda row: True)


def verdict(higher, without, with_, papers=(0.2, 0.6)):
    job, cell = fake([row(p_her=i, LGR_z=str(papers[i])) for i in (0, 1)], lgr_z=[without, with_])
    return paired_claims.verdict(P_HER, entries([job], {"fake": cell}), higher)


def test_verdicts_are_of_paired_seeds():
    spread = np.array([0.0, 0.4, 0.2])  # far more than the gain, and the same with and without
    claim = verdict(True, spread, spread + [0.29, 0.3, 0.31])
    assert claim.verdict == HOLDS
    assert claim.measured == pytest.approx(0.3)
    assert claim.paper == "+0.400"
    assert verdict(True, spread, spread - 0.3).verdict == FAILS
    assert verdict(False, spread, spread - 0.3, papers=(0.6, 0.2)).verdict == HOLDS


@pytest.mark.parametrize(("higher", "gain"), [(True, 0.3), (False, -0.3)])
def test_what_the_papers_own_numbers_contradict_is_marked(higher, gain):
    spread, papers = np.array([0.0, 0.4, 0.2]), (0.5, 0.5 - gain)
    claim = verdict(higher, spread, spread + gain, papers)
    assert (claim.verdict, claim.paper) == (AGAINST, f"{-gain:+.3f}")
    assert verdict(higher, spread, spread - gain, papers).verdict == FAILS


def test_what_a_technique_changes_is_told_pair_by_pair():
    rows = [row(p_her=i, LGR_z=z, F=f) for i, z, f in ((0, "0.2", "1.0"), (1, "0.6", "0.5"))]
    spread = np.array([0.0, 0.4, 0.2])
    job, cell = fake(rows, lgr_z=[spread, spread + [0.29, 0.3, 0.31]], F=[spread, spread - [0.9, 0.0, 0.1]])
    other = job._replace(name="other")  # not run
    table = paired_claims.changes("p_her", entries([job, other], {"fake": cell}), True)
    assert table.rows == [["fake, plain", "0.300 ± 0.025 ▲", "0.400", "-0.333 ± 1.225 =", "-0.500"]]
    assert not paired_claims.changes("sn", entries([job], {"fake": cell}), True).rows


@pytest.mark.parametrize(("failed", "sign"), [(0, ""), (1, " ▼")])
def test_a_baseline_that_came_to_nothing_says_nothing_of_the_technique(failed, sign):
    scores = [[0.1, 0.2, 0.3], [0.9, 0.9, 0.9]]
    scores[failed][0] = np.nan
    job, cell = fake([row(p_her=i) for i in (0, 1)], lgr_z=scores)
    assert paired_claims.changes("p_her", entries([job], {"fake": cell}), True).rows[0][1] == f"nan ± nan{sign}"


def test_a_claim_of_two_techniques_compares_both_with_neither():
    scores = {(0, 0): 0.1, (1, 0): 0.2, (0, 1): 0.4, (1, 1): 0.8}
    rows = [row(p_her=p_her, sn=sn, LGR_z=str(2 * z)) for (p_her, sn), z in scores.items()]
    job, cell = fake(rows, lgr_z=[[z] for z in scores.values()])
    both = PairedClaim("P-HER and SN help", ("p_her", "sn"), lambda row: True)
    claim = paired_claims.verdict(both, entries([job], {"fake": cell}), True)
    assert claim.measured == pytest.approx(0.7)
    assert claim.paper == "+1.400"


def test_a_claim_without_its_cells_is_not_tested():
    job, cell = fake([row(p_her=i) for i in (0, 1)])
    other = job._replace(name="other")
    claim = paired_claims.verdict(P_HER, entries([job, other], {"fake": cell}), True)
    assert claim.verdict == NOT_TESTED
    assert claim.measured is None
    assert "1 of 2 pairs" in claim.sentence


def test_missing_rows_are_shown_and_counted():
    """Better, equal and worse by LGR_v; and a program that has not been run."""
    rows = [row(LGR_v="0.9"), row(p_her=1, LGR_v="0.5")]
    job, cell = fake(rows, lgr_v=[[0.5, 0.51, 0.52], [0.4, 0.5, 0.6]], lgr_z=0.95)
    other = job._replace(name="other", rows=(row(size=1000),))
    outcome = comparison.compare([job, other], {"fake": cell}, (P_HER,), True)
    assert ["LGR_v", "1", "1", "0", "0", "1"] in outcome.tables["Rows against the paper"].rows
    assert ["LGR(s)", "0", "0", "0", "2", "1"] in outcome.tables["Rows against the paper"].rows, (
        "its targets are not known"
    )
    (table,) = (t for title, t in outcome.tables.items() if title.startswith("Ant beside"))
    assert [r[table.columns.index("LGR_v")].split()[-1] for r in table.rows] == ["▲", "=", "–"]
    assert [r[-1] for r in table.rows] == ["1,000 × 3", "1,000 × 3", NOT_RUN]
    assert [r[2] for r in outcome.tables["What stands behind each program"].rows] == ["1,000", NOT_RUN]
    assert "2 of 3 rows: 1 better, 1 equal, 0 worse; 1 not run" in outcome.finding
    assert {"Beside the paper", "Learning curves, Ant"} == set(outcome.figures)


@pytest.mark.parametrize("higher", [True, False])
def test_the_note_on_signs_is_the_rule_for_them(higher):
    """One episode counts where LGR(z) is a share of goals."""
    job, cell = fake([row(p_her=i) for i in (0, 1)])
    outcome = comparison.compare([job], {"fake": cell}, (P_HER,), higher)
    noted = [title for title in outcome.tables if ": ▲" in title]
    assert len(noted) == 2
    assert all(("one episode of 8" in title) == higher for title in noted)


def test_figures_say_what_is_drawn():
    """Of the axes, of the band and why curves do not end at the tables; no legend is over the points."""
    job, cell = fake([row()])
    cell["config"] = cell["config"] | {"evaluate_episodes": 4}
    figures = comparison.compare([job], {"fake": cell}, (), True).figures
    curves = figures["Learning curves, Ant"]
    assert curves.get_supxlabel() == "environment steps"
    assert "lowest seed to the highest" in curves.get_suptitle()
    assert "of 4 episodes" in curves.get_suptitle()
    assert "of 8 episodes" in curves.get_suptitle()
    assert all(axis.get_legend() is None for figure in figures.values() for axis in figure.axes)
    assert all(len(figure.legends) == 1 for figure in figures.values())


def test_a_row_trained_again_beside_the_table_is_judged_but_not_counted():
    job, cell = fake([row()], lgr_v=0.1)
    again, better = fake([row() | {"aside": "Again"}], lgr_v=0.1)
    again = again._replace(name="again")
    outcome = comparison.compare([job, again], {"fake": cell, "again": better}, (), True)
    assert ["LGR_v", "1", "0", "0", "0", "0"] in outcome.tables["Rows against the paper"].rows
    table = outcome.tables["Again (again)"]
    column = table.columns.index("LGR_v")
    assert table.rows[0][column : column + 2] == ["0.100 ± 0.000 ▲", "0.5"]


def test_skills_that_are_known_but_stand_still_are_a_finding():
    rows = [row(), row(p_her=1), row(size=1000), row(size=200)]
    job, cell = fake(rows, lgr_z=[[0.95], [0.95], [0.95], [0.3]], lgr_v=[[1.6], [1.4], [1.3], [1.6]])
    table = movement.moving_skills(entries([job], {"fake": cell}), True)
    assert table.rows == [["Ant", "1.500", "3", "2", "4", "0.10", "1.20", "–"]]


def test_rows_of_a_body_may_have_been_measured_on_other_targets():
    job, cell = fake([row()])
    fewer = cell | {"targets": cell["targets"] | {"still_lgr_v": 1.7, "spread_v": 1.1}}
    rows = entries([job, job._replace(name="other")], {"fake": cell, "other": fewer})
    ((_, level, *_, wanted, _),) = movement.moving_skills(rows, True).rows
    assert (level, wanted) == ("1.500 to 1.700", "1.10 to 1.20")


@pytest.mark.parametrize(("lgr_v", "verdict", "share"), [(1.45, UNJUDGED, "0.033"), (1.2, BETTER, "0.200")])
def test_a_row_that_stands_still_is_never_better(lgr_v, verdict, share):
    """Standing still has 1.5, the paper more."""
    job, cell = fake([row(LGR_v="1.6")], lgr_v=lgr_v)
    (entry,) = entries([job], {"fake": cell})
    assert marks.mark_of_row(entry, "lgr_v", True) == verdict
    assert (f"1 not judged (1 {marks.STANDS_STILL})" in comparison.headline([entry], True)) == (verdict == UNJUDGED)
    level, explained = movement.share_explained(entry)
    assert (level, explained.split()[0]) == ("1.500", share)


def test_targets_that_the_paper_is_close_to_by_chance_are_slower_than_ours():
    """Standing still has 1.5 on ours; the paper does not know its goals and has a fifth of that, or nearly as much."""

    def reported(z, v, higher=True):
        job, cell = fake([row(LGR_z=z, LGR_v=v), row(p_her=1, LGR_z="0.2", LGR_v="0.1")], lgr_z=0.5, lgr_v=1.5)
        rows = entries([job], {"fake": cell})
        return movement.slower_targets(rows, higher), movement.moving_skills(rows, higher).rows[0][-1]

    text, cell = reported("0.01", "0.3")
    assert text.startswith("Ant: where the paper's q hardly knows the goal")
    assert cell == "0.300 in 1 row"
    assert reported("0.01", "1.4") == ("", "1.400 in 1 row")
    assert reported("0.5", "0.3") == ("", "–"), "its q knows some"
    assert reported("0.35", "0.3", higher=False)[0]


@pytest.mark.parametrize("targets", [{"count": 0}, {"count": 294, "missed": 0.9, "still_lgr_v": 1.0, "spread_v": 1.0}])
def test_without_target_states_of_good_experts_nothing_is_claimed_of_them(targets):
    job, cell = fake([row()])
    cell["targets"] = targets
    (entry,) = entries([job], {"fake": cell})
    assert marks.mark_of_row(entry, "lgr_v", True) == UNJUDGED
    assert marks.mark_of_row(entry, "F", True) == EQUAL
    why = (
        "whose targets are states of experts most of which missed their velocity"
        if targets["count"]
        else "without target states"
    )
    counts = f"0 of 1 rows: 0 better, 0 equal, 0 worse; 1 not judged (1 {why}), 0 not run"
    assert counts in comparison.headline([entry], True)
    assert bool(movement.moving_skills([entry], True).rows) == bool(targets["count"]), "ours it is, whatever they are"


def test_a_run_that_came_to_nothing_is_told_as_such():
    """A file has null for what is no number."""
    job, cell = fake([row(p_her=i) for i in (0, 1)], F=[[1.0, 2.0, np.nan], [1.0, 1.1, 0.9]], lgr_z=[[np.nan], [0.5]])
    outcome = comparison.compare([job], {"fake": json.loads(to_json(cell))}, (P_HER,), True)
    table = next(t for name, t in outcome.tables.items() if name.startswith("Ant"))
    assert [r[table.columns.index("F")] for r in table.rows] == ["nan ± nan ▼", "1.000 ± 0.248 ="]
    assert outcome.claims[0].verdict == NOT_TESTED


@pytest.mark.parametrize(
    ("measured", "reported"),
    [({}, "a GPU"), ({"measured_on": "a GPU"}, "a GPU"), ({"measured_on": "a CPU"}, "a GPU, measured on a CPU")],
)
def test_both_machines_are_told_where_there_were_two(measured, reported):
    job, cell = fake([row()])
    table = program_tables.sizes_and_hardware([job], {job.name: cell | {"hardware": "a GPU"} | measured})
    assert table.rows[0][-1] == f"{reported}; vgcrl 0"
    before_lines_had_them = cell | {"versions": {}}
    table = program_tables.sizes_and_hardware([job], {job.name: before_lines_had_them})
    assert table.rows[0][-1] == "a machine; versions not recorded"


def test_both_engines_are_told_where_there_were_two():
    job, cell = fake([row()])
    cell["config"] = cell["config"] | {"engine": "warp"}
    fast = {"config": cell["config"] | {"physics": "fast"}}
    falls = {"config": cell["config"] | {"terminate": True}}
    other = {"measured_by": "mujoco"}
    for more, told in (
        ({}, "warp"),
        (other, "warp, measured by mujoco"),
        (fast, "warp, fast physics"),
        (fast | other, "warp, fast physics, measured by mujoco"),
        (falls | other, "warp, episodes end with a fall, measured by mujoco"),
    ):
        table = program_tables.sizes_and_hardware([job], {job.name: cell | more})
        assert table.rows[0][table.columns.index("engine")] == told
    assert len(program_tables.sizes_and_hardware([job], {}).rows[0]) == len(table.columns)


@pytest.mark.parametrize(("asked", "ends"), [(None, (None, True)), (True, (True, True)), (False, (False, False))])
def test_episodes_of_humanoid_end_with_a_fall_unless_told(asked, ends):
    made = {job.name: job.options for job in grid.jobs(discrete.GRID, Request(terminate=asked))}
    assert tuple(made[name].get("terminate") for name in ("Ant-G10", "Humanoid-G10")) == ends
    words = Request(terminate=asked).words()
    assert words == ([] if asked is None else ["--terminate", "yes" if asked else "no"])


def test_a_program_beside_the_table_is_as_asked_for_where_it_is_named():
    name, asked = "HalfCheetah-G50-update-per-step", {"envs": 4, "updates_per_step": 0.5, "looks": 2, "steps": 200_000}

    def found(**ask):
        options = {job.name: job.options for job in grid.jobs(discrete.GRID, Request(**ask))}[name]
        return options["envs"], options["updates_per_step"], options["evaluate_every"], options["steps"]

    assert found(**asked, program=name) == (4, 0.5, 100_000, 200_000)
    assert found(**asked)[:2] == found()[:2] == (64, 1.0)
    with pytest.raises(UsageError, match="--program names one program, so --env has no meaning"):
        grid.select(grid.jobs(discrete.GRID, Request()), Request(program=name, env=("Ant",)))


@pytest.mark.parametrize(("looks", "every"), [(None, 2_500_000), (10, 1_000_000)])
def test_looks_on_the_way_are_as_many_as_asked_for(looks, every):
    made = {job.name: job.options["evaluate_every"] for job in grid.jobs(discrete.GRID, Request(looks=looks))}
    assert made["HalfCheetah-G10"] == every


@pytest.mark.parametrize("name", GRIDS)
def test_the_committed_table_was_trained_with_what_is_usual(name):
    """So that one command makes it again; what took too long has fewer steps, or is of before episodes ended early."""
    folder, every = RESULTS / name, grid.jobs(GRIDS[name], Request())
    found = cells.read_all(folder, every)
    for job in (job for job in every if job.name in found):
        differ = {k for k, x in zip(grid.SCALES, grid.scales(job, found[job.name]), strict=True) if x is not None}
        assert differ <= {"steps", "seeds", "engine", "terminate"}, job.name


def test_a_program_takes_as_long_as_one_like_it_did(tmp_path):
    config = resolve(grid.jobs(discrete.GRID, Request(steps=1_000_000, seeds=2))[0].options)
    assert planning.seconds(config, [], tmp_path) is None
    cell = {"config": json.loads(config.to_json()), "hardware": summary.hardware()}
    cell |= {"runs": 8, "steps": 500_000, "wall_seconds": 100.0}
    assert planning.seconds(config, [cell, cell | {"hardware": "another"}], tmp_path) == 100.0
    assert planning.seconds(config, [cell | {"config": cell["config"] | {"env": "Ant"}}], tmp_path) is None


def test_a_program_under_way_goes_on_at_its_own_speed(uninterrupted, tmp_path):
    run = uninterrupted / "discrete-quick" / "runs" / "pointmass-G2"
    config, last = run_folder.read_config(run), logs.read_lines(run / "metrics.jsonl")[-1]
    longer = dataclasses.replace(config, steps=10 * last["step"])
    assert planning.seconds(longer, [], run) == pytest.approx(10 * last["wall"])


def test_what_no_program_was_timed_for_is_not_guessed():
    job = grid.jobs(discrete.GRID, Request(steps=1000, seeds=1))[0]
    known, unknown = (planning.Estimate(job, "to do", 2000, None, seconds) for seconds in (90.0, None))
    assert planning.left([known, known]) == "about 3.0 min left"
    assert planning.left([known, unknown]) == "about 1.5 min left, and 1 program of unknown speed"
    assert planning.left([unknown]) == "time left not known yet"
    assert planning.work([known, known]) == [90.0, 90.0]
    assert planning.work([known, unknown]) == [2000.0] * 2


def shrink(patch):
    """Two programs of two rows, on the point mass."""
    rows = [row("pointmass", size, p_her=p_her) for size in (2, 3) for p_her in (0, 1)]
    patch.setattr(grid, "paper_rows", lambda table: rows)
    patch.setattr(grid, "QUICK", TINY)
    patch.setitem(EXPERIMENTS, "discrete", discrete.GRID._replace(asides=(), contrasts=(P_HER,)))


@pytest.fixture
def small(monkeypatch):
    shrink(monkeypatch)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The folder of an experiment that was run once, to be left as it is."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        return made_once(tmp_path_factory, "discrete", lambda out: run(out, "--minutes", "60"))


@pytest.fixture
def finished(small, uninterrupted, tmp_path):
    shutil.copytree(uninterrupted, tmp_path, dirs_exist_ok=True)
    return tmp_path / "discrete-quick"


def run(folder, *options):
    return main(["reproduce", "discrete", "--quick", "--out", str(folder), *options])


def numbers(folder):
    """Of the finished programs."""
    paths = [p for p in (folder / "discrete-quick" / "cells").glob("*.json") if "unfinished" not in p.name]
    found = {path.name: json.loads(path.read_text()) for path in paths}
    return {name: (cell["final"], cell["curves"], cell["config"]) for name, cell in found.items()}


def interrupt_training(monkeypatch):
    """Ctrl-C at the third evaluation of the first program."""
    original, calls = loop.append_line, []

    def append(*arguments):
        original(*arguments)
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loop, "append_line", append)


def interrupt_measuring(monkeypatch):
    def finish(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cells, "finish", finish)


def leave_nothing_but_a_lock(monkeypatch):
    """As a kill does before the configuration is written."""

    def train(config, folder):
        folder.mkdir(parents=True)
        (folder / ".lock").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(grid, "train", train)


@pytest.mark.parametrize(
    "interrupt",
    [
        interrupt_training,
        *(pytest.param(f, marks=pytest.mark.slow) for f in (interrupt_measuring, leave_nothing_but_a_lock)),
    ],
)
def test_an_interrupted_experiment_continues_bit_for_bit(
    uninterrupted, small, tmp_path, interrupt, capsys, monkeypatch
):
    (tmp_path / "discrete-quick" / "cells").mkdir(parents=True)
    other = "discrete-quick/cells/pointmass-G3.json"  # as if from another machine
    shutil.copy(uninterrupted / other, tmp_path / other)
    with monkeypatch.context() as patch:
        interrupt(patch)
        assert run(tmp_path) == 130
    assert "the same command continues" in capsys.readouterr().err
    assert len(numbers(tmp_path)) == 1
    reported = list(tmp_path.rglob("*.unfinished.json"))
    assert bool(reported) == (interrupt is interrupt_training)
    assert run(tmp_path) == 0
    said = capsys.readouterr()
    verb = "starts" if interrupt is leave_nothing_but_a_lock else "continues"
    assert f"[2/2] pointmass-G2: {verb}; about" in said.err
    assert "report:" in said.out
    assert len(numbers(tmp_path)) == 2
    assert numbers(tmp_path) == numbers(uninterrupted)
    assert not list(tmp_path.rglob("*.unfinished.json"))


def test_a_program_that_was_stopped_is_reported_as_far_as_it_is(small, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_training(patch)
        assert run(tmp_path) == 130
    folder = tmp_path / "discrete-quick"
    (path,) = (folder / "cells").iterdir()
    cell, last = (
        json.loads(path.read_text()),
        logs.read_lines(folder / "runs" / "pointmass-G2" / "metrics.jsonl")[-1],
    )
    assert path.name == "pointmass-G2.unfinished.json"
    assert cell["steps"] == last["step"] < cell["config"]["steps"]
    assert np.ravel(cell["final"]["lgr_z"]).tolist() == [row["lgr_z"] for row in last["seeds"]]
    result = json.loads((folder / "result.json").read_text())
    assert result["finding"].count("0 of 2 programs finished and 1 as far as they were trained") == 1
    job = cells.Job("pointmass-G2", tuple(row("pointmass", 2, p_her=i) for i in (0, 1)), None)
    for reported, known in ((cell, True), (cell | {"finished": True}, False)):
        outcome = comparison.compare([job], {job.name: reported}, (P_HER,), True)
        assert outcome.claims[0].sentence == "P-HER helps" + " [so far]" * known
        labels = outcome.figures["Beside the paper"].axes[0].get_legend_handles_labels()[1]
        assert ("unfinished" in labels) == known
    (table,) = (t for name, t in result["tables"].items() if "beside the paper" in name)
    assert [row[-1] for row in table["rows"]] == 2 * [f"{last['step']:,} × 2, unfinished"] + 2 * ["not run"]


def test_a_stopped_program_that_had_diverged_keeps_its_metrics(uninterrupted, tmp_path):
    """A log has null for what is no number, also of the first run."""
    job = cells.Job("pointmass-G2", tuple(row("pointmass", 2, p_her=i) for i in (0, 1)), None)
    target = shutil.copytree(uninterrupted / "discrete-quick" / "runs" / job.name, cells.run_path(tmp_path, job))
    lines = logs.read_lines(target / "metrics.jsonl")
    lines[-1]["seeds"][0]["F"] = None
    (target / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cells.write_unfinished(tmp_path, job)
    cell = cells.read(tmp_path, job, unfinished=True)
    assert cell["final"]["F"][0][0] is None
    assert (
        cell["final"].keys()
        == json.loads(cells.cell_path(uninterrupted / "discrete-quick", job).read_text())["final"].keys()
    )


def test_a_run_from_before_a_metric_was_measured_is_described(uninterrupted, small, tmp_path):
    job = grid.jobs(discrete.GRID, Request(quick=True))[0]
    target = shutil.copytree(uninterrupted / "discrete-quick" / "runs" / job.name, cells.run_path(tmp_path, job))
    lines = logs.read_lines(target / "metrics.jsonl")
    for line in lines:
        for numbers_of in (*line["seeds"], *(group["mean"] for group in (line, *line.get("settings", ())))):
            del numbers_of["success_1"]
    (target / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cells.write_unfinished(tmp_path, job)
    final = cells.read(tmp_path, job, unfinished=True)["final"]
    assert "F" in final
    assert "success_1" not in final


def test_a_trained_program_is_measured_where_only_its_policy_is(uninterrupted, small, tmp_path, capsys, monkeypatch):
    """As one trained on another machine, whose checkpoints stayed there."""
    for source in (uninterrupted / "discrete-quick" / "runs").iterdir():
        if source.is_dir():
            target = tmp_path / "discrete-quick" / "runs" / source.name
            target.mkdir(parents=True)
            for name in ("config.json", "metrics.jsonl", "policy.safetensors"):
                shutil.copy(source / name, target)
    monkeypatch.setattr(grid, "train", None)
    monkeypatch.setattr(summary, "versions", lambda: {"jax": "of this machine"})
    monkeypatch.setattr(summary, "hardware", lambda: "this machine")
    capsys.readouterr()
    assert run(tmp_path) == 0
    assert capsys.readouterr().err.count("100 %") == 2
    assert numbers(tmp_path) == numbers(uninterrupted)
    for cell in (json.loads(p.read_text()) for p in (tmp_path / "discrete-quick" / "cells").glob("*.json")):
        assert cell["measured_on"] == "this machine" != cell["hardware"]
        assert cell["versions"]["jax"] == jax.__version__, "of the one that trained it"


def test_what_another_machine_trained_is_measured_without_its_engine(
    uninterrupted, small, tmp_path, capsys, monkeypatch
):
    def refused(options):
        raise UsageError("--engine warp needs a CUDA device")

    def elsewhere(options):
        return refused(options) if options.get("engine") == "warp" else resolve(options)

    name = Path("discrete-quick", "runs", "pointmass-G2")
    shutil.copytree(uninterrupted / name, tmp_path / name)
    for module in (grid, planning):
        monkeypatch.setattr(module, "resolve", refused)
    assert run(tmp_path, "--program", "pointmass-G2") == 0
    assert [*numbers(tmp_path)] == ["pointmass-G2.json"]
    assert run(tmp_path, "--program", "pointmass-G3") == 2
    assert "needs a CUDA device" in capsys.readouterr().err
    shutil.copytree(uninterrupted, tmp_path / "whole")
    monkeypatch.setattr(grid, "resolve", elsewhere)
    assert run(tmp_path / "whole", "--engine", "warp", "--dry-run") == 0
    assert "with other" in capsys.readouterr().out


def test_what_an_experiment_leaves(finished):
    result = json.loads((finished / "result.json").read_text())
    assert result["command"] == "vgcrl reproduce discrete --quick"  # --minutes decides how far, not what
    assert "A smoke test: fewer runs and steps" in (finished / "report.html").read_text()
    assert {"Beside the paper", "Learning curves, pointmass"} == set(result["figures"])
    for program in result["programs"].values():
        assert program["updates_per_step"] == 0.125
        assert program["envs"] == 4
        assert {"hardware", "versions", "minutes_per_row", "steps", "seeds"} <= program.keys()
    cell = json.loads((finished / "cells" / "pointmass-G2.json").read_text())
    last = logs.read_lines(finished / "runs" / "pointmass-G2" / "metrics.jsonl")[-1]
    assert np.ravel(cell["final"]["F_replay"]).tolist() == [row["train"]["F"] for row in last["seeds"]]
    assert cell["final"]["F_replay"] == cell["curves"]["F_replay"][-1]
    assert not any(last["ci95"].values()), "runs of different settings are no sample"
    assert all(setting["ci95"]["F"] for setting in last["settings"])
    assert {p.name for p in finished.rglob("*.safetensors")} == {"policy.safetensors"}
    assert len(list((finished / "runs").rglob("metrics.jsonl"))) == 2


def test_a_finished_program_is_not_repeated_without_its_run(finished, capsys, monkeypatch):
    before = {p: p.stat().st_mtime_ns for p in (finished / "cells").iterdir()}
    shutil.rmtree(finished / "runs")
    monkeypatch.setattr(grid, "train", None)
    assert run(finished.parent) == 0
    assert {p: p.stat().st_mtime_ns for p in (finished / "cells").iterdir()} == before
    assert "2 programs done" in capsys.readouterr().err


def test_a_report_alone_trains_nothing(finished, capsys, monkeypatch):
    (finished / "report.html").unlink()
    missing = next((finished / "cells").glob("*.json"))
    missing.unlink()
    monkeypatch.setattr(grid, "train", None)
    assert run(finished.parent, "--report") == 0
    assert (finished / "report.html").exists()
    assert not missing.exists()  # nor is what was trained measured
    shutil.rmtree(finished / "cells")
    assert run(finished.parent, "--report") == 2
    assert "--report finds no program in" in capsys.readouterr().err


def test_what_is_not_trained_again_is_told(finished, capsys):
    assert run(finished.parent, "--dry-run") == 0
    assert f"not trained again: 2 programs in {finished / 'cells'}; --out DIR" in capsys.readouterr().out
    assert run(finished.parent, "--dry-run", "--steps", "1280") == 0
    names = "--steps, --seeds, --updates-per-step, --posterior-learning-rate, --terminate, --envs, --engine, --physics"
    others = f"2 of them with other {names} than asked for"
    assert others in capsys.readouterr().out


def cut(text):
    return text[: len(text) // 2]


def without_seeds(text):
    return json.dumps({k: v for k, v in json.loads(text).items() if k != "seeds"})


def with_fewer_numbers(text):
    cell = json.loads(text)
    return json.dumps(cell | {"final": {k: v[:1] for k, v in cell["final"].items()}})


@pytest.mark.parametrize("damage", [cut, without_seeds, with_fewer_numbers, lambda text: "[]", lambda text: ""])
def test_a_damaged_cell_is_named(finished, damage, capsys):
    path = finished / "cells" / "pointmass-G3.json"
    path.write_text(damage(path.read_text()))
    assert run(finished.parent) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert str(path) in said
    assert "delete it" in said


def test_a_program_that_another_process_trains_is_left_to_it(small, tmp_path, capsys):
    run_of = tmp_path / "discrete-quick" / "runs" / "pointmass-G2"
    run_of.mkdir(parents=True)
    (run_of / "config.json").write_text(resolve(grid.jobs(EXPERIMENTS["discrete"], QUICK)[0].options).to_json())
    with run_folder.locked(run_of):
        assert run(tmp_path) == 2
    assert "1 of 2 programs failed: pointmass-G2" in (said := capsys.readouterr().err)
    assert "another process is training this run" in said
    assert list(numbers(tmp_path)) == ["pointmass-G3.json"]
    assert run(tmp_path) == 0


def test_one_program_may_be_made_alone(uninterrupted, small, tmp_path, capsys):
    assert run(tmp_path, "--program", "pointmass-G3") == 0
    assert numbers(tmp_path) == {k: v for k, v in numbers(uninterrupted).items() if "G3" in k}
    assert not (tmp_path / "discrete-quick" / "report.html").exists()
    assert run(tmp_path, "--program", "pointmass-G4") == 2
    assert "valid: pointmass-G2, pointmass-G3" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [UsageError, Broken])
def test_one_program_that_fails_does_not_stop_the_others(small, tmp_path, capsys, monkeypatch, kind):
    original = grid.train

    def train(options, folder):
        if options["goal_dim"] == 2:
            raise kind("observation not finite")
        return original(options, folder)

    monkeypatch.setattr(grid, "train", train)
    assert run(tmp_path) == 2
    assert "1 of 2 programs failed: pointmass-G2: observation not finite" in capsys.readouterr().err
    assert list(numbers(tmp_path)) == ["pointmass-G3.json"]
    assert NOT_RUN in (tmp_path / "discrete-quick" / "report.html").read_text()


def test_a_run_that_diverges_is_told_of(small, tmp_path, monkeypatch):
    """Its numbers are null in the log, and the columns of the table must not depend on that."""
    original = loop.append_line

    def diverged(path, record):
        for seed in record["seeds"][: 1 if record["step"] else 0]:
            seed["F"] = float("nan")
        original(path, record)

    monkeypatch.setattr(loop, "append_line", diverged)
    assert run(tmp_path, "--program", "pointmass-G2") == 0
    ((final, curves, _),) = numbers(tmp_path).values()
    assert set(curves) - {"step"} == set(final)
    assert [value[0][0] is None for value in curves["F"]] == [False] + [True] * (len(curves["F"]) - 1)
    assert run(tmp_path, "--report") == 0


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_time_that_is_spent_ends_in_order(small, tmp_path, capsys, monkeypatch, handler):
    """Also in the background of a script, whose shell has Ctrl-C ignored."""
    monkeypatch.setattr(grid, "tasks", lambda *_: signal.pause())
    monkeypatch.setattr(planning, "memory", lambda config: 0.0)
    before = signal.signal(signal.SIGINT, handler)
    try:
        assert run(tmp_path, "--minutes", "0.001") == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert "stopped and saved" in capsys.readouterr().err
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_plan_is_all_that_a_dry_run_does(tmp_path, capsys):
    assert (
        main(["reproduce", "discrete", "--env", "Ant", "--goal-dim", "10,1000", "--dry-run", "--out", str(tmp_path)])
        == 0
    )
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()[2:4]] == ["Ant-G10", "Ant-G1000"]
    assert "GiB" in said
    assert "2 programs, 4 rows, 0 programs done" in said
    assert not list(tmp_path.iterdir())


def made(jobs, **config):
    return {job.name: {"config": json.loads(resolve(job.options).to_json()) | config} for job in jobs}


def test_the_commands_told_are_those_that_make_what_there_is():
    every = grid.jobs(discrete.GRID, Request())
    bodies = {env: [job for job in every if job.options["env"] == env] for env in ("HalfCheetah", "Ant", "Humanoid")}
    beside = [job for job in every if "aside" in job.rows[0]]

    def reported(found):
        return grid.commands("discrete", discrete.GRID, every, found, False)

    assert reported({}) == []
    assert reported(made(every)) == ["vgcrl reproduce discrete"]
    found = made(bodies["HalfCheetah"], steps=2_000_000) | made(bodies["Ant"], steps=500_000)
    found |= made(bodies["Humanoid"][:2], steps=500_000, seeds=5, updates_per_step=1.0)
    found |= made(bodies["Humanoid"][2:3], posterior_learning_rate=[1e-4], terminate=False)
    for job in beside:
        del found[job.name]
    found |= made(beside[:1]) | made(beside[2:], steps=3_000_000)
    commands = reported(found)
    assert commands == [
        "vgcrl reproduce discrete --env HalfCheetah --steps 2000000",
        "vgcrl reproduce discrete --env Ant --steps 500000",
        "vgcrl reproduce discrete --env Humanoid --goal-dim 10,20 --steps 500000 --seeds 5 --updates-per-step 1.0",
        "vgcrl reproduce discrete --env Humanoid --goal-dim 50 --posterior-learning-rate 0.0001 --terminate no",
        "vgcrl reproduce discrete --program HalfCheetah-G200-one-environment",
        "vgcrl reproduce discrete --steps 3000000 --program HalfCheetah-G50-update-per-step",
    ]
    for command in commands:  # and they do
        args = parse(command.split()[1:])
        jobs = grid.jobs(discrete.GRID, Request(**{name: getattr(args, name) for name in Request._fields}))
        for job in grid.select(jobs, Request(env=args.env, goal_dim=args.goal_dim, program=args.program)):
            if args.program or "aside" not in job.rows[0]:
                scales = {k: found[job.name]["config"][k] for k in grid.SCALES}
                config = json.loads(resolve(job.options).to_json())
                assert {k: config[k] for k in grid.SCALES} == scales


def test_programs_of_one_size_that_differ_have_a_command_each():
    every = [job for job in grid.jobs(continuous.GRID, Request()) if job.options["env"] != "Humanoid"]
    longer, shorter, *rest = every
    assert longer.options["goal_dim"] == shorter.options["goal_dim"]
    found = made([longer]) | made([shorter], steps=500_000) | made(rest)
    assert grid.commands("continuous", continuous.GRID, every, found, False) == [
        "vgcrl reproduce continuous --env HalfCheetah --goal-dim 5,10,20",
        "vgcrl reproduce continuous --env Ant",
        f"vgcrl reproduce continuous --program {longer.name}",
        f"vgcrl reproduce continuous --program {rest[0].name}",
        f"vgcrl reproduce continuous --steps 500000 --program {shorter.name}",
    ]


@pytest.mark.parametrize("name", GRIDS)
def test_the_committed_tables_are_those_of_the_committed_cells(name):
    folder = RESULTS / name
    result = json.loads((folder / "result.json").read_text())
    jobs = grid.jobs(GRIDS[name], Request())
    found = cells.read_all(folder, jobs, unfinished=True)
    outcome = comparison.compare(jobs, found, GRIDS[name].contrasts, GRIDS[name].higher)
    assert {title: table._asdict() for title, table in outcome.tables.items()} == result["tables"]
    for made, committed in zip((claim._asdict() for claim in outcome.claims), result["claims"], strict=True):
        for field in ("measured", "ci95"):  # machines differ in the last digit
            assert made.pop(field) == pytest.approx(committed.pop(field))
        assert made == committed
    assert outcome.finding == result["finding"]
    assert "; ".join(grid.commands(name, GRIDS[name], jobs, found, False)) == result["command"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["discrete", "--env", "Ants"], "did you mean Ant?"),
        (["discrete", "--env", "Walker"], "valid: HalfCheetah, Ant, Humanoid"),
        (["discrete", "--goal-dim", "30"], "valid: 10, 20, 50, 200, 1000"),
        (["continuous", "--goal-dim", "10,50"], "valid: 2, 5, 10, 20"),
        (["continuous", "--quick", "--env", "Ant"], "valid: HalfCheetah"),
        (["discrete", "--minutes", "0"], "--minutes 0 is out of range"),
        (["discrete", "--steps", "0"], "valid: an integer from 1 to"),
        (["discrete", "--updates-per-step", "0"], "--updates-per-step 0 is out of range"),
        (["windy", "--updates-per-step", "1"], "--updates-per-step does not apply to windy"),
        (["windy", "--env", "Ant"], "--env does not apply to windy"),
        (["windy", "--engine", "warp"], "--engine warp does not run windy-pointmass; valid: auto, jax"),
        (["spectral", "--report"], "valid with: discrete, continuous"),
        (["spectral", "--program", "G30", "--dry-run"], "valid: G10, G20, G50, G20-vectorised"),
        (["windy", "--engine", "warp", "--dry-run"], "--engine warp does not run windy-pointmass"),
        (["all", "--goal-dim", "10"], "--goal-dim does not apply to windy"),
    ],
)
def test_bad_input_is_one_line(options, expected, tmp_path, capsys):
    assert main(["reproduce", *options, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert expected in said[0]
    assert not list(tmp_path.iterdir())
