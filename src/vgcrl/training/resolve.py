"""From options to a configuration: decide what was left open, and refuse what does not fit together.

A default that always holds is given with the option, others in the row of the environment or of the method.
"""

import math
from collections.abc import Iterable
from typing import Any

from vgcrl.envs import ENVS, GYMNASIUM, EnvRow, choose, find, modules
from vgcrl.errors import UsageError
from vgcrl.objective.methods import METHODS, Method
from vgcrl.objective.posteriors import BOUNDED_BY_LAYERS, LINEAR, POSTERIORS, UNLEARNED
from vgcrl.objective.posteriors import OPTIONS as POSTERIOR_OPTIONS
from vgcrl.objective.types import EnvSpec
from vgcrl.training.config import DEFAULTS, FIELDS, KNOBS, Config, schedule, specification
from vgcrl.training.fields import LARGEST, flag
from vgcrl.training.goal_features import feature_indices, with_range
from vgcrl.training.options import Options
from vgcrl.training.replay import rows_needed

CHOOSING = 0.5  # target entropy for discrete actions, relative to the largest possible entropy
PICTURES = 100_000  # largest default of the replay size if observations are pictures
Values = dict[str, Any]  # name of an option -> its value


def resolve(given: Options) -> Config:
    """Returns the configuration that options ask for; raises UsageError if they do not fit together."""
    always = DEFAULTS | dict(given)
    _check_last_seed(always)
    row, method = find(always["env"]), METHODS[always["method"]]
    usual = row.sizes | method.defaults | (method.of_bodies if "positions" in row.options else {})
    usual |= method.of_places if given.get("positions") and "positions" in row.options else {}
    usual = _fitting(usual, given, method)
    engine = _engine(usual | always, row)
    env_options = _env_options(given, usual, always["env"], row, engine)
    values: Values = DEFAULTS | usual | dict(given) | env_options | {"engine": engine}
    spec = specification(values["env"], engine, **env_options)
    _check_goal_range(values, method)
    values = {"features": _default_features(method, spec, values["goal_range"] is not None)} | values
    features = feature_indices(values["features"], spec)
    spec = with_range(spec, features, values["goal_range"])
    values |= _goal_env_defaults(given, method, spec, features)
    values = _method_defaults(method, features) | values
    values = _learning_defaults(values, method, spec) | values
    values["encoder"] = _encoder(values, spec)
    _check_method(values, method, spec)
    _check_swept(values)
    if spec.pixels and "replay" not in given:
        values["replay"] = min(values["replay"], PICTURES)
    values["replay"] = _replay(given, values, spec.horizon)
    values = {"evaluate_every": _evaluate_every(values, row.engines[engine].native, spec.horizon)} | values
    values["plugins"] = modules.owners(**{name: values[name] for name in ("method", "posterior", "env")})
    decided: Values = {name: values.get(name) for name in FIELDS}
    return Config(**decided)


def _check_last_seed(values: Values) -> None:
    seed, seeds = values["seed"], values["seeds"]
    if seed + seeds - 1 > LARGEST:
        raise UsageError(f"--seed {seed} with --seeds {seeds}: the last is out of range; valid: up to {LARGEST}")


def _engine(values: Values, row: EnvRow) -> str:
    engine = values["engine"]
    if engine == "auto":
        settings = max(len(values.get(name) or (0,)) for name in KNOBS)
        return choose(row, values["seeds"] * settings * values["envs"])
    if engine not in row.engines:
        raise UsageError(f"--engine {engine} does not run {values['env']}; valid: auto, {', '.join(row.engines)}")
    return engine


def _env_options(given: Options, usual: Values, env: str, row: EnvRow, engine: str) -> Values:
    """Returns the options of the environment and the engine: as given, else the method's default, else the row's."""
    _check_env_options(given, env, row, engine)
    chosen: Values = {}
    for name in row.engines[engine].options:
        default = usual.get(name, row.options[name])
        chosen[name] = given[name] if name in given else default(**chosen) if callable(default) else default
    if "wind" in chosen and len(chosen["wind"]) != chosen["dims"]:
        raise UsageError(
            f"--wind has {len(chosen['wind'])} values; valid: one per dimension, here {chosen['dims']} (see --dims)"
        )
    return chosen


def _check_env_options(given: Options, env: str, row: EnvRow, engine: str) -> None:
    """Raise UsageError if this environment or engine does not have an option that was given."""
    known = {*GYMNASIUM, *(option for each in (*ENVS.values(), row) for option in each.options)}
    for name in sorted((known & set(given)) - set(row.engines[engine].options)):
        if name in row.options:
            users = ", ".join(e for e, x in row.engines.items() if name in x.options)
            raise UsageError(f"{flag(name)} does not apply to --engine {engine}; valid with: {users}")
        users = ", ".join(e for e, r in ENVS.items() if name in r.options) or "an environment of Gymnasium's"
        raise UsageError(f"{flag(name)} does not apply to {env}; valid for: {users}")


