"""Values of options, read from the words of the command line."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from vgcrl.files import as_path
from vgcrl.training.fields import EPISODES, LARGEST, Kind


def checked(kind: Callable[[str], Any], valid: str) -> Callable[[str], Any]:
    """Returns `kind` with an error that says what is valid, where it raises ValueError."""

    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not valid; valid: {valid}") from None

    return parse


def separated(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    return lambda text: tuple(kind(x) for x in text.split(","))


def yes_no(text: str) -> bool:
    words = {"yes": True, "true": True, "no": False, "false": False}
    if text.lower() not in words:
        raise ValueError
    return words[text.lower()]


def whole(text: str, most: int = LARGEST) -> int:
    """Returns an integer from 1 to `most`; raises ValueError for any other text."""
    value = int(text)
    if not 1 <= value <= most:
        raise ValueError
    return value


PARSERS: dict[type, Callable[[str], Any]] = {
    int: checked(int, "an integer"),
    float: checked(float, "a number"),
    str: str,
    bool: checked(yes_no, "yes or no"),
}
PATH = checked(partial(as_path, "path"), "a path")
AT_LEAST_ONE = checked(whole, f"an integer from 1 to {LARGEST}")
EPISODE_COUNT = checked(partial(whole, most=EPISODES), f"an integer from 1 to {EPISODES}")
WORDS, SIZES = separated(str), checked(separated(whole), "integers of at least 1 separated by commas")


def parser_of(kind: Kind) -> Callable[[str], Any]:
    if not kind.several:
        return PARSERS[kind.each]
    return checked(separated(kind.each), f"{'integers' if kind.each is int else 'numbers'} separated by commas")
