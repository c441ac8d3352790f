"""One option of a configuration: its help, range and choices in one line, and checks of its value."""

import dataclasses
import math
from collections.abc import Collection, Iterable
from numbers import Integral
from typing import Any, NamedTuple, get_args, get_origin

from vgcrl.errors import UsageError, hint

LARGEST = 2**31 - 1  # largest integer: steps are counted in 32 bits
EPISODES = 2**20  # most episodes of an evaluation
KINDS: dict[type, str] = {int: "an integer", float: "a number", str: "text", bool: "true or false"}
HUGE = 1e15  # largest other number: its square is finite in float32
TINY = 2.0**-126  # a number nearer to 0 is 0 in float32


def is_whole(x: Any) -> bool:
    """Returns whether it is an integer, of Python or NumPy; True and False are none."""
    return isinstance(x, Integral) and not isinstance(x, bool)


class Option(NamedTuple):
    """The metadata of an option's field, made by `option`."""

    help: str  # {choices} is replaced by what is valid
    least: float | None
    most: float
    choices: Collection[str]
    valid: str  # valid values in words, instead of the range
    metavar: str
    hidden: bool  # set by the program, not by the user


class HelpLine(NamedTuple):
    """An option as `--help` shows it."""

    name: str
    metavar: str
    help: str  # with the default value


class Kind(NamedTuple):
    """The type of a field: that of one value, whether there may be several, and whether None is allowed."""

    each: type
    several: bool
    optional: bool

    @property
    def name(self) -> str:
        return KINDS[self.each]


def option(
    help: str,
    default: Any = dataclasses.MISSING,
    *,
    least: float | None = None,
    most: float = LARGEST,
    choices: Collection[str] = (),
    valid: str = "",
    metavar: str = "",
    hidden: bool = False,
) -> Any:
    """Returns a field of `Config`. One without a default depends on the method or the environment."""
    about = Option(help, least, most, choices, valid, metavar, hidden)
    return dataclasses.field(default=default, metadata={"option": about})


def described(field: dataclasses.Field) -> Option:
    return field.metadata["option"]


def help_of(field: dataclasses.Field) -> str:
    about = described(field)
    return about.help.format(choices="|".join(about.choices))


def kind_of(field: dataclasses.Field) -> Kind:
    """Returns the parts of a field's type, such as `int`, `int | None` or `tuple[int, ...]`."""
    kinds = [k for k in get_args(field.type) if k is not type(None)] if _is_optional(field.type) else [field.type]
    several = get_origin(kinds[0]) is tuple
    return Kind(get_args(kinds[0])[0] if several else kinds[0], several, _is_optional(field.type))


def _is_optional(kind: Any) -> bool:
    return type(None) in get_args(kind)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def spoken(value: Any) -> str:
    """Returns a value as it is written on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def digits(x: float) -> str:
    """Returns the value of a knob as a name has it: with all digits that tell two values apart, also seeds."""
    return f"{x:.10g}"


def knobs_in_words(values: dict[str, float]) -> list[str]:
    """Returns the knobs of a setting as tables and pictures show them, such as "relabel fraction 0.5"."""
    return [f"{name.replace('_', ' ')} {digits(value)}" for name, value in values.items()]


def words_of(name: str, value: Any) -> list[str]:
    """Returns the words of an option on the command line; some options are repeated for each of their values."""
    again = {"env_arg": flag("env_arg"), "plugins": "--import"}.get(name)
    return [word for each in value or () for word in (again, each)] if again else [flag(name), spoken(value)]


def one_of(name: str, value: Any, valid: Iterable[str], other: str = "") -> None:
    """Raise UsageError unless the value is one of `valid`; `other` says what else would be."""
    valid = list(valid)
    if value not in valid:
        raise UsageError(f"{name} {value!r} is unknown{hint(str(value), valid)}; valid: {', '.join(valid)}{other}")


def check(field: dataclasses.Field, value: Any) -> None:
    """Raise UsageError if a value has the wrong type, range or choice; it may come from an edited file."""
    kind, about = kind_of(field), described(field)
    values = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) != kind.several or not all(_fits(x, kind.each) for x in values):
        several = ", or several" if kind.several else ""
        raise UsageError(f"{flag(field.name)} {value!r} is not valid; valid: {kind.name}{several}")
    if about.choices:
        if field.name == "method":
            one_of("method", value, about.choices, ", or --import MODULE, which registers it")
        else:
            one_of(flag(field.name), value, about.choices)
    if about.least is not None:
        _check_range(field.name, values, about.least, about.most, about.valid or _range(kind, about))


def _fits(x: Any, kind: type) -> bool:
    return isinstance(x, (int, float) if kind is float else kind) and (kind is bool or not isinstance(x, bool))


def _range(kind: Kind, about: Option) -> str:
    least, most = (x if kind.each is int else f"{x:g}" for x in (about.least, about.most))
    return f"{kind.name} from {least} to {most}"


def _check_range(name: str, values: tuple[Any, ...], least: float, most: float, valid: str) -> None:
    if not values:
        raise UsageError(f"{flag(name)} is empty; valid: {valid}")
    for x in values:
        if not least <= x <= most or not math.isfinite(x):
            shown = f"{x:.10g}" if isinstance(x, float) else str(x) if abs(x) < 1e15 else "so large a number"
            raise UsageError(f"{flag(name)} {shown} is out of range; valid: {valid}")
        if 0 < abs(x) < TINY:
            raise UsageError(f"{flag(name)} {x:g} is 0 in single precision; valid: 0 if that is meant, or {TINY:.3g}")
