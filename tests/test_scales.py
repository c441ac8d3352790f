"""What reports say of numbers: chance and best are those that policies which know nothing, or everything, reach."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untrained import untrained
from vgcrl.measure.rollout import sample_goals
from vgcrl.objective.distributions import Tilted
from vgcrl.objective.goals import Normals, Sphere, TanhBox, cube
from vgcrl.show.figures import curves, is_planar
from vgcrl.show.scales import Scale, chance_and_best, explained, middle_or_still, scales
from vgcrl.training import trainer


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return trainer.restore(untrained(tmp_path_factory.mktemp("run"), "diayn"), print)[0]


def test_chance_and_best_of_skills(program):
    known = scales(program)
    assert (known["F"].chance, known["F"].best) == (0.0, pytest.approx(np.log(10)))
    assert (known["lgr_z"].chance, known["lgr_z"].best, known["lgr_z"].higher) == (0.1, 1.0, True)
    assert "lgr_v" not in known  # of a mass that is to be at rest it says nothing


def test_the_middle_of_the_arena_is_nearer_to_targets_than_another_start(program):
    value, name = middle_or_still(program, slice(None))
    assert name == "always ending in the middle"
    assert value == pytest.approx(2 * 3.0**2 / 12, rel=0.05)


def test_targets_behind_a_projection_are_known(tmp_path):
    folder = untrained(tmp_path, "lingcrl", env="projected-pointmass", projection_dim=3, projection_seed=(4,))
    program = trainer.restore(folder, print)[0]
    w = np.array(program.spec.facts["projection"])
    value, name = middle_or_still(program, slice(None))
    assert name == "always ending in the middle"
    assert value == pytest.approx(np.sum(w**2) * 3.0**2 / 12, rel=0.1)


@pytest.mark.parametrize(("goals", "expected"), [(cube(3), 1 / 3), (TanhBox(2), 1 / 3), (Sphere(2), 1.0)])
def test_a_q_that_knows_nothing_misses_by_the_variance_of_the_prior(goals, expected):
    assert chance_and_best(goals) == (pytest.approx(expected), 0.0)


@pytest.mark.parametrize("dim", [2, 8])
def test_lsd_tells_the_direction_of_a_goal_alone(dim):
    """Measured with the direction in which φ went: that of the goal, and any."""
    goals, q = Normals(dim), Tilted(jnp.ones(dim), jnp.zeros(()), 0, None)
    z, other = (sample_goals(goals, jax.random.key(i), 4000) for i in (0, 1))
    for change, expected in zip((other, z), chance_and_best(goals), strict=True):
        found = jax.vmap(lambda z, change: goals.lgr(z, eqx.tree_at(lambda q: q.change, q, change).mode()))(z, change)
        assert float(found.mean()) == pytest.approx(expected, abs=0.04)


def row(seed, f):
    return {"seed": seed, "F": f, "lgr_z": 0.5, "train": {"F": f}}


KNOWN = {"F": Scale("F", "nats", True, 0.0, 2.0), "lgr_v": Scale("LGR_v", "", False)}


def test_a_table_has_a_row_per_number_and_nothing_that_says_nothing():
    one = explained({"seeds": [row(0, 1.0)], "mean": {"F": 1.0}, "ci95": {"F": None}}, KNOWN)
    assert one.columns == ["", "value", "chance", "best", "better is"]
    assert one.rows == [["F: nats", "1.000", "0.000", "2.000", "higher"]]
    both = {"seeds": [row(0, 1.0), row(1, 2.0)], "mean": {"F": 1.5}, "ci95": {"F": [1.0, 2.0]}}
    assert explained(both, KNOWN).rows == [["F: nats", "1.500 ± 0.500", "0.000", "2.000", "higher", "1.000", "2.000"]]


def test_settings_stand_side_by_side():
    settings = [{"mean": {"F": f}, "ci95": {"F": [f - 0.5, f + 0.5]}} for f in (1.5, 0.5)]
    record = {"seeds": [row(s, 1.0) for s in (0, 1, 0, 1)], "settings": settings}
    table = explained(record, KNOWN, ["bound 0", "bound 2"])
    assert table.columns == ["", "bound 0, mean ± 95 %", "bound 2, mean ± 95 %", "chance", "best", "better is"]
    assert table.rows == [["F: nats", "1.500 ± 0.500", "0.500 ± 0.500", "0.000", "2.000", "higher"]]


def test_an_axis_has_chance_and_best_in_it():
    lines = [{"step": t, "seeds": [row(0, 0.01 * t)]} for t in (0, 1, 2)]
    (axis,) = curves(lines, ("F",), KNOWN).axes
    low, high = axis.get_ylim()
    assert low < 0.0
    assert high > 2.0


@pytest.mark.parametrize(("method", "drawn"), [("diayn", True), ("metra-discrete", False), ("infogail", False)])
def test_only_a_q_of_states_is_drawn_as_a_map(method, drawn, tmp_path):
    """At rest φ does not change, and no action is taken: such a map would be of one skill."""
    assert is_planar(trainer.restore(untrained(tmp_path, method), print)[0]) == drawn
