"""The options `features` and `goal_range`: the dimensions of observations that goals are about, and their ranges."""

from vgcrl.errors import UsageError
from vgcrl.objective.types import EnvSpec
from vgcrl.training.fields import spoken


def with_range(spec: EnvSpec, features: tuple[int, ...], goal_range: tuple[float, ...] | None) -> EnvSpec:
    """Returns the specification with the ranges of the features replaced by the option `goal_range`."""
    if goal_range is None:
        return spec
    pairs = goal_range * len(features) if len(goal_range) == 2 else goal_range
    lows, highs = pairs[::2], pairs[1::2]
    if len(pairs) != 2 * len(features) or any(low >= high for low, high in zip(lows, highs, strict=True)):
        what = f"--goal-range {spoken(goal_range)} is no range of {len(features)} features"
        raise UsageError(f"{what}; valid: low,high, or low,high of each, where low is less than high")
    low, high = dict(zip(features, lows, strict=True)), dict(zip(features, highs, strict=True))
    return spec._replace(
        low=tuple(low.get(i, x) for i, x in enumerate(spec.low)),
        high=tuple(high.get(i, x) for i, x in enumerate(spec.high)),
    )


def feature_indices(text: str, spec: EnvSpec) -> tuple[int, ...]:
    """Returns the dimensions of the observation that the option `features` names."""
    named = {"all": tuple(range(spec.obs_dim)), "place": spec.place, "position": spec.position}
    named["velocity"] = spec.velocity
    if text in named and not named[text]:
        raise UsageError(
            f"--features {text}: the environment does not say which those are; "
            "valid: all, or indices 0,1,..., or --env of a robot such as HalfCheetah (for place with --positions yes)"
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
