"""The configuration of a run. It stops at the door: `resolve` fills in what was left open and refuses what is wrong."""

import dataclasses
import functools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, get_args

from vgcrl.envs import ENVS, Engine, Env, EnvRow, HostEnvs, choose, find
from vgcrl.envs.mjx_engine import PHYSICS
from vgcrl.errors import UsageError, hint
from vgcrl.objective.learner import CRITICS
from vgcrl.objective.methods import METHODS
from vgcrl.objective.networks import INPUTS
from vgcrl.objective.posteriors import LINEAR, OPTIONS
from vgcrl.objective.relabel import RELABELS
from vgcrl.objective.types import EnvSpec
from vgcrl.training.replay import RELABEL_STATES, rows_needed

ENGINES = ("auto", "jax", "mujoco", "mjx", "warp", "gymnasium")
LARGEST = 2**31 - 1  # of whole numbers: steps are counted in 32 bits
HUGE = 1e15  # of other numbers: their squares are finite in float32
EPISODES = 2**20  # at most, of an evaluation
KNOBS = ("learning_rate", "posterior_learning_rate", "relabel_fraction", "spectral_norm", "projection_seed")


def option(help: str, default: Any = None, metavar: str = "") -> Any:
    return field(default=default, metadata={"help": help, "metavar": metavar})


