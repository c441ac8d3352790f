"""The configuration of a run: every option, with its help, range and choices in one line, and a value for each.

`resolve` decides what a user leaves open. A new option is a field here; a default that depends on the environment or
the method is in their rows (`envs.ENVS`, `objective.methods.METHODS`).
"""

import dataclasses
import functools
import json
import math
from dataclasses import dataclass
from typing import Any

from vgcrl.envs import Engine, Env, HostEnvs, find, modules, own
from vgcrl.envs.contract import check_alike
from vgcrl.envs.mjx_engine import PHYSICS
from vgcrl.errors import UsageError
from vgcrl.objective.learner import CRITICS, REWARDS
from vgcrl.objective.methods import METHODS
from vgcrl.objective.networks import INPUTS
from vgcrl.objective.pictures import ENCODERS
from vgcrl.objective.relabel import RELABELS
from vgcrl.objective.types import EnvSpec, Knobs
from vgcrl.training.fields import EPISODES, HUGE, check, digits, flag, is_whole, kind_of, knobs_in_words, option
from vgcrl.training.goal_features import feature_indices, with_range
from vgcrl.training.replay import RELABEL_STATES

ENGINES = ("auto", "jax", "mujoco", "mjx", "warp", "gymnasium")
WIDEST = 2**16  # largest width of layers and observations
BEFORE = {"encoder": "mlp"}  # values in files older than an option, where they differ from its default
KNOBS = Knobs._fields  # options that take several values in one program, one run for each