def _without_range(spec: EnvSpec, indices: tuple[int, ...]) -> list[int]:
    """Returns the dimensions whose range is not known, or is a single point."""
    return [i for i in indices if not 0 < spec.high[i] - spec.low[i] < math.inf]


def _default_features(method: Method, spec: EnvSpec, ranged: bool) -> str:
    """Returns the default of `features`: all that q may see; positions if goals are poses; places or velocities if
    goals need a range and not all have one."""
    known = ranged or not _without_range(spec, spec.features)
    indices = spec.features if known or not method.bounded else spec.place or spec.velocity or spec.features
    return ",".join(map(str, (method.poses and spec.position) or indices))


def _goal_env_defaults(given: Options, method: Method, spec: EnvSpec, features: tuple[int, ...]) -> Values:
    """Returns the method's defaults in goal environments, but for given options; none if a feature has no range."""
    if not spec.goal or _without_range(spec, features):
        return {}
    pursued = spec._replace(goal=features)
    usual = {name: x(pursued) if callable(x) else x for name, x in method.of_goal_envs.items()}
    return {name: x for name, x in _fitting(usual, given, method).items() if name not in given}


def _fitting(usual: Values, given: Options, method: Method) -> Values:
    """Returns the defaults that fit the options given, and the posteriors of a method that was made from another."""
    posterior, unfit = usual.get("posterior"), set()
    if given.get("relabel") == "none":
        unfit |= {"relabel_state", "relabel_fraction"}
    if posterior not in method.posteriors or (given.get("critic") == "successor" and posterior not in LINEAR):
        unfit |= {"posterior"}
    return {name: x for name, x in usual.items() if name not in unfit}


def _method_defaults(method: Method, features: tuple[int, ...]) -> Values:
    return {
        "goal_dim": method.goal_dim or len(features),
        "posterior": method.posteriors[0],
        "relabel": method.relabel,
        "critic": method.critic,
    }


def _learning_defaults(values: Values, method: Method, spec: EnvSpec) -> Values:
    return {
        "relabel_fraction": (0.0 if values["relabel"] == "none" else 0.5,),
        "posterior_learning_rate": _posterior_rates(values, method),
        "target_entropy": -spec.action_dim / 2 if spec.first_action is None else CHOOSING * math.log(spec.action_dim),
    }


def _posterior_rates(values: Values, method: Method) -> tuple[float, ...]:
    return tuple(method.posterior_rate * x for x in values["learning_rate"])


def _encoder(values: Values, spec: EnvSpec) -> str:
    asked = values["encoder"]
    if asked == "conv" and not spec.image:
        raise UsageError(f"--encoder conv needs pictures, {values['env']} has numbers; valid: auto or mlp")
    if asked == "conv" and feature_indices(values["features"], spec) != spec.features:
        raise UsageError("--encoder conv sees the whole picture; valid: without --features")
    if asked != "auto":
        return asked
    return "conv" if spec.pixels and feature_indices(values["features"], spec) == spec.features else "mlp"


def _check_method(values: Values, method: Method, spec: EnvSpec) -> None:
    indices = feature_indices(values["features"], spec)
    _check_features(values, method, spec, indices)
    _check_posterior(values, method, spec, indices)
    _check_goal_dim(values, method, len(indices))
    _check_relative(values, method)
    _check_reward(values, method)
    _check_relabel(values, method)
    _check_critic(values)
    if method.bounded and len(values.get("projection_seed") or ()) > 1:
        what = f"--projection-seed takes one value for {values['method']}, whose prior depends on it"
        raise UsageError(f"{what}; valid: one integer")


def _check_features(values: Values, method: Method, spec: EnvSpec, indices: tuple[int, ...]) -> None:
    unknown = _without_range(spec, indices)
    if method.bounded and unknown:
        what = f"--features: dimension {unknown[0]} of {values['env']} has no known range"
        raise UsageError(
            f"{what}, which goals of {values['method']} need; "
            "valid: dimensions that have one, --goal-range low,high, or a method with goals of its own such as vgcrl"
        )


def _check_goal_range(values: Values, method: Method) -> None:
    if values["goal_range"] is not None and not method.bounded:
        users = _or(name for name, row in METHODS.items() if row.bounded)
        raise UsageError(f"--goal-range does not apply to {values['method']}, whose goals are its own; valid: {users}")


