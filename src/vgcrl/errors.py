"""Errors that are shown as one line, with exit code 2: a user's input, or a user's environment."""

import difflib
import importlib.util
import json
from collections.abc import Iterable
from importlib import metadata
from urllib.parse import unquote, urlsplit


class UsageError(ValueError):
    """An invalid input, in one line: the option, the problem and what is valid."""


class Broken(UsageError):
    """A user's environment raised; the message says what and where, `traceback` is the whole of it."""

    traceback = ""


def hint(word: str, known: Iterable[str], most: int = 1, alike: float = 0.6) -> str:
    """What may have been meant, for the middle of a message; nothing where nothing is near."""
    near = difflib.get_close_matches(word, list(known), most, alike)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def install(extra: str) -> str:
    """The command that adds an extra, from where this package was installed: a folder, a wheel, an address, or an
    index."""
    try:
        origin = json.loads(metadata.distribution("vgcrl").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        origin = {}
    url = origin.get("url", "")
    if url.startswith("file:"):
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f"pip install {editable}'{unquote(urlsplit(url).path)}[{extra}]'"
    tool = origin.get("vcs_info", {}).get("vcs")
    return f"pip install 'vgcrl[{extra}]{' @ ' if url else ''}{f'{tool}+' if tool else ''}{url}'"


def missing_for_reports() -> list[str]:
    """Packages that reports need and that are not there."""
    return [name for name in ("matplotlib", "jinja2") if importlib.util.find_spec(name) is None]


def need_report(command: str) -> None:
    missing = missing_for_reports()
    if missing:
        raise UsageError(f"{command} needs {', '.join(missing)}; valid: {install('report')}")
