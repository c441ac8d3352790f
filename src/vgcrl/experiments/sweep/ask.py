"""What a sweep is asked for: options with several values each, or ranges."""

from collections.abc import Callable
from typing import Any, NamedTuple

from vgcrl.errors import UsageError
from vgcrl.files import folder_name
from vgcrl.training.config import DEFAULTS, FIELDS, KNOBS
from vgcrl.training.fields import flag, kind_of, spoken, words_of


class Range(NamedTuple):
    """A range of numbers, any of which may be tried."""

    low: float
    high: float


Choices = dict[str, "list[Any] | Range"]  # option -> its values


class Ask(NamedTuple):
    """What a sweep is asked for."""

    options: Choices
    metric: str = "F"  # by which the settings are ordered
    program: str | None = None  # train only this one, and write no report
    minutes: float | None = None
    trials: int | None = None  # number of combinations to try; None: all
    search: str = "random"
    modules: tuple[str, ...] = ()  # to be imported first

    def name(self) -> str:
        """Returns the name of the sweep's folder."""
        method, env = (spoken_values(k, self.options.get(k, [DEFAULTS[k]])) for k in ("method", "env"))
        return folder_name(method, env)

    def command(self) -> list[str]:
        """Returns the words of its command."""
        method = [spoken_values("method", self.options["method"])] if "method" in self.options else []
        others = {k: v for k, v in self.options.items() if k != "method"}
        words = [
            word
            for k, v in others.items()
            for word in (words_of(k, v[0]) if k == "env_arg" else [flag(k), spoken_values(k, v)])
        ]
        words += [word for module in self.modules for word in ("--import", module)]
        words += ["--optimise", self.metric] if self.metric != "F" else []
        words += ["--trials", str(self.trials), "--search", self.search] if self.trials else []
        return ["sweep", *method, *words]


def read_values(name: str, text: str, one: Callable[[str], Any]) -> list[Any] | Range:
    """Returns the values in a text, or a range LOW..HIGH; `one` reads each value."""
    if ".." in text:
        low, high = (one(part) for part in text.split("..", 1))
        if not isinstance(low, int | float) or isinstance(low, bool) or not low < high:
            raise UsageError(f"{flag(name)} {text}: no range; valid: numbers LOW..HIGH, or values separated by commas")
        return Range(low, high)
    return [one(part) for part in text.split("," if joined_by_commas(name) else "/")]


def spoken_values(name: str, values: list[Any] | Range) -> str:
    """Returns values as text, separated by commas, or by slashes where a value may have commas itself."""
    if isinstance(values, Range):
        return f"{values.low}..{values.high}"
    return ("," if joined_by_commas(name) else "/").join(map(spoken, values))


def joined_by_commas(name: str) -> bool:
    return name != "features" and (name in KNOBS or not kind_of(FIELDS[name]).several)


def varied(options: Choices) -> list[str]:
    return [name for name, values in options.items() if len(values) > 1]
