"""The comparison of skills: its claims, tables and paths, on a run too small to learn."""

import numpy as np
import pytest

import vgcrl
from tiny import TINY
from vgcrl.experiments import factors, skills
from vgcrl.experiments.verdicts import FAILS, HOLDS, NOT_SHOWN
from vgcrl.measure.statistics import interval
from vgcrl.training import logs, run_folder
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve


def test_standing_still_is_the_mean_square_of_the_targets_velocity():
    config = resolve(Options("metra", "HalfCheetah", evaluate_episodes=42))
    asked = np.array([-2, -1, -0.5, 0, 0.5, 1, 2])
    np.testing.assert_allclose(skills.standing_still(config), np.mean(asked**2), rtol=0.2)  # experts nearly reach them


@pytest.mark.slow
def test_skills_are_compared_and_their_paths_drawn(tmp_path):
    run = vgcrl.train("metra", env="HalfCheetah", out=tmp_path / "run", **{**TINY, "horizon": 20, "steps": 160}).dir
    outcome = skills.compare({"HalfCheetah-diayn": run, "HalfCheetah-metra": run})
    (claim,) = outcome.claims
    assert claim.sentence.startswith("HalfCheetah: metra covers more than DIAYN")
    assert (claim.verdict, claim.measured) == ("not shown", 0.0)  # the same run on both sides
    ((title, table),) = outcome.tables.items()
    assert "LGR_v of standing still" in title
    assert [row[0] for row in table.rows] == ["metra", "metra"]
    assert len(table.columns) == len(table.rows[0])
    (figure,) = outcome.figures.values()
    assert figure.get_suptitle().startswith(f"{skills.SKILLS} goals, one episode each; colours ")
    assert [len(axis.lines) for axis in figure.axes] == [skills.SKILLS, skills.SKILLS]
    assert {len(line.get_xdata()) for axis in figure.axes for line in axis.lines} == {21}


def test_factors_are_judged_by_what_each_seed_covers(tmp_path):
    covers = {"metra": (50, 40, 45), "metra-raw": (2, 4, 3), "metra-alpha-1": (60, 52, 55), "diayn": (2, 2, 2)}
    covers |= {"diayn-standard": (2, 2, 2)}
    found = {}
    for name, options in factors.runs(quick=False).items():
        found[name] = tmp_path / name
        found[name].mkdir()
        run_folder.write_config(found[name], resolve(options))
        names, about = {*factors.COLUMNS, "log_q", "lgr_s"}, {"train": {"F": 0.0}, "posterior": {}}
        per_seed = enumerate(covers.get(name, (1, 2, 3)))
        rows = [dict.fromkeys(names, 0.0) | {"coverage": x, "seed": i, **about} for i, x in per_seed]
        each = {k: [row[k] for row in rows] for k in names}
        means = {"mean": {k: np.mean(x) for k, x in each.items()}, "ci95": {k: interval(x) for k, x in each.items()}}
        logs.append_line(found[name] / "metrics.jsonl", {"step": 3_000_000, "seeds": rows, **means})
    outcome = factors.compare(found)
    raw, alpha, _, _, diayn = outcome.claims[:5]
    assert (raw.verdict, raw.measured) == (HOLDS, -42.0)  # fewer, as was said
    assert (alpha.verdict, round(alpha.measured, 1)) == (FAILS, 10.7)  # more, where fewer was said
    assert (diayn.verdict, diayn.measured) == (NOT_SHOWN, 0.0)
    ((title, table),) = outcome.tables.items()
    assert title == "HalfCheetah, 3,000,000 steps"
    assert table.rows[0][:2] == ["metra", "45.000 ± 12.421"]
    assert table.rows[0][-2] == "50, 40, 45"
    quick = factors.compare({name: found[name] for name in factors.runs(quick=True)})
    assert quick.claims == [raw]
