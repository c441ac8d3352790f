"""Errors that are shown as one line, with exit code 2: a user's input, or a user's environment."""

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """Names the option, the fault and what is valid."""


class Broken(Exception):
    """An environment raised; the message says what and where, `traceback` is the whole of it."""

    traceback = ""


def hint(word: str, known: Iterable[str], most: int = 1, alike: float = 0.6) -> str:
    """What may have been meant, for the middle of a message; nothing where nothing is near."""
    near = difflib.get_close_matches(word, list(known), most, alike)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
