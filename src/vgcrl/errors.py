"""The one error a user's input can cause: shown as one line, exit code 2."""

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """Names the option, the fault and what is valid."""


def hint(word: str, known: Iterable[str], most: int = 1, alike: float = 0.6) -> str:
    """What may have been meant, for the middle of a message; nothing where nothing is near."""
    near = difflib.get_close_matches(word, list(known), most, alike)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
