"""The parts of a program, built from a configuration: specification, goal space, agent and posterior."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from jax import Array
from jaxtyping import Key

from vgcrl.envs import Vectorised
from vgcrl.objective.agents.base import Agent
from vgcrl.objective.agents.sac import sac
from vgcrl.objective.agents.sac_discrete import sac_discrete
from vgcrl.objective.goals import GoalSpace
from vgcrl.objective.methods import METHODS
from vgcrl.objective.networks import INPUTS, MLP, Linear, Spectral
from vgcrl.objective.pictures import PictureMLP
from vgcrl.objective.posteriors import LINEAR, POSTERIORS, Build, PosteriorView, Standardiser
from vgcrl.objective.types import EnvSpec, Knobs
from vgcrl.training.config import Config

KAPPA = 5.0  # concentration of von Mises–Fisher posteriors


class Components(NamedTuple):
    """The parts that all runs of a program share."""

    config: Config
    spec: EnvSpec
    features: tuple[int, ...]
    goals: GoalSpace
    agent: Agent
    collects: int  # environment steps (per environment) and updates in one iteration
    updates: int


def network(config: Config, spec: EnvSpec, width: int, goal: bool = False) -> Callable:
    """Returns the constructor of a network that sees `width` numbers, which may be pictures, and with `goal` also a
    goal, which is a picture if goals are states."""
    if config.encoder != "conv":
        return MLP.init
    pictures = width // math.prod(spec.image) + (goal and METHODS[config.method].goal_dim is None)
    return partial(PictureMLP.init, shape=spec.image, pictures=pictures)


def goal_space(config: Config) -> GoalSpace:
    """Returns the goal space of a configuration."""
    spec = config.specification
    return METHODS[config.method].goals(spec, config.feature_indices(spec), config.goal_dim)


def build_components(config: Config) -> Components:
    """Returns the parts that all runs of a configuration share."""
    spec, goals = config.specification, goal_space(config)
    features = config.feature_indices(spec)
    successor = config.critic == "successor"  # adds a constant and the entropy to the features
    cumulant_dim = goals.dim + LINEAR[config.posterior] + 2 if successor else 1
    build = sac if spec.first_action is None else sac_discrete
    agent = build(
        spec.obs_dim,
        spec.action_dim,
        goals.embed,
        goals.dim,
        hidden=config.hidden,
        discount=config.discount,
        target_rate=config.target_rate,
        target_entropy=config.target_entropy,
        initial_alpha=config.initial_alpha,
        cumulant_dim=cumulant_dim,
        scale=INPUTS[config.inputs],
        relative=features if config.relative_goals else (),
        unseen=spec.place if config.relative_goals else (),
        network=network(config, spec, spec.obs_dim, goal=True),
    )
    return Components(config, spec, features, goals, agent, *config.schedule)


def native_envs(p: Components, knobs: Knobs, count: int) -> Vectorised:
    """Returns `count` parallel native environments of one run."""
    return Vectorised(p.config.build_env(knobs, count * p.config.runs), count)


def posterior(p: Components, key: Key[Array, ""], knobs: Knobs) -> PosteriorView:
    """Returns the newly initialised posterior of one run."""
    c = p.config
    layer = partial(Spectral.init, bound=knobs.spectral_norm) if any(c.spectral_norm) else Linear
    seen = {"state": len(p.features), "action": len(p.features) + p.spec.action_dim, "transition": 2 * len(p.features)}
    inputs = seen[METHODS[c.method].posterior_input]
    net = network(c, p.spec, len(p.features))
    facts = c.sigma, c.components, KAPPA, p.spec.image, p.goals.log_prob
    build = Build(inputs, c.goal_dim, c.hidden, layer, *facts, network=net)
    standard = Standardiser.init(len(p.features)) if c.posterior_features == "standard" else None
    return PosteriorView(
        POSTERIORS[c.posterior](key, build), p.features, METHODS[c.method].posterior_input, p.spec.action_dim, standard
    )