@dataclass(frozen=True, kw_only=True)
class Config:
    """The value of every option of a run. None: the option does not apply to its environment or engine."""

    method: str = option(
        "goal space, prior, posterior and technique: see `vgcrl list methods`", "diayn", choices=METHODS
    )
    env: str = option("see `vgcrl list envs`; any installed Gymnasium id", "pointmass")
    steps: int = option("environment steps of each run", least=1)
    seeds: int = option("runs with different seeds, trained together", 3, least=1, most=2**16)
    seed: int = option("the first seed", 0, least=0)
    envs: int = option("parallel environments of each run", least=1)
    engine: str = option("simulator: {choices}", "auto", choices=ENGINES)
    dims: int | None = option("dimensions of the point mass", least=1, most=WIDEST)
    wind: tuple[float, ...] | None = option(
        "range of the random force on each dimension",
        least=0,
        most=HUGE,
        valid=f"numbers from 0 to {HUGE:g}, one per dimension",
        metavar="R0,R1,...",
    )
    projection_dim: int | None = option("rows M of the projection W", least=1, most=WIDEST)
    projection_seed: tuple[int, ...] | None = option("seed of the projection W", least=0, metavar="S")
    terminate: bool | None = option("end an episode when the robot is unhealthy (Ant, Humanoid)")
    alive_bonus: float = option(
        "added to the reward of every step, so that staying healthy pays", 0.0, least=-HUGE, most=HUGE
    )
    horizon: int = option("time limit of an episode in steps; default the environment's own", least=1)
    positions: bool | None = option("put the robot's place (x, or x and y) in front of the observation", None)
    physics: str | None = option(
        "physics of mjx and warp: {choices}; fast is Euler with few solver iterations", choices=PHYSICS
    )
    workers: int | None = option(
        "worker processes of a Gymnasium environment; 0: threads of this process", least=0, most=1024
    )
    env_arg: tuple[str, ...] | None = option("argument of gymnasium.make; repeat for more", None, metavar="KEY=VALUE")
    goal_range: tuple[float, ...] | None = option(
        "range of goals that are states: low,high of all features, or a pair for each; default the environment's",
        None,
        least=-HUGE,
        most=HUGE,
        metavar="LOW,HIGH",
    )
    goal_dim: int = option("dimension of z, or number of categories", least=1)
    features: str = option("dimensions of the observation that q sees: all|place|position|velocity|0,1,5")
    posterior: str = option(
        "family of q, one of the method's; of vgcrl: gaussian|gaussian-fixed|gaussian-global|gaussian-full|gmm"
    )
    sigma: float = option(
        "standard deviation of q: its value where fixed, its start where learned", 1.0, least=1e-6, most=HUGE
    )
    components: int = option("components of a mixture", 8, least=1)
    relabel: str = option("goals for the policy update: {choices}", choices=RELABELS)
    relabel_fraction: tuple[float, ...] = option("share of a batch that is relabelled", least=0, most=1, metavar="P")
    relabel_state: str = option(
        "state that a relabelled goal is inferred from: {choices}", "final", choices=RELABEL_STATES
    )
    goal_steps: int = option("mean environment steps until a new goal is drawn within an episode; 0: never", 0, least=0)
    spectral_norm: tuple[float, ...] = option(
        "bound on the spectral norm of every layer of q; 0: off",
        (0.0,),
        least=0,
        most=HUGE,
        valid=f"a bound from 0 to {HUGE:g}, where 0 is off",
        metavar="C",
    )
    reward: str = option(
        "{choices}: log q(z|s'), or log q(z|s') − log q(z|s)",
        "level",
        choices=REWARDS,
    )
    critic: str = option("{choices}: Q-values, or successor features of log q; default the method's", choices=CRITICS)
    gpi: int = option(
        "goals whose policies are tried for an action, by generalised policy improvement; 0: off", 0, least=0, most=1024
    )
    hidden: tuple[int, ...] = option("hidden layers of every network", least=1, most=WIDEST, metavar="H1,H2")
    posterior_features: str = option(
        "features as q sees them: {choices}; standard: zero mean, unit variance",
        "raw",
        choices=("raw", "standard"),
    )
    relative_goals: bool = option(
        "policy and critics see goal − state instead of the goal, and do not see the robot's place", False
    )
    encoder: str = option(
        "network for image observations: {choices}; auto: conv where observations are bytes",
        "auto",
        choices=("auto", *ENCODERS),
    )
    inputs: str = option("observations and goals as policy and critics see them: {choices}", "raw", choices=INPUTS)
    batch: int = option("transitions per update", least=1, most=2**20)
    learning_rate: tuple[float, ...] = option(
        "learning rate of policy, critics and temperature", least=0, most=HUGE, metavar="LR"
    )
    posterior_learning_rate: tuple[float, ...] = option("learning rate of q", least=0, most=HUGE, metavar="LR")
    discount: float = option("discount factor γ", 0.99, least=0, most=1 - 2**-24, valid="a number from 0 to below 1")
    target_rate: float = option("τ of the target critics: target ← (1 − τ) target + τ critic", 0.005, least=0, most=1)
    initial_alpha: float = option("temperature of SAC at the start", 1.0, least=1e-9, most=HUGE)
    target_entropy: float = option(
        "target entropy of SAC; default −|A|/2, or log(n)/2 for n discrete actions", least=-HUGE, most=HUGE
    )
    updates_per_step: float = option(
        "gradient updates per environment step", least=1e-6, most=1000, valid="a positive number up to 1000"
    )
    random_steps: int = option("environment steps of random actions before learning starts", least=0)
    replay: int = option(
        "replay size in environment steps; the end of an episode takes as much room as a step", least=1
    )
    evaluate_every: int = option(
        "environment steps between evaluations; default a twentieth of --steps, or more", least=1
    )
    evaluate_episodes: int = option("evaluation episodes of each run", least=1, most=EPISODES)
    checkpoint_every: int | None = option(
        "environment steps between checkpoints; default as evaluations, but in at most a twentieth of the time",
        least=1,
    )

    log_every: int | None = option(
        "environment steps between training numbers in TensorBoard; default as evaluations", None, least=1
    )
    plugins: tuple[str, ...] = option("modules that registered what the run is made of", (), hidden=True)

    @property
    def simulator(self) -> Engine:
        """The engine that simulates the environment."""
        return find(self.env).engines[self.engine]

    @property
    def native(self) -> bool:
        """Whether the environment is native: compiled together with the learner, not run on the host."""
        return self.simulator.native

    @property
    def examiner(self) -> "Config":
        """The configuration that measures this one's runs: itself, or with an exact engine if its own is fast but not
        exact."""
        name = self.simulator.examined_by
        if name is None:
            return self
        gone = set(self.simulator.options) - set(find(self.env).engines[name].options)
        return dataclasses.replace(self, engine=name, **dict.fromkeys(gone))

    @property
    def runs(self) -> int:
        """Number of runs: one for each setting and seed."""
        return self.seeds * len(self.settings)

    @property
    def _env_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.simulator.options}

    def build_env(self, knobs: Any = None, worlds: int = 1) -> Env:
        """Returns a native environment for `worlds` parallel copies, with the values in `knobs`, which may be traced,
        or by default with those of the first setting."""
        values = first_setting(self._env_options)
        values |= {name: getattr(knobs, name) for name in KNOBS if knobs and name in values}
        return self.simulator.build(worlds, **values)

    def build_host_envs(self, runs: int, count: int) -> HostEnvs:
        """Returns environments on the host, `count` for each of `runs` runs."""
        envs, first = self.simulator.build(runs, count, **self._env_options), self.specification
        check_alike(self.env, (first.obs_dim, first.action_dim), (envs.spec.obs_dim, envs.spec.action_dim))
        return envs

    @property
    def specification(self) -> EnvSpec:
        """The specification of the environment, with the ranges in `goal_range`."""
        spec = specification(self.env, self.engine, **self._env_options)
        return with_range(spec, feature_indices(self.features, spec), self.goal_range)

    def feature_indices(self, spec: EnvSpec) -> tuple[int, ...]:
        return feature_indices(self.features, spec)

    @property
    def settings(self) -> list[dict[str, float]]:
        """The values of the knobs, one entry per setting; every setting is run with every seed."""
        values = {k: getattr(self, k) or (0,) for k in KNOBS}
        count = max(map(len, values.values()))
        return [{k: v[i % len(v)] for k, v in values.items()} for i in range(count)]

    def of_setting(self, setting: int) -> "Config":
        """Returns the configuration of one setting alone."""
        values = self.settings[setting]
        return dataclasses.replace(self, **{name: (values[name],) for name in self.swept})

    @property
    def swept(self) -> list[str]:
        """Names of the knobs that have several values."""
        return [k for k in KNOBS if len(getattr(self, k) or ()) > 1]

    @property
    def setting_names(self) -> list[str]:
        """A name for each setting, made of the knobs that differ; the name of an only setting is empty."""
        return [", ".join(knobs_in_words({k: values[k] for k in self.swept})) for values in self.settings]

    def find_run(self, seed: int | None = None, setting: int | None = None) -> int:
        """Returns the index of the run with a seed, by default the first, and a setting.

        Settings are counted from 0; if there are several, one must be given.
        """
        seed = self.seed if seed is None else seed
        if not is_whole(seed) or not self.seed <= seed < self.seed + self.seeds:
            raise UsageError(f"seed {seed!r} is not in this run; valid: {self.seed} to {self.seed + self.seeds - 1}")
        count = len(self.settings)
        known = ", ".join(f"{i} ({name})" for i, name in enumerate(self.setting_names)) if self.swept else "0"
        if setting is None and count > 1:
            raise UsageError(f"this run trained {count} settings, and none was chosen; valid: setting {known}")
        if setting is not None and (not is_whole(setting) or not 0 <= setting < count):
            raise UsageError(f"setting {setting!r} is not in this run; valid: {known}")
        return (setting or 0) * self.seeds + int(seed) - self.seed

    def named_run(self, index: int) -> str:
        """Returns the name of a run: its seed, and the knobs in which settings differ."""
        setting, seed = divmod(index, self.seeds)
        knobs = [f"{flag(name)} {digits(self.settings[setting][name])}" for name in self.swept]
        return ", ".join([f"seed {self.seed + seed}", *knobs])

    @property
    def schedule(self) -> tuple[int, int]:
        return schedule(self.envs, self.updates_per_step)

    @property
    def rows(self) -> int:
        """Number of replay rows per environment."""
        return -(-self.replay // self.envs)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> "Config":
        """Returns the configuration in the text of config.json.

        An option that is newer than the file has the value that keeps the run as it was.
        """
        written = json.loads(text)
        if not isinstance(written, dict):
            raise ValueError("it is no JSON object")
        values = BEFORE | written
        modules.check_imported(values.get("plugins"))
        unknown = sorted(set(values) - set(FIELDS))
        if unknown:
            raise UsageError(f"unknown key {unknown[0]!r}; valid: {', '.join(sorted(FIELDS))}")
        left_open = {name for name, x in values.items() if x is None and not kind_of(FIELDS[name]).optional}
        missing = sorted((set(FIELDS) - set(DEFAULTS) - set(values)) | left_open)
        if missing:
            raise UsageError(f"no {missing[0]!r}, which this version needs; valid: a run of this version")
        typed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        for name in (name for name, x in typed.items() if x is not None):
            check(FIELDS[name], typed[name])
        return Config(**typed)


FIELDS: dict[str, dataclasses.Field] = {f.name: f for f in dataclasses.fields(Config)}
DEFAULTS: dict[str, Any] = {name: f.default for name, f in FIELDS.items() if f.default is not dataclasses.MISSING}


def first_setting(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options with the first value of each knob."""
    return {name: x[0] if name in KNOBS else x for name, x in options.items()}


def specification(env: str, engine: str, **options: Any) -> EnvSpec:
    """Returns the specification of an environment on an engine, with the options of both."""
    return specification_of(env, own.revision(env), engine, **options)


@functools.lru_cache(maxsize=64)
def specification_of(env: str, revision: int, engine: str, **options: Any) -> EnvSpec:
    """Returns the same; it is cached until `env` names another object, which changes `revision`."""
    simulator = find(env).engines[engine]
    if simulator.native:
        return simulator.build(1, **first_setting(options)).spec
    worlds = simulator.build(1, 1, **options)
    worlds.close()
    return worlds.spec


def schedule(envs: int, updates_per_step: float) -> tuple[int, int]:
    """Returns steps (per environment) and updates of one iteration: the smallest whole numbers with that ratio."""
    for n in range(1, 1025):
        updates = n * envs * updates_per_step
        if updates >= 1 and math.isclose(updates, round(updates), rel_tol=1e-9):
            return n, round(updates)
    raise UsageError(
        f"--updates-per-step {updates_per_step:g} with --envs {envs}: no whole number of updates "
        "within 1024 steps; valid are simple fractions such as 1, 0.5 or 0.125"
    )