def _check_posterior(values: Values, method: Method, spec: EnvSpec, indices: tuple[int, ...]) -> None:
    name, posterior, env = values["method"], values["posterior"], values["env"]
    if posterior not in method.posteriors:
        raise UsageError(f"--posterior {posterior!r} cannot serve {name}; valid: {', '.join(method.posteriors)}")
    if posterior not in POSTERIORS:
        raise UsageError(f"posterior {posterior!r} of method {name!r} is unknown; valid: {', '.join(POSTERIORS)}")
    if values["posterior_features"] != "raw" and method.goal_dim is None:
        raise UsageError(
            f"--posterior-features does not apply to {name}, whose goals are states as they are; valid: raw"
        )
    if any(values["spectral_norm"]) and not method.spectral:
        raise UsageError(f"--spectral-norm does not apply to {name}, whose q has no layers; valid: 0")
    if 0 in values["spectral_norm"] and posterior in BOUNDED_BY_LAYERS:
        raise UsageError(f"--spectral-norm 0: nothing else bounds the φ of {name}; valid: numbers above 0")
    if posterior.endswith("-conv") and not spec.image:
        raise UsageError(f"--posterior {posterior} needs pictures, {env} has numbers; valid: --env pixel-pointmass")
    if posterior.endswith("-conv") and indices != spec.features:
        raise UsageError(f"--posterior {posterior} sees the whole picture; valid: without --features")
    if posterior in UNLEARNED and values["posterior_learning_rate"] != _posterior_rates(values, method):
        raise UsageError(
            f"--posterior-learning-rate does not apply to {name}, whose q is not learned; "
            "valid: without it, or a method such as agcrl"
        )
    for option, users in POSTERIOR_OPTIONS.items():
        if values[option] != DEFAULTS[option] and posterior not in users:
            what = f"{flag(option)} does not apply to --posterior {posterior}"
            raise UsageError(f"{what}; valid with: {', '.join(users)}")


def _check_relative(values: Values, method: Method) -> None:
    if values["relative_goals"] and method.goal_dim is not None:
        raise UsageError(f"--relative-goals needs goals that are states, {values['method']} has others; valid: no")


def _check_reward(values: Values, method: Method) -> None:
    if values["reward"] == "progress" and method.posterior_input != "state":
        what = f"--reward progress needs a q that sees one state, that of {values['method']} sees more"
        raise UsageError(f"{what}; valid: level")


def _check_goal_dim(values: Values, method: Method, width: int) -> None:
    name, goal_dim = values["method"], values["goal_dim"]
    if method.goal_dim is None and goal_dim != width:
        raise UsageError(
            f"--goal-dim {goal_dim} cannot serve {name}: its goals are the {width} features of q; valid: {width}"
        )
    if goal_dim < method.goal_dim_min:
        raise UsageError(f"--goal-dim {goal_dim} cannot serve {name}; valid: at least {method.goal_dim_min}")


def _or(names: Iterable[str]) -> str:
    return " or ".join(names)


def _check_relabel(values: Values, method: Method) -> None:
    name, relabel = values["method"], values["relabel"]
    if relabel not in method.relabels:
        raise UsageError(f"--relabel {relabel} cannot serve {name}: {method.why}; valid: {_or(method.relabels)}")
    state = values["relabel_state"] != DEFAULTS["relabel_state"]
    for option, asked in {"relabel_fraction": any(values["relabel_fraction"]), "relabel_state": state}.items():
        if relabel == "none" and asked:
            what = f"{flag(option)} does not apply without relabelling"
            raise UsageError(f"{what}; valid: --relabel her or p-her with it")


def _check_critic(values: Values) -> None:
    critic, posterior = values["critic"], values["posterior"]
    if critic == "successor" and posterior not in LINEAR:
        raise UsageError(
            f"--critic successor needs log q linear in features of s, which {posterior} is not; valid: {_or(LINEAR)}"
        )
    if values["gpi"] and critic != "successor":
        raise UsageError("--gpi needs successor features; valid: --critic successor with it, or 0")


def _check_swept(values: Values) -> None:
    lengths = {name: len(values.get(name) or ()) for name in KNOBS}
    swept = {name: n for name, n in lengths.items() if n > 1}
    if len(set(swept.values())) > 1:
        raise UsageError(
            f"{', '.join(map(flag, swept))} differ in length; valid: one value, or equally many for each knob"
        )
    settings = list(zip(*(values[name] for name in swept), strict=True))
    if len(set(settings)) < len(settings):
        raise UsageError(f"{', '.join(map(flag, swept))} has a setting twice; valid: settings that differ")


def _replay(given: Options, values: Values, horizon: int) -> int:
    """Returns the replay size: room for two episodes of each environment. Raises UsageError if less was given."""
    envs, rows, long = values["envs"], rows_needed(horizon), f"episodes of {horizon} steps"
    if -(-values["replay"] // envs) >= rows:
        return values["replay"]
    if rows > LARGEST:
        raise UsageError(
            f"--horizon {horizon} is too long for any replay; valid: at most {(LARGEST - rows_needed(0)) // 2}"
        )
    if rows * envs > LARGEST:
        raise UsageError(f"--envs {envs} is too many for {long}; valid: at most {LARGEST // rows}")
    if "replay" in given:
        raise UsageError(
            f"--replay {given['replay']} is too small for {envs} environments with {long}; "
            f"valid: at least {rows * envs}"
        )
    return rows * envs


def _evaluate_every(values: Values, native: bool, horizon: int) -> int:
    """Returns the steps between evaluations: a twentieth of all, but at least an iteration, or on the host four times
    as many as an evaluation takes."""
    collects, _ = schedule(values["envs"], values["updates_per_step"])
    least = collects * values["envs"] if native else 4 * values["evaluate_episodes"] * horizon
    return max(values["steps"] // 20, least)
