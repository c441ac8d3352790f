"""The comparison of skills: its claims, tables and paths, on a run too small to learn."""

import numpy as np

import vgcrl
from tiny import TINY
from vgcrl.experiments import skills
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve


def test_standing_still_is_the_mean_square_of_the_targets_velocity():
    config = resolve(Options("metra", "HalfCheetah", evaluate_episodes=42))
    asked = np.array([-2, -1, -0.5, 0, 0.5, 1, 2])
    np.testing.assert_allclose(skills.standing_still(config), np.mean(asked**2), rtol=0.2)  # experts nearly reach them


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
    assert [len(axis.lines) for axis in figure.axes] == [skills.SKILLS, skills.SKILLS]
    assert {len(line.get_xdata()) for axis in figure.axes for line in axis.lines} == {21}
