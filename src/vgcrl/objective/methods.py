"""Table 1 of the paper: an entry per method with goal space, prior, posterior, what q learns, and technique."""

from collections.abc import Callable
from typing import Any, NamedTuple

from vgcrl.objective.goals import Box, Discrete, GoalSpace, Normals, Sphere, TanhBox, Visited, cube
from vgcrl.objective.posteriors.nonparametric import DECOYS
from vgcrl.objective.relabel import RELABELS
from vgcrl.objective.types import EnvSpec


class Method(NamedTuple):
    """An entry of the table of methods. `space`, `prior`, `q` and `learned` are what tables and reports print."""

    goals: Callable[[EnvSpec, tuple[int, ...], int], GoalSpace]  # (spec, features, goal dimension) -> goal space
    space: str
    prior: str
    posteriors: tuple[str, ...]  # names of those it may use, the default first
    q: str
    learned: str
    relabel: str  # default of --relabel
    goal_dim: int | None  # default of --goal-dim; None: the number of features, which cannot be changed
    goal_dim_min: int = 1
    spectral: bool = True  # q has layers that spectral normalisation can bound
    relabels: tuple[str, ...] = tuple(RELABELS)  # valid values of --relabel
    why: str = ""  # why other values are not valid, for the error message
    posterior_input: str = "state"  # what q sees of a step: state, action or transition
    poses: bool = False  # by default q sees positions only, where these are known
    critic: str = "scalar"  # default of --critic
    posterior_rate: float = 1.0  # default learning rate of q relative to the policy's: larger for few parameters
    defaults: dict[str, Any] = {}  # noqa: RUF012 — options whose default differs from the usual one
    of_bodies: dict[str, Any] = {}  # noqa: RUF012 — defaults for robots
    of_places: dict[str, Any] = {}  # noqa: RUF012 — defaults with `--positions yes`
    of_goal_envs: dict[str, Any] = {}  # noqa: RUF012 — defaults in goal environments; or functions of EnvSpec

    @property
    def bounded(self) -> bool:
        """Whether goals are states, with a uniform prior over their range, which must then be known."""
        return self.goals is states

    @property
    def technique(self) -> str:
        """The method's technique as tables name it."""
        return "successor features" if self.critic == "successor" else RELABELS[self.relabel].label


def states(spec: EnvSpec, features: tuple[int, ...], goal_dim: int) -> Box:
    """Returns the goal space of features of the state, uniform over their range."""
    return Box(tuple(float(spec.low[i]) for i in features), tuple(float(spec.high[i]) for i in features))


def _sized(space: Callable[[int], GoalSpace]) -> Callable[[EnvSpec, tuple[int, ...], int], GoalSpace]:
    return lambda spec, features, goal_dim: space(goal_dim)


# As METRA's authors train: short episodes, a low learning rate, little noise at first. The scale of what φ sees decides
# whether it learns, so features are standardised. No harm of many environments was seen: Ant covered more at 1M steps
# with 512 (2 seeds) than with 128 (4 seeds), and at 6M the two overlap; 16 were run to 1.5M only (results/skills)
STANDARD: dict[str, Any] = {"posterior_features": "standard", "initial_alpha": 0.01}
MOVING: dict[str, Any] = {
    "learning_rate": (1e-4,),
    "updates_per_step": 1 / 32,
    "envs": 128,
    "horizon": 200,
    "positions": True,
}


# For goals that are places: the reward of a step is the decrease of the distance, far from the goal; the policy sees
# goal − place, with small distances well resolved (results/skills)
GOING: dict[str, Any] = {
    "posterior": "state-huber",
    "sigma": 0.25,
    "reward": "progress",
    "relative_goals": True,
    "relabel": "none",
    "inputs": "symlog",
    "initial_alpha": 0.01,
    "updates_per_step": 0.125,
    "horizon": 200,
}


def range_of_goals(spec: EnvSpec) -> float:
    """The mean range of a goal environment's goals."""
    return sum(spec.high[i] - spec.low[i] for i in spec.goal) / len(spec.goal)


def twelfth_of_range(spec: EnvSpec) -> float:
    """A twelfth of the mean range of a goal environment's goals, to two digits."""
    return float(f"{range_of_goals(spec) / 12:.2g}")


def sixth_of_range(spec: EnvSpec) -> float:
    """A sixth of the mean range of a goal environment's goals, to two digits."""
    return float(f"{range_of_goals(spec) / 6:.2g}")


