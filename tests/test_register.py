"""Methods, posteriors, goal spaces and environments that a module outside the package registers."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import jax
import numpy as np
import pytest
from gymnasium import spaces

import vgcrl
from foreign_envs import Ship
from test_foreign import one_line
from tiny import TINY, flags
from vgcrl.cli import main
from vgcrl.envs import ENVS, modules
from vgcrl.objective.distributions import Direct
from vgcrl.objective.methods import METHODS
from vgcrl.objective.posteriors import POSTERIORS
from vgcrl.objective.posteriors.base import Plain
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

EXAMPLES = Path(__file__).parent.parent / "examples"


pytestmark = pytest.mark.usefixtures("registries_as_they_were")


def evaluate_elsewhere(run, *words):
    """In a process that has imported nothing, in the folder of the examples."""
    command = [sys.executable, "-m", "vgcrl", "evaluate", str(run), "--json", *words]
    return subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, env=os.environ, check=False)


@pytest.mark.slow
def test_the_example_survives_evaluate_and_resume(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    run = tmp_path / "run"
    assert main(["train", "disc", "--import", "own_method", "--out", str(run), *flags(steps=320)]) == 0
    config = json.loads((run / "config.json").read_text())
    assert (config["method"], config["posterior"], config["plugins"]) == ("disc", "laplace", ["own_method"])
    refused = evaluate_elsewhere(run)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith(f"vgcrl: {run}/config.json: this run is made of what the module")
    assert "valid: --import own_method, or" in refused.stderr
    found = evaluate_elsewhere(run, "--import", "own_method")
    assert found.returncode == 0, found.stderr
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json"]) == 0
    here = json.loads(capsys.readouterr().out)
    assert json.loads(found.stdout)["mean"]["F"] == pytest.approx(here["mean"]["F"], rel=1e-3)
    assert main(["resume", str(run), "--steps", "640", "--import", "own_method"]) == 0
    assert [line["step"] for line in map(json.loads, (run / "metrics.jsonl").open())] == [0, 160, 320, 480, 640]


def test_the_example_samples_as_it_says(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import own_method

    disc, keys = own_method.Disc(2.0), jax.random.split(jax.random.key(0), 4000)
    radius = np.linalg.norm(jax.vmap(disc.sample)(keys), axis=1)
    assert radius.max() <= 2.0
    assert np.mean(radius < 1.0) == pytest.approx(0.25, abs=0.03), "a quarter of the area"
    assert float(disc.log_prob(jax.numpy.zeros(2))) == pytest.approx(-np.log(4 * np.pi))
    d = own_method.Laplace(jax.numpy.array([1.0, -1.0]), 0.5)
    x = np.linspace(-9, 11, 2001)
    density = np.exp([float(d.log_prob(jax.numpy.array([v, -1.0]))) for v in x[::10]])
    assert np.sum(density) * (x[10] - x[0]) == pytest.approx(1.0, rel=0.02), "of the other coordinate 1 at its mode"


def test_names_belong_to_their_module():
    vgcrl.register_method("mine", METHODS["gcrl"])
    vgcrl.register_method("mine", METHODS["agcrl"])
    assert METHODS["mine"] is METHODS["agcrl"]
    assert resolve(Options("mine")).plugins == (__name__,)
    assert resolve(Options("gcrl")).plugins == ()
    one_line(lambda: vgcrl.register_method("gcrl", METHODS["gcrl"]), "method 'gcrl' is already registered")
    one_line(lambda: vgcrl.register_env("Ant", Ship), "env 'Ant' is already registered")
    one_line(lambda: vgcrl.register_posterior("gmm", Ship), "posterior 'gmm' is already registered")
    for wrong in ("", "a b", "a:b", "a/b", "a,b", "-a", "..", "a\0"):
        one_line(lambda wrong=wrong: vgcrl.register_env(wrong, Ship), "cannot be registered")
    one_line(lambda: vgcrl.register_method("other", Ship), "valid: a vgcrl.objective.methods.Method")
    one_line(lambda: vgcrl.register_posterior("other", 3), "valid: a function")
    one_line(lambda: vgcrl.register_env("other", 3), "valid: a class")


def test_posteriors_say_what_serves_them():
    vgcrl.register_posterior("mine", POSTERIORS["state-fixed"], linear=1, sigma=True)
    vgcrl.register_method("mine", METHODS["gcrl"]._replace(posteriors=("mine",)))
    config = resolve(Options("mine", sigma=0.5, critic="successor"))
    assert (config.posterior, config.sigma) == ("mine", 0.5)
    vgcrl.register_posterior("mine", POSTERIORS["state-fixed"])
    one_line(lambda: resolve(Options("mine", sigma=0.5)), "--sigma does not apply to --posterior mine")
    one_line(lambda: resolve(Options("mine", critic="successor")), "--critic successor needs")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"goals": None}, "method 'mine' has goals None; valid: a function of an EnvSpec"),
        ({"posteriors": ()}, "method 'mine' has posteriors ()"),
        ({"posteriors": "state-huber"}, "method 'mine' has posteriors 'state-huber'"),
        ({"relabel": "hers"}, "--relabel 'hers' is unknown (did you mean her?); valid: none, her, p-her"),
        ({"relabels": ("none", "hers")}, "--relabel 'hers' is unknown"),
        ({"defaults": {"stepz": 3}}, "method 'mine': unknown option 'stepz'; valid: alive_bonus,"),
        ({"of_goal_envs": {"sigmas": lambda spec: 1.0}}, "method 'mine': unknown option 'sigmas'"),
        ({"defaults": {"batch": -3}}, "--batch -3 is out of range; valid: an integer from 1 to 1048576"),
        ({"of_bodies": {"batch": "large"}}, "--batch 'large' is not valid; valid: an integer"),
    ],
)
def test_a_row_that_makes_no_sense_is_not_registered(change, words):
    one_line(lambda: vgcrl.register_method("mine", METHODS["gcrl"]._replace(**change)), words)
    assert "mine" not in METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_row_may_be_the_start_of_another(name):
    vgcrl.register_method("mine", METHODS[name])
    assert METHODS["mine"] is METHODS[name]


class Mean(Direct):
    mean: jax.Array

    def log_prob(self, z):
        return -jax.numpy.sum((z - self.mean) ** 2)

    def mode(self):
        return self.mean


class Unfinished(Plain):
    def __call__(self, s):
        return Mean(s)


def test_a_posterior_may_be_registered_after_its_method():
    vgcrl.register_method("mine", METHODS["gcrl"]._replace(posteriors=("late",)))
    run = lambda: vgcrl.compile("mine", **TINY).init()  # noqa: E731
    one_line(run, "posterior 'late' of method 'mine' is unknown; valid: state-fixed, ")
    vgcrl.register_posterior("late", lambda key, build: None)
    one_line(run, "posterior 'late' was built as a NoneType; valid: what has the methods of")
    vgcrl.register_posterior("late", lambda key, build: Unfinished())
    one_line(run, "posterior 'late' returns a Mean, which has no sample and no expect; valid: what has the methods of")
    vgcrl.register_posterior("late", POSTERIORS["state-fixed"])
    assert run().iteration == 0


def test_environments_by_a_short_name():
    vgcrl.register_env("harbour", Ship)
    config = resolve(Options("diayn", "harbour", horizon=6, env_arg=("current=0.5",)))
    assert config.plugins == (__name__,)
    assert config.build_host_envs(1, 1).pool.parts[0].envs[0].current == 0.5
    one_line(lambda: resolve(Options("diayn", "harbour", horizon=6, workers=1)), "--workers: harbour is not known")
    narrow = type("Narrow", (Ship,), {"observation_space": spaces.Box(-5, 5, (3,))})
    for ship, high in ((Ship, np.inf), (narrow, 5.0)):  # registered again under the same name
        vgcrl.register_env("harbour", ship)
        assert resolve(Options("diayn", "harbour", horizon=6)).specification.high == (high,) * 3
    vgcrl.register_env("small", ENVS["pointmass"])
    assert resolve(Options("diayn", "small", dims=3)).specification.obs_dim == 6


def test_installed_plugins_are_imported(monkeypatch):
    points = [EntryPoint("disc", "own_method", modules.PLUGINS)]
    monkeypatch.setattr(modules, "entry_points", lambda group: points if group == modules.PLUGINS else [])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    modules.import_plugins.cache_clear()
    modules.import_plugins()
    assert "disc" in METHODS
    points[:] = [EntryPoint("gone", "no_such_plugin", modules.PLUGINS)]
    modules.import_plugins.cache_clear()
    one_line(modules.import_plugins, "the plug-in 'gone'", "no_such_plugin")
    points.clear()
    modules.import_plugins.cache_clear()
