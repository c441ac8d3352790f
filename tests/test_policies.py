"""Policies that come with the package: each works at once, and its card is true."""

import json
import re
from functools import partial

import jax
import numpy as np
import pytest

import vgcrl
from untrained import untrained
from vgcrl.cli import main, parse
from vgcrl.errors import UsageError
from vgcrl.show.explorer import export
from vgcrl.training import policy_file, trainer
from vgcrl.training.logs import append_line
from vgcrl.use import policies


@pytest.mark.parametrize("name", policies.names())
def test_each_acts_and_says_what_it_is(name):
    policy, card = vgcrl.load(name), policies.card(name)
    assert (policy.config.method, policy.config.env) == (card["method"], card["env"])
    state = np.zeros(policy.spec.obs_dim)
    action = policy.act(state, goal_state=state)
    assert action.shape == (policy.spec.action_dim,)
    assert np.isfinite(action).all()
    assert parse(card["command"].split()[1:]).method == card["method"]
    assert card["steps"] > 0
    assert {"F", "lgr_z"} <= card["measured"].keys() & policies.metrics_of(card).keys()
    assert card["about"]


def test_the_list_names_all_of_them(capsys):
    assert main(["list", "policies"]) == 0
    said = capsys.readouterr().out
    assert policies.names()
    assert all(re.search(rf"^{name} +vgcrl train", said, re.M) for name in policies.names())


def test_the_best_seed_of_a_run_becomes_a_policy(tmp_path, monkeypatch):
    run = untrained(tmp_path / "run", "diayn")
    numbers = dict.fromkeys(("F", "log_q", "lgr_z", "lgr_s"), 0.5)
    rows = [{"seed": i, **numbers, "F": f, "train": {"F": 0.0}, "posterior": {}} for i, f in ((0, 0.5), (1, 1.5))]
    record = {"step": 640, "mean": numbers, "ci95": dict.fromkeys(numbers), "seeds": rows}
    append_line(run / "metrics.jsonl", record)
    told = {"seeds": [{"F": 1.75, "lgr_z": 0.75, "success": None}]}
    monkeypatch.setattr(policies, "evaluate_run", lambda *_, noise: told if noise else None)
    made = policies.ship(run, "mine", "tries", into=tmp_path, noise=True)
    both, one = vgcrl.load(run, seed=1), vgcrl.load(made)
    state = np.array([0.3, -0.2, 0.1, 0.0])
    np.testing.assert_array_equal(both.act(state, z=3), one.act(state, z=3))
    card = json.loads((made / "card.json").read_text())
    assert (card["seed"], card["measured"]["F"], card["noise"]) == (1, 1.5, True)
    assert policies.metrics_of(card) == card["with_noise"] == {"F": 1.75, "lgr_z": 0.75}
    assert policies.metrics_of(card | {"noise": False}) == card["measured"]
    assert (made / "policy.safetensors").stat().st_size < (run / "policy.safetensors").stat().st_size


def test_a_bound_that_is_off_is_no_lost_number(tmp_path, capsys):
    """It is infinite, where others trained beside it are not."""
    run = untrained(tmp_path / "run", "diayn", spectral_norm=(0.0, 2.0))
    for setting in (0, 1):
        assert vgcrl.load(run, setting=setting).act(np.zeros(4), z=3).shape == (2,)
    assert "diverged" not in capsys.readouterr().err


@pytest.mark.parametrize("lost_to", [np.nan, np.inf])
def test_a_seed_that_has_diverged_is_told_and_not_loaded(lost_to, tmp_path, capsys):
    run = untrained(tmp_path / "run", "diayn", learning_rate=(1e-3, 1e-2))
    _, runs, counters = trainer.restore(run, pytest.fail)
    lost = jax.tree.map(lambda x: x.at[3].set(lost_to) if x.dtype == np.float32 else x, runs.learner)
    policy_file.save(run, 640, runs._replace(learner=lost), counters, config=(run / "config.json").read_text())
    assert vgcrl.load(run, seed=1, setting=0).act(np.zeros(4), z=3).shape == (2,)
    which = "seed 1, --learning-rate 0.01, --posterior-learning-rate 0.005"
    assert f"{which} has diverged: its weights are no finite numbers" in capsys.readouterr().err
    for use in (vgcrl.load, partial(vgcrl.film, goals=[3], out=tmp_path / "film.gif")):
        with pytest.raises(UsageError, match=r"seed 1, .* has diverged; valid: another seed"):
            use(run, seed=1, setting=1)
    labels = [each["label"] for each in export.export_run(run, print, noise=False, given=None)["policies"]]
    rates = [f"learning rate {x:g}, posterior learning rate {x / 2:g}" for x in (1e-3, 1e-2)]
    assert labels == [f"seed 0, {rates[0]}", f"seed 1, {rates[0]}", f"seed 0, {rates[1]}"]


def test_a_name_that_is_none_is_told(tmp_path):
    with pytest.raises(UsageError, match="pointmass-diayn"):
        vgcrl.load("pointmass-diyan")
    assert policies.folder_of(tmp_path) == tmp_path