def quarter_of_episode(spec: EnvSpec) -> int:
    """A quarter of an episode and at least 50 steps, which is time to arrive."""
    return max(spec.horizon // 4, 50)


# For goal environments: small networks that learn fast, relabelling with goals that the same episode reached later
PURSUING: dict[str, Any] = {
    "steps": 100_000,
    "hidden": (128, 128),
    "learning_rate": (1e-3,),
    "random_steps": 3_000,
    "evaluate_episodes": 25,
    "relabel_state": "later",
    "relabel_fraction": (0.8,),
}
# Around walls: far goals all have the same log q, so a detour costs nothing but time. The progress of a step is a small
# number, which critics learn soon, and target critics follow them fast: a value comes no further than τ steps with
# each update. An episode pursues several goals, so that it goes to more places (results/mazes)
AROUND: dict[str, Any] = {
    "posterior": "state-floored",
    "sigma": twelfth_of_range,
    "reward": "progress",
    "initial_alpha": 0.01,
    "target_rate": 0.02,
    "goal_steps": quarter_of_episode,
}
# If q is a Gaussian, far goals pull through walls; a discount near 1 values the way around them
LONG_VIEW: dict[str, Any] = {"sigma": sixth_of_range, "discount": 0.998, "initial_alpha": 0.1}


def _displacement(goals: Callable, posterior: str, prior: str, learned: str, **rest: Any) -> Method:
    """Returns an entry for LSD, METRA or CSF, whose goals are directions in which φ(s) is to move."""
    fields: dict[str, Any] = {"space": "unit sphere", "goal_dim": 2, "goal_dim_min": 2, "defaults": STANDARD, **rest}
    return Method(
        goals,
        posteriors=(posterior,),
        prior=prior,
        q="∝ p(z) exp⟨φ(s') − φ(s), z⟩",
        learned=learned,
        relabel="none",
        relabels=("none",),
        why="its q sees a transition, and a goal cannot be read off a later state alone",
        posterior_input="transition",
        of_bodies=MOVING,
        **fields,
    )


METHODS = {
    "gcrl": Method(
        states,
        "states",
        "uniform over the arena",
        ("state-fixed", "state-huber", "state-floored"),
        q="N(s, σ²I)",
        learned="-",
        relabel="her",
        goal_dim=None,
        spectral=False,
        of_places=GOING,
        of_goal_envs={**PURSUING, **AROUND},
    ),
    "agcrl": Method(
        states,
        "states",
        "uniform over the arena",
        ("state-global", "state-global-full"),
        q="N(s, Σ)",
        learned="Σ",
        relabel="her",
        goal_dim=None,
        spectral=False,
        posterior_rate=5.0,
        of_goal_envs={**PURSUING, **LONG_VIEW},
    ),
    "lingcrl": Method(
        _sized(cube),
        "box [-1,1]^d",
        "uniform",
        ("linear-global", "linear-fixed"),
        q="N(A s, Σ)",
        learned="A, Σ",
        relabel="p-her",
        goal_dim=2,
        posterior_rate=5.0,
    ),
    "diayn": Method(
        _sized(Discrete),
        "k categories",
        "uniform",
        ("categorical",),
        q="Categorical(s)",
        learned="network",
        relabel="none",
        goal_dim=10,
        goal_dim_min=2,
        posterior_rate=0.5,  # where q is as fast as the policy, two skills more often share a place to the end
    ),
    "vgcrl": Method(
        _sized(TanhBox),
        "box [-1,1]^d",
        "uniform",
        ("gaussian", "gaussian-fixed", "gaussian-global", "gaussian-full", "gmm"),
        q="tanh N(μ(s), Σ(s)) or mixture",
        learned="network",
        relabel="p-her",
        goal_dim=2,
    ),
    "infogail": Method(
        _sized(Discrete),
        "k categories",
        "uniform",
        ("categorical",),
        q="Categorical(s, a)",
        learned="network",
        relabel="none",
        goal_dim=10,
        goal_dim_min=2,
        relabels=("none",),
        why="its q sees the action, and a goal cannot be read off a later state alone",
        posterior_input="action",
    ),
    "discern": Method(
        lambda spec, features, goal_dim: Visited(len(features), DECOYS),
        "states",
        "visited, diverse",
        ("nonparametric", "nonparametric-conv"),
        q="softmax of similarity",
        learned="embedding",
        relabel="her",
        goal_dim=None,
        relabels=("none", "her"),
        why="its q is a softmax over a goal and decoys, a sample of which is no state that was reached",
        poses=True,
        posterior_rate=0.1,  # before goals are reached the likelihood makes all states alike
    ),
    "visr": Method(
        _sized(Sphere),
        "unit sphere",
        "uniform",
        ("vmf",),
        q="vMF(μ(s), κ)",
        learned="μ network",
        relabel="none",
        goal_dim=2,
        goal_dim_min=2,
        critic="successor",
    ),
    "dads": Method(
        _sized(Discrete),
        "k categories",
        "uniform",
        ("dynamics",),
        q="∝ p(s'|s, z)",
        learned="skill dynamics",
        relabel="none",
        goal_dim=10,
        goal_dim_min=2,
        relabels=("none",),
        why="its q sees a transition, and a goal cannot be read off a later state alone",
        posterior_input="transition",
    ),
    "lsd": _displacement(
        _sized(Normals),
        "lsd",
        "normal",
        "φ, every layer bounded",
        space="R^d",
        goal_dim_min=1,
        defaults={**STANDARD, "spectral_norm": (1.0,)},
    ),
    "metra": _displacement(_sized(Sphere), "metra", "uniform", "φ, ‖Δφ‖ ≤ 1 by a dual"),
    "metra-discrete": _displacement(
        _sized(Discrete), "metra-discrete", "uniform", "φ, ‖Δφ‖ ≤ 1 by a dual", space="k categories", goal_dim=16
    ),
    "csf": _displacement(_sized(Sphere), "csf", "uniform", "φ, contrastive", critic="successor"),
}
