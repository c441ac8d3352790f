"""Every option is in the signatures that editors and notebooks show, with the type and the default it has."""

import inspect
from collections.abc import Sequence
from typing import get_type_hints

import jax
import numpy as np
import pytest

import vgcrl
from test_foreign import one_line
from vgcrl.training.config import DEFAULTS, FIELDS
from vgcrl.training.fields import described, kind_of
from vgcrl.training.resolve import resolve
from vgcrl.use.given import TrainOptions, to_options

FUNCTIONS = ("train", "resume", "evaluate", "report", "load", "lgr", "explore", "film", "compile", "make", "stop_when")
TAKING_OPTIONS = ("train", "compile", "make")


def asked_for(name):
    """Whether an option is one of those that the functions do not name by themselves."""
    return name not in ("method", "env", "steps", "seeds") and not described(FIELDS[name]).hidden


def as_given(field):
    """The type of an option as Python gives it."""
    kind = kind_of(field)
    if field.name == "features":
        return str | int | Sequence[int]
    return kind.each | Sequence[kind.each] if kind.several else kind.each


def test_options_are_those_of_a_configuration():
    assert get_type_hints(TrainOptions) == {name: as_given(f) for name, f in FIELDS.items() if asked_for(name)}


@pytest.mark.parametrize("function", TAKING_OPTIONS)
def test_every_option_is_spelled_out(function):
    parameters = inspect.signature(getattr(vgcrl, function)).parameters
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    options = {name for name in FIELDS if asked_for(name)}
    assert options <= parameters.keys()
    for name in options:
        assert parameters[name].default == DEFAULTS.get(name), name
        assert parameters[name].annotation == as_given(FIELDS[name]) | None, name


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_an_example_and_no_open_end(function):
    found = getattr(vgcrl, function)
    assert ">>> " in (inspect.getdoc(found) or "")
    kinds = {p.kind for p in inspect.signature(found).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_whole_numbers_are_numbers():
    env = vgcrl.make("windy-pointmass", wind=(40, 0))
    assert env.spec.facts["wind"] == [40.0, 0.0]
    with jax.numpy_dtype_promotion("strict"):
        sim, _ = env.reset(jax.random.key(0))
        _, obs, _ = env.step(sim, jax.numpy.zeros(2), jax.random.key(1))
    assert obs.shape == (4,)


@pytest.mark.parametrize("given", [1, np.int64(1), 1.0, [1], range(1, 2), np.array([1.0])])
def test_features_are_a_number_or_several(given):
    assert to_options({"features": given})["features"] == "1"


@pytest.mark.parametrize("given", [{1}, True, [True], [0.5], [[0]]])
def test_features_that_are_no_numbers(given):
    one_line(lambda: resolve(to_options({"features": given})), "--features", "is not understood", "distinct indices")


@pytest.mark.parametrize("option", ["learning_rate", "sigma", "steps"])
def test_whole_numbers_of_any_size_are_told(option):
    one_line(lambda: to_options({option: 10**400}), "so large a number is out of range")


def test_one_environment_is_made():
    one_line(lambda: vgcrl.make("projected-pointmass", projection_seed=(3, 4)), "--projection-seed 3,4", "one value")
    assert vgcrl.make("projected-pointmass", projection_seed=[4]).spec.facts["projection"]


def test_a_report_of_nothing():
    one_line(vgcrl.report, "no folder", "run folders")