@dataclass(frozen=True)
class Config:
    """Types are those after `resolve`; before it None means: what suits the method and the environment.

    Knobs take several values at once, one run each.
    """

    method: str = option("row of Table 1: see `vgcrl list methods`", "diayn")
    env: str = option("environment: see `vgcrl list envs`", "pointmass")
    steps: int = option("environment steps of each run")
    seeds: int = option("runs with different seeds, trained together", 3)
    seed: int = option("the first seed", 0)
    envs: int = option("environments side by side in each run")
    engine: str = option("simulator: " + "|".join(ENGINES), "auto")
    dims: int = option("dimensions of the point mass")
    wind: tuple[float, ...] = option("range of the random force on each dimension", metavar="R0,R1,...")
    projection_dim: int = option("rows M of the projection W")
    projection_seed: tuple[int, ...] = option("seed of the projection W (knob)", metavar="S")
    terminate: bool = option("end an episode when the body is unhealthy, for bodies that can be: yes|no")
    alive_bonus: float = option("added to every reward, so that it pays to go on where episodes can end early", 0.0)
    horizon: int = option("time limit of an episode in steps; default the environment's own")
    positions: bool = option("show where a body is: x, or x and y, in front of the observation: yes|no")
    physics: str = option("of mjx: " + "|".join(PHYSICS) + "; fast is Euler with few solver iterations")
    workers: int = option("processes that step a Gymnasium environment; 0 is threads of this one")
    goal_dim: int = option("dimension of z, or number of categories")
    features: str = option("dimensions of the observation that q sees: all|place|position|velocity|0,1,5")
    posterior: str = option("q: one that the method can use, e.g. gaussian|gaussian-fixed|gaussian-full|gmm")
    sigma: float = option("standard deviation of q where it is fixed, and at the start where it is learned", 1.0)
    components: int = option("components of a mixture", 8)
    relabel: str = option("goals for the policy update: " + "|".join(RELABELS))
    relabel_fraction: tuple[float, ...] = option("share of a batch that is relabelled (knob)", metavar="P")
    relabel_state: str = option("state a goal is read off: " + "|".join(RELABEL_STATES), "final")
    spectral_norm: tuple[float, ...] = option("bound on every layer of q, 0 is off (knob)", (0.0,), metavar="C")
    critic: str = option("scalar|successor: Q itself, or successor features of log q; default the method's")
    gpi: int = option("goals whose policies are tried at evaluation, by generalised policy improvement", 0)
    hidden: tuple[int, ...] = option("hidden layers of every network", metavar="H1,H2")
    posterior_features: str = option(
        "features as q sees them: raw|standard; standard takes off their mean, by their spread",
        "raw",
    )
    inputs: str = option("observations and goals as policy and critics see them: " + "|".join(INPUTS), "raw")
    batch: int = option("transitions per update")
    learning_rate: tuple[float, ...] = option("of policy, critics and temperature (knob)", metavar="LR")
    posterior_learning_rate: tuple[float, ...] = option("of q (knob)", metavar="LR")
    discount: float = option("γ", 0.99)
    target_rate: float = option("τ: share of the critics that the targets take over at each update", 0.005)
    initial_alpha: float = option("temperature of the policy at first", 1.0)
    target_entropy: float = option("of the policy; default −|A|/2")
    updates_per_step: float = option("gradient updates per environment step")
    random_steps: int = option("environment steps of random actions before learning starts")
    replay: int = option("environment steps kept for learning; the end of an episode takes as much room as one")
    evaluate_every: int = option("environment steps between evaluations; default a twentieth of --steps, or more")
    evaluate_episodes: int = option("held-out episodes per evaluation and run")
    checkpoint_every: int = option(
        "environment steps between checkpoints; default as evaluations, as far as that takes a twentieth of the time"
    )

    @property
    def simulator(self) -> Engine:
        return find(self.env).engines[self.engine]

    @property
    def native(self) -> bool:
        return self.simulator.native

    @property
    def runs(self) -> int:
        return self.seeds * len(self.settings)

    def build_env(self, knobs: Any = None, worlds: int = 1) -> Env:
        """For so many side by side, with the values of the knobs in `knobs`, which may be traced, else of the first
        setting."""
        values = {name: getattr(self, name) for name in self.simulator.options}
        values |= {name: getattr(knobs, name) if knobs else values[name][0] for name in KNOBS if name in values}
        return self.simulator.build(worlds, **values)

    def build_host_envs(self, runs: int, count: int) -> HostEnvs:
        """`count` environments in each of `runs`, on the host."""
        return self.simulator.build(runs, count, **{name: getattr(self, name) for name in self.simulator.options})

    @property
    def specification(self) -> EnvSpec:
        return _specification(self)

    def feature_indices(self, spec: EnvSpec) -> tuple[int, ...]:
        return _features(self.features, spec)

    @property
    def settings(self) -> list[dict[str, float]]:
        """The values of the knobs, one entry per setting; every setting is run with every seed."""
        values = {k: getattr(self, k) or (0,) for k in KNOBS}
        count = max(map(len, values.values()))
        return [{k: v[i % len(v)] for k, v in values.items()} for i in range(count)]

    @property
    def swept(self) -> list[str]:
        return [k for k in KNOBS if len(getattr(self, k) or ()) > 1]

    @property
    def schedule(self) -> tuple[int, int]:
        """Environment steps (per environment) and updates in one iteration: the smallest whole numbers of the ratio."""
        for n in range(1, 1025):
            updates = n * self.envs * self.updates_per_step
            if updates >= 1 and math.isclose(updates, round(updates), rel_tol=1e-9):
                return n, round(updates)
        raise UsageError(
            f"--updates-per-step {self.updates_per_step:g} with --envs {self.envs}: no whole number of updates "
            "within 1024 steps; valid are simple fractions such as 1, 0.5 or 0.125"
        )

    @property
    def rows(self) -> int:
        """Replay rows per environment."""
        return -(-self.replay // self.envs)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> "Config":
        values = json.loads(text)
        known = {f.name for f in dataclasses.fields(Config)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise UsageError(f"config.json: unknown key {unknown[0]!r}; this version knows {', '.join(sorted(known))}")
        defaults = {f.name for f in dataclasses.fields(Config) if f.default is not None}  # as it was before the option
        missing = sorted(known - defaults - set(values))
        if missing:
            raise UsageError(f"config.json: no {missing[0]!r}, which this version needs; valid: a run of this version")
        typed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return Config(**typed)


DEFAULTS = {f.name: f.default for f in dataclasses.fields(Config)}


@functools.lru_cache(maxsize=64)
def _specification(c: Config) -> EnvSpec:
    if c.native:
        return c.build_env().spec
    worlds = c.build_host_envs(1, 1)
    worlds.close()
    return worlds.spec


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def spoken(value: Any) -> str:
    """A value as it is given on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def one_of(name: str, value: str, valid: Iterable[str]) -> None:
    valid = list(valid)
    if value not in valid:
        raise UsageError(f"{name} {value!r} is unknown{hint(value, valid)}; valid: {', '.join(valid)}")


def _features(text: str, spec: EnvSpec) -> tuple[int, ...]:
    named = {"all": tuple(range(spec.obs_dim)), "place": spec.place, "position": spec.position}
    named["velocity"] = spec.velocity
    if text in named and not named[text]:
        raise UsageError(
            f"--features {text}: the environment does not say which those are; "
            "valid: all, or indices 0,1,..., or --env of a body such as HalfCheetah (for place with --positions yes)"
        )
    if text in named:
        return named[text]
    valid = f"all, place, position, velocity, or distinct indices from 0 to {spec.obs_dim - 1} such as 0,1"
    try:
        indices = tuple(int(x) for x in text.split(","))
    except ValueError:
        raise UsageError(f"--features {text!r} is not understood; valid: {valid}") from None
    if len(set(indices)) < len(indices) or any(not 0 <= i < spec.obs_dim for i in indices):
        raise UsageError(f"--features {text!r} does not fit {spec.obs_dim} observation dimensions; valid: {valid}")
    return indices


_VALID = {int: "an integer", float: "a number", str: "text", bool: "true or false"}


def _fits(x: Any, kind: type) -> bool:
    return isinstance(x, (int, float) if kind is float else kind) and (kind is bool or not isinstance(x, bool))


def _check_types(c: Config) -> None:
    """A file may have been edited, and Python hands over anything."""
    for f in dataclasses.fields(c):
        value, kind = getattr(c, f.name), f.type
        if value is None and f.default is None:
            continue
        several = kind not in _VALID
        each: Any = get_args(kind)[0] if several else kind
        if isinstance(value, tuple) != several or not all(_fits(x, each) for x in (value if several else (value,))):
            raise UsageError(f"{flag(f.name)} {value!r} is not valid; valid: {_VALID[each]}{', or several' * several}")


def _check_numbers(c: Config) -> None:
    """Ranges of plain numbers: name -> (least, largest, what is valid)."""
    whole = ("steps", "envs", "goal_dim", "components")
    whole += ("horizon", "replay", "evaluate_every", "checkpoint_every")
    most = dict.fromkeys(whole, LARGEST)
    most |= dict.fromkeys(("seeds", "hidden", "dims", "projection_dim"), 2**16)
    most |= {"batch": 2**20, "evaluate_episodes": EPISODES}
    ranges: dict[str, tuple[float, float, str]] = {k: (1, v, f"an integer from 1 to {v}") for k, v in most.items()}
    ranges |= {
        "seed": (0, LARGEST, f"an integer from 0 to {LARGEST}"),
        "projection_seed": (0, LARGEST, f"an integer from 0 to {LARGEST}"),
        "random_steps": (0, LARGEST, f"an integer from 0 to {LARGEST}"),
        "gpi": (0, 1024, "an integer from 0 to 1024"),
        "workers": (0, 1024, "an integer from 0 to 1024"),
        "wind": (0, HUGE, f"numbers from 0 to {HUGE:g}, one per dimension"),
        "sigma": (1e-6, HUGE, f"a number from 1e-06 to {HUGE:g}"),
        "relabel_fraction": (0, 1, "a number from 0 to 1"),
        "spectral_norm": (0, HUGE, f"a bound from 0 to {HUGE:g}, where 0 is off"),
        "learning_rate": (0, HUGE, f"a number from 0 to {HUGE:g}"),
        "posterior_learning_rate": (0, HUGE, f"a number from 0 to {HUGE:g}"),
        "discount": (0, 1 - 1e-9, "a number from 0 to below 1"),
        "target_rate": (0, 1, "a number from 0 to 1"),
        "initial_alpha": (1e-9, HUGE, f"a number from 1e-09 to {HUGE:g}"),
        "target_entropy": (-HUGE, HUGE, f"a number from {-HUGE:g} to {HUGE:g}"),
        "alive_bonus": (-HUGE, HUGE, f"a number from {-HUGE:g} to {HUGE:g}"),
        "updates_per_step": (1e-6, 1000, "a positive number up to 1000"),
    }
    for name, (least, largest, valid) in ranges.items():
        value = getattr(c, name)
        for x in value if isinstance(value, tuple) else () if value is None else (value,):
            if not least <= x <= largest or not math.isfinite(x):
                shown = f"{x:g}" if isinstance(x, float) else str(x) if abs(x) < 1e15 else "so large a number"
                raise UsageError(f"{flag(name)} {shown} is out of range; valid: {valid}")
        if value == ():
            raise UsageError(f"{flag(name)} is empty; valid: {valid}")
    if c.seed + c.seeds - 1 > LARGEST:
        raise UsageError(f"--seed {c.seed} with --seeds {c.seeds}: the last is out of range; valid: up to {LARGEST}")


def _engine(c: Config, row: EnvRow) -> str:
    if c.engine == "auto":
        return choose(row, c.runs * (c.envs if c.envs is not None else row.sizes["envs"]))
    if c.engine not in row.engines:
        raise UsageError(f"--engine {c.engine} does not run {c.env}; valid: auto, {', '.join(row.engines)}")
    return c.engine


def _check_options(c: Config, row: EnvRow, engine: str) -> None:
    """Options given that this environment, or this engine, does not have."""
    for name in sorted({o for r in (*ENVS.values(), row) for o in r.options} - set(row.engines[engine].options)):
        if getattr(c, name) is None:
            continue
        if name in row.options:
            users = ", ".join(e for e, x in row.engines.items() if name in x.options)
            raise UsageError(f"{flag(name)} does not apply to --engine {engine}; valid with: {users}")
        users = ", ".join(e for e, r in ENVS.items() if name in r.options)
        raise UsageError(f"{flag(name)} does not apply to {c.env}; valid for: {users}")


def _resolve_env(c: Config) -> Config:
    row, method = find(c.env), METHODS[c.method]
    usual = method.defaults | (method.of_bodies if "positions" in row.options else {})
    c = dataclasses.replace(c, **{k: v for k, v in usual.items() if getattr(c, k) == DEFAULTS[k]})
    engine = _engine(c, row)
    _check_options(c, row, engine)
    chosen: dict[str, Any] = {}
    for name in row.engines[engine].options:
        given, default = getattr(c, name), row.options[name]
        chosen[name] = given if given is not None else default(**chosen) if callable(default) else default
    if "wind" in chosen and len(chosen["wind"]) != chosen["dims"]:
        raise UsageError(
            f"--wind has {len(chosen['wind'])} values; valid: one per dimension, here {chosen['dims']} (see --dims)"
        )
    sizes = {name: value for name, value in row.sizes.items() if getattr(c, name) is None}
    return dataclasses.replace(c, **chosen, **sizes, engine=engine)


def _without_range(spec: EnvSpec, indices: tuple[int, ...]) -> list[int]:
    """Dimensions whose range is not known, or a single point."""
    return [i for i in indices if not 0 < spec.high[i] - spec.low[i] < math.inf]


def _default_features(c: Config, spec: EnvSpec) -> tuple[int, ...]:
    """All that q may see; positions where goals are poses; velocities where goals need a range that is not known."""
    if METHODS[c.method].poses and spec.position:
        return spec.position
    known = not _without_range(spec, spec.features)
    return spec.features if known or not METHODS[c.method].bounded else spec.place or spec.velocity or spec.features


def _or(names: Iterable[str]) -> str:
    return " or ".join(names)


def _resolve_method(c: Config, spec: EnvSpec) -> Config:
    method = METHODS[c.method]
    features = c.features if c.features is not None else ",".join(map(str, _default_features(c, spec)))
    indices = _features(features, spec)
    width = len(indices)
    unknown = _without_range(spec, indices)
    if method.bounded and unknown:
        raise UsageError(
            f"--features: dimension {unknown[0]} of {c.env} has no known range, which goals of {c.method} need; "
            "valid: dimensions that have one, or a method with goals of its own such as vgcrl or diayn"
        )
    posterior = c.posterior if c.posterior is not None else method.posteriors[0]
    if posterior not in method.posteriors:
        raise UsageError(f"--posterior {posterior!r} cannot serve {c.method}; valid: {', '.join(method.posteriors)}")
    goal_dim = c.goal_dim if c.goal_dim is not None else method.goal_dim or width
    if method.goal_dim is None and goal_dim != width:
        raise UsageError(
            f"--goal-dim {goal_dim} cannot serve {c.method}: its goals are the {width} features of q; valid: {width}"
        )
    if goal_dim < method.goal_dim_min:
        raise UsageError(f"--goal-dim {goal_dim} cannot serve {c.method}; valid: at least {method.goal_dim_min}")
    if any(c.spectral_norm) and not method.spectral:
        raise UsageError(f"--spectral-norm does not apply to {c.method}, whose q has no layers; valid: 0")
    if method.bounded and "projection_seed" in c.swept:
        raise UsageError(
            f"--projection-seed takes one value for {c.method}, whose prior depends on it; valid: one integer"
        )
    relabel = c.relabel if c.relabel is not None else method.relabel
    if relabel not in method.relabels:
        raise UsageError(f"--relabel {relabel} cannot serve {c.method}: {method.why}; valid: {_or(method.relabels)}")
    critic = c.critic if c.critic is not None else method.critic
    if critic == "successor" and posterior not in LINEAR:
        raise UsageError(
            f"--critic successor needs log q linear in features of s, which {posterior} is not; valid: {_or(LINEAR)}"
        )
    if c.gpi and critic != "successor":
        raise UsageError("--gpi needs successor features; valid: --critic successor with it, or 0")
    if posterior.endswith("-conv") and not spec.image:
        raise UsageError(f"--posterior {posterior} needs pictures, {c.env} has numbers; valid: --env pixel-pointmass")
    if posterior.endswith("-conv") and indices != spec.features:
        raise UsageError(f"--posterior {posterior} sees the whole picture; valid: without --features")
    state = c.relabel_state != DEFAULTS["relabel_state"]
    for name, given in {"relabel_fraction": any(c.relabel_fraction or ()), "relabel_state": state}.items():
        if relabel == "none" and given:
            raise UsageError(f"{flag(name)} does not apply without relabelling; valid: --relabel her or p-her with it")
    for name, users in OPTIONS.items():
        if getattr(c, name) != DEFAULTS[name] and posterior not in users:
            raise UsageError(f"{flag(name)} does not apply to --posterior {posterior}; valid with: {', '.join(users)}")
    rate = c.posterior_learning_rate
    return dataclasses.replace(
        c,
        features=features,
        posterior=posterior,
        goal_dim=goal_dim,
        relabel=relabel,
        critic=critic,
        relabel_fraction=c.relabel_fraction if c.relabel_fraction is not None else (0.0 if relabel == "none" else 0.5,),
        posterior_learning_rate=rate if rate is not None else tuple(method.posterior_rate * x for x in c.learning_rate),
        target_entropy=c.target_entropy if c.target_entropy is not None else -spec.action_dim / 2,
    )


def _enough_replay(given: Config, envs: int, horizon: int) -> int:
    """For the episodes under way and one more of each environment, unless told that it is to be less."""
    rows, long = rows_needed(horizon), f"episodes of {horizon} steps"
    if rows > LARGEST:
        raise UsageError(
            f"--horizon {horizon} is too long for any replay; valid: at most {(LARGEST - rows_needed(0)) // 2}"
        )
    if rows * envs > LARGEST:
        raise UsageError(f"--envs {envs} is too many for {long}; valid: at most {LARGEST // rows}")
    if given.replay is not None:
        raise UsageError(
            f"--replay {given.replay} is too small for {envs} environments with {long}; valid: at least {rows * envs}"
        )
    return rows * envs


def resolve(c: Config) -> Config:
    """The same configuration with nothing left open; raises UsageError where it makes no sense."""
    _check_types(c)
    one_of("method", c.method, METHODS)
    one_of("--engine", c.engine, ENGINES)
    one_of("--relabel-state", c.relabel_state, RELABEL_STATES)
    one_of("--inputs", c.inputs, INPUTS)
    one_of("--posterior-features", c.posterior_features, ("raw", "standard"))
    if c.critic is not None:
        one_of("--critic", c.critic, CRITICS)
    if c.physics is not None:
        one_of("--physics", c.physics, PHYSICS)
    if c.relabel is not None:
        one_of("--relabel", c.relabel, RELABELS)
    _check_numbers(c)
    given = c
    c = _resolve_env(c)
    spec = c.specification
    c = _resolve_method(c, spec)
    if len(c.swept) > 1 and len({len(getattr(c, k)) for k in c.swept}) > 1:
        raise UsageError(
            f"{', '.join(map(flag, c.swept))} differ in length; valid: one value, or equally many for each knob"
        )
    if c.rows < rows_needed(spec.horizon):
        c = dataclasses.replace(c, replay=_enough_replay(given, c.envs, spec.horizon))
    n, _ = c.schedule
    least = n * c.envs if c.native else 4 * c.evaluate_episodes * spec.horizon  # on the host episodes are not cheap
    every = c.evaluate_every if c.evaluate_every is not None else max(c.steps // 20, least)
    return dataclasses.replace(c, evaluate_every=every)
