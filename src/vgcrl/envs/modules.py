"""Modules that register environments and methods of the user's own, and who may have them imported.

A module is imported from the installed packages, from PYTHONPATH, or because the user named it on this command: by
`--env`, by `--import`, or in Python. It is never imported because a file says so: config.json names one too, and the
folder around it may be anyone's.
"""

import functools
import importlib
import importlib.util
import io
import os
import sys
import warnings
from collections.abc import Generator, Iterable
from contextlib import contextmanager, redirect_stderr, suppress
from importlib.machinery import PathFinder, all_suffixes
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from vgcrl.envs.contract import at_fault, place_of, told
from vgcrl.errors import UsageError, install

_installed: set[str] = set()  # modules imported because a run names them
_owners: dict[tuple[str, str], str] = {}  # kind and name of what was registered -> the module that did
ROBOTICS = ("PointMaze_", "AntMaze_", "Fetch", "HandReach", "HandManipulate", "AdroitHand", "FrankaKitchen")
PLUGINS = "vgcrl.plugins"  # the group of entry points of installed modules that register something


def module_of(env: str) -> str:
    """Of `package.module:Id-v0` the module; of any other name nothing."""
    return env.rpartition(":")[0]


def import_named(module: str, option: str) -> None:
    """Because the user named it by `option`, so also from the current folder."""
    if not module:
        return
    sys.path += [] if os.getcwd() in sys.path else [os.getcwd()]
    _import(module, option, "a module in this folder, installed, or on PYTHONPATH")


def import_installed(module: str, env: str) -> None:
    """Because a run's environment is there; only from where the user has put what may be imported."""
    if module in sys.modules:
        return
    with _only(installed_paths()):
        valid = f"--import {module} to import it from this folder too, or `import {module}` first in Python"
        _import(module, f"--env {env}", f"installed or on PYTHONPATH, or {valid}")
    _installed.add(module)


def _import(module: str, option: str, valid: str) -> None:

    def failed(error: BaseException) -> UsageError:
        what = f"{told(error)}{place_of(error)}"
        return UsageError(f"{option}: {module!r} cannot be imported ({what}); valid: {valid}")

    with at_fault(failed):
        importlib.import_module(module)


@functools.cache
def import_robotics() -> None:
    """gymnasium-robotics, where it is installed: its mazes and arms are registered when it is imported, and Gymnasium
    does not import it by itself."""
    with _only(installed_paths()), suppress(ImportError), warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        importlib.import_module("gymnasium_robotics")


def to_import(env: str, registered: Iterable[str]) -> str:
    """Options of a command that reads a run again: what it needs that is imported only because the user names it."""
    own, top = module_of(env), module_of(env).partition(".")[0]
    here = {own} if own and PathFinder.find_spec(top, installed_paths()) is None else set()
    return "".join(f" --import {name}" for name in sorted(here | set(registered)))


def hint_of_robotics(env: str) -> str:
    """How to get an environment of gymnasium-robotics where that is not installed."""
    absent = importlib.util.find_spec("gymnasium_robotics") is None
    return f" (it comes with gymnasium-robotics: {install('robotics')})" if absent and env.startswith(ROBOTICS) else ""


@functools.cache
def import_plugins() -> None:
    """What is installed to be imported with this package."""
    for point in entry_points(group=PLUGINS):
        _import(point.module, f"the plug-in {point.name!r}", f"without the package that brings it, {point.value}")


def claim(kind: str, name: str, module: str) -> None:
    """What a module registers is its own; where it has no name that can be imported, nobody's."""
    _owners[kind, name] = module


def owner(kind: str, name: str) -> str | None:
    return _owners.get((kind, name))


def owners(**used: str) -> tuple[str, ...]:
    """Modules that registered what is used, by its kind."""
    return tuple(sorted({_owners[each] for each in used.items() if _owners.get(each)}))


def check_imported(needed: Any) -> None:
    """Refuse a run made of what a module registers that has not been imported; it is not because a file names it."""
    for module in needed if isinstance(needed, list) else ():
        if isinstance(module, str) and module not in sys.modules and module not in _owners.values():
            valid = f"--import {module}, or `import {module}` first in Python"
            raise UsageError(f"this run is made of what the module {module!r} registers; valid: {valid}")


def search_path(env: str) -> list[str]:
    """Where another process may look for the module of an environment that has been imported here."""
    return installed_paths() if module_of(env) in _installed else sys.path


def installed_paths() -> list[str]:
    """sys.path without the current folder and that of the program, unless PYTHONPATH names them."""
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    named = {os.path.realpath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path}
    around = {os.path.realpath(os.getcwd())} | ({os.path.dirname(os.path.realpath(program))} if program else set())
    return [path for path in sys.path if path and os.path.realpath(path) not in around - named]


@contextmanager
def _only(paths: list[str]) -> Generator[None]:
    before = sys.path
    sys.path = paths
    try:
        yield
    finally:
        sys.path = before


def check_outside(folder: Path, env: str) -> None:
    """Refuse a run whose environment would be imported from its own folder, wherever the user says modules are."""
    module = module_of(env)
    if not module or module in sys.modules:
        return
    if any(_is_in(folder, file) for base in map(Path, installed_paths()) for file in _sources(base, module)):
        what = f"its environment {env} is code in the same folder, which is not executed"
        raise UsageError(f"{folder}: {what}; valid: a module outside it")


def _sources(base: Path, module: str) -> list[Path]:
    """Files and folders that importing a module, and so all packages around it, may execute; an archive is one."""
    parts = module.split(".")
    names = [base.joinpath(*parts[: i + 1]) for i in range(len(parts))]
    files = [*names, *(name.with_name(name.name + suffix) for name in names if name.name for suffix in all_suffixes())]
    return [path for path in (*files, *([base] if base.is_file() else [])) if os.path.lexists(path)]


def _is_in(folder: Path, path: Path) -> bool:
    """Itself, or what it is a link to."""
    whole = os.path.realpath(folder)
    here = os.path.join(os.path.realpath(path.parent), path.name)
    return any(os.path.commonpath([whole, where]) == whole for where in (here, os.path.realpath(path)))
