"""What each number of an evaluation means: its name in the paper, chance, best, and which way is better."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.envs import bodies
from vgcrl.measure import target_states
from vgcrl.measure.places import RADII
from vgcrl.objective.goals import Box, Discrete, GoalSpace, Normals, Sphere, TanhBox
from vgcrl.objective.methods import METHODS
from vgcrl.objective.types import key_of_seed
from vgcrl.show.tables import Table, number, with_interval
from vgcrl.training.program import Program

STARTS = 1000  # starts that are drawn to estimate what standing still scores
MOST_SEEDS = MOST_SETTINGS = 6  # up to so many have a column each


class Scale(NamedTuple):
    label: str
    what: str
    higher: bool  # whether higher is better
    chance: float | None = None
    best: float | None = None
    chance_is: str = ""  # what chance is, where it is not plain guessing


def chance_and_best(goals: GoalSpace) -> tuple[float | None, float]:
    """Returns LGR(z) of a q that knows nothing, or None where that is not known, and of one that knows the goal.

    The first answers with the middle of the prior, or on a sphere with any direction. For normal goals q answers with a
    direction only, a vector of length 1.
    """

    def normals(d: int) -> tuple[float, float]:
        length = math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))  # mean length of a goal
        return 1 + 1 / d, 1 + (1 - 2 * length) / d

    table: dict[type, Callable[[Any], tuple[float, float]]] = {
        Box: lambda z: (float(np.mean((np.array(z.high) - np.array(z.low)) ** 2) / 12), 0.0),
        TanhBox: lambda z: (1 / 3, 0.0),
        Sphere: lambda z: (2 / z.dim, 0.0),
        Normals: lambda z: normals(z.dim),
    }
    return table[type(goals)](goals) if type(goals) in table else (None, 0.0)


def starts_and_targets(program: Program) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns start states and target states of LGR(s) as evaluations have them, each (state, obs).

    Returns None where there are no targets, where settings differ in them, or where they take long to compute.
    """
    config, spec, task = program.config, program.spec, bodies.TASKS.get(program.config.env)
    if task:
        found = target_states.for_spec(config.env, spec)
        if found is None or task.rich:
            return None
        start = np.zeros(spec.obs_dim, np.float32)
        start[list(spec.position)] = bodies.load(task).qpos0[-len(spec.position) :]
        return start[None], np.asarray(found)
    if not config.native or "projection_seed" in config.swept:  # then settings have different environments
        return None
    env = config.build_env()
    reset = jax.jit(jax.vmap(lambda key: env.reset(key)[1]))
    keys = jnp.stack([jax.random.split(key_of_seed(i), STARTS) for i in range(2)])
    return np.asarray(reset(keys[0])), np.asarray(reset(keys[1]))


def middle_or_still(program: Program, dims: slice | list[int]) -> tuple[float, str] | None:
    """Returns the score and the name of the better of two policies that know nothing, or None where it is not known.

    One always ends in the middle of the targets, the other stands still. The score is the mean squared distance to the
    targets in `dims`.
    """
    found = starts_and_targets(program)
    if found is None:
        return None
    start, target = (np.asarray(x, np.float64)[:, dims] for x in found)
    still = float(np.mean(np.sum((target[:, None] - start[None, :50]) ** 2, axis=-1)))
    middle = float(np.sum(np.var(target, axis=0)))
    return (middle, "always ending in the middle") if middle < still else (still, "standing still")


def _goal_scale(goals: GoalSpace) -> Scale:
    if isinstance(goals, Discrete):
        return Scale("LGR(z)", "share of goals that q reads off the final state", True, 1 / goals.dim, 1.0)
    what = "squared distance of the goal from the mode of q at the end"
    return Scale("LGR(z)", what, False, *chance_and_best(goals))


def _state_scale(label: str, what: str, known: tuple[float, str] | None) -> Scale:
    chance, name = known if known else (None, "")
    return Scale(label, what, False, chance, 0.0, name)


def scales(program: Program) -> dict[str, Scale]:
    """Returns the Scale of each number that says something of this run, in the order in which a reader wants them."""
    goals, spec = program.goals, program.spec
    transition = program.config.posterior in ("lsd", "metra", "metra-discrete", "csf")
    certain = math.log(goals.dim) if isinstance(goals, Discrete) and not transition else None
    aimed = "" if METHODS[program.config.method].bounded else ", which it is not trained to reach"
    found = {
        "F": Scale(f"F{' (no bound)' if transition else ''}", "E[log q(z|s) − log p(z)], in nats", True, 0.0, certain),
        "lgr_z": _goal_scale(goals),
        "lgr_s": _state_scale(
            "LGR(s)", f"squared distance of the final state from a target{aimed}", middle_or_still(program, slice(None))
        ),
    }
    if program.config.env in bodies.TASKS:
        known = middle_or_still(program, list(spec.velocity))
        found["lgr_v"] = _state_scale("LGR_v", "the same of the velocity alone, (m/s)²", known)
        found["spread_v"] = Scale("spread of velocity", "standard deviation over episodes, m/s", True, 0.0)
    found["coverage"] = Scale("coverage", "cells of 1 m that any skill entered", True)
    found["success"] = Scale("places reached", f"share of places come within {RADII['']} m of", True, None, 1.0)
    asked = "share of episodes in which the environment's own goal is reached"
    found["env_success"] = Scale("environment's success", asked, True, None, 1.0)
    found["env_success_end"] = Scale("its success at the end", "the same at the last step", True, None, 1.0)
    found["distance_left"] = Scale("distance left", "from the place asked for, at the end, m; median", False, None, 0.0)
    return found


def explained(record: dict[str, Any], known: dict[str, Scale], names: Sequence[str] = ("",)) -> Table:
    """Returns a table with a row for each number of an evaluation: what it is, its means, chance and best.

    There is a mean for each setting of `names`; where there is one setting, its seeds are shown too.
    """
    seeds, settings = record["seeds"], record.get("settings", [record])
    shown = [name for name in known if any(row.get(name) is not None for row in seeds)]
    spread = "mean ± 95 %" if len(seeds) > len(settings) else "value"
    each = seeds if len(settings) == 1 < len(seeds) <= MOST_SEEDS else []

    def row(name: str) -> list[str]:
        scale = known[name]
        what = scale.what + (f" (chance: {scale.chance_is})" if scale.chance_is else "")
        means = [with_interval(one["mean"][name], one["ci95"][name]) for one in settings]
        facts = [number(scale.chance), number(scale.best), "higher" if scale.higher else "lower"]
        return [f"{scale.label}: {what}", *means, *facts, *(number(row[name]) for row in each)]

    heads = [f"{name}, {spread}" if name else spread for name in names]
    return Table(
        ["", *heads, "chance", "best", "better is", *(f"seed {row['seed']}" for row in each)], [row(n) for n in shown]
    )
