"""Imports modules that register environments and methods of the user's own, and says which may be imported.

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
    """Returns the module of `package.module:Id-v0`; empty for any other name."""
    return env.rpartition(":")[0]


def import_named(module: str, option: str) -> None:
    """Imports a module that the user named by `option`, and so also from the current folder."""
    if not module:
        return
    if module.endswith(".py"):
        raise UsageError(f"{option}: {module!r} is a file; valid: a module, {module.removesuffix('.py')!r}")
    sys.path += [] if os.getcwd() in sys.path else [os.getcwd()]
    _import(module, option, "a module in this folder, installed, or on PYTHONPATH")


def import_installed(module: str, env: str) -> None:
    """Imports the module of a run's environment, only from installed packages and PYTHONPATH."""
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
    """Imports gymnasium-robotics where it is installed.

    Its mazes and arms are registered when it is imported, and Gymnasium does not import it by itself.
    """
    with _only(installed_paths()), suppress(ImportError), warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        importlib.import_module("gymnasium_robotics")


def to_import(env: str, registered: Iterable[str]) -> str:
    """Returns the --import options that a command needs to read a run again."""
    own, top = module_of(env), module_of(env).partition(".")[0]
    here = {own} if own and PathFinder.find_spec(top, installed_paths()) is None else set()
    return "".join(f" --import {name}" for name in sorted(here | set(registered)))


def hint_of_robotics(env: str) -> str:
    """Returns how to get an environment of gymnasium-robotics; empty where it is installed or has no such name."""
    absent = importlib.util.find_spec("gymnasium_robotics") is None
    return f" (it comes with gymnasium-robotics: {install('robotics')})" if absent and env.startswith(ROBOTICS) else ""


@functools.cache
def import_plugins() -> None:
    """Imports the plug-ins: modules that are installed to be imported with this package."""
    for point in entry_points(group=PLUGINS):
        _import(point.module, f"the plug-in {point.name!r}", f"without the package that brings it, {point.value}")


def claim(kind: str, name: str, module: str) -> None:
    """Notes which module registered the name of this kind; `module` is empty where it cannot be imported."""
    _owners[kind, name] = module


def owner(kind: str, name: str) -> str | None:
    return _owners.get((kind, name))


def owners(**used: str) -> tuple[str, ...]:
    """Returns the modules that registered what is used, which is given as kind=name."""
    return tuple(sorted({_owners[each] for each in used.items() if _owners.get(each)}))


def check_imported(needed: Any) -> None:
    """Raises UsageError where a run needs a module that is not imported; naming it in a file does not import it."""
    for module in needed if isinstance(needed, list) else ():
        if isinstance(module, str) and module not in sys.modules and module not in _owners.values():
            valid = f"--import {module}, or `import {module}` first in Python"
            raise UsageError(f"this run is made of what the module {module!r} registers; valid: {valid}")


def search_path(env: str) -> list[str]:
    """Returns the sys.path with which another process may import the module of an environment."""
    return installed_paths() if module_of(env) in _installed else sys.path


def installed_paths() -> list[str]:
    """Returns sys.path without the current folder and that of the program, unless PYTHONPATH names them."""
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
    """Raises UsageError where the environment of a run would be imported from the run's own folder."""
    module = module_of(env)
    if not module or module in sys.modules:
        return
    if any(_is_in(folder, file) for base in map(Path, installed_paths()) for file in _sources(base, module)):
        what = f"its environment {env} is code in the same folder, which is not executed"
        raise UsageError(f"{folder}: {what}; valid: a module outside it")


def _sources(base: Path, module: str) -> list[Path]:
    """Returns the files that importing a module, and so the packages around it, may execute.

    A folder without an `__init__`, such as a run beside the module of the same name, has no code of its own.
    """
    parts = module.split(".")
    names = [base.joinpath(*parts[: i + 1]) for i in range(len(parts))]
    names += [name / "__init__" for name in names]
    files = [name.with_name(name.name + suffix) for name in names if name.name for suffix in all_suffixes()]
    return [path for path in (*files, *([base] if base.is_file() else [])) if os.path.lexists(path)]


def _is_in(folder: Path, path: Path) -> bool:
    """Returns whether a path, or what it links to, is in a folder."""
    whole = os.path.realpath(folder)
    here = os.path.join(os.path.realpath(path.parent), path.name)
    return any(os.path.commonpath([whole, where]) == whole for where in (here, os.path.realpath(path)))
