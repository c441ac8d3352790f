"""The command line. Bad input is one line on stderr and exit code 2, before anything is written."""

import argparse
import glob
import io
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from vgcrl.cli.argument_parser import parser
from vgcrl.cli.commands import COMMANDS
from vgcrl.cli.config_options import options_of
from vgcrl.cli.output import drop, say
from vgcrl.cli.plain_help import PLAIN
from vgcrl.errors import Broken, UsageError, hint, missing_for_reports
from vgcrl.training.fields import one_of

HELP = ("-h", "--help")


def parse(arguments: list[str]) -> argparse.Namespace:
    if not arguments:
        raise UsageError(f"no COMMAND is given; valid: {', '.join(COMMANDS)}; `vgcrl --help` tells of each")
    if arguments[0] not in (*HELP, "--version"):
        one_of("command", arguments[0], COMMANDS)
    for word in arguments:
        if re.fullmatch("--[a-z-]+=--", word):  # argparse would take it for the end of the options
            raise UsageError(f"{word.removesuffix('=--')} '--' is not valid; valid: a value that is not --")
    top = parser(arguments[0], _values_for(arguments) if _asks_for_help(arguments) else None)
    args, unknown = top.parse_known_args(arguments)
    args.words = arguments
    if unknown:
        actions = top._subparsers._group_actions[0].choices[args.command]._actions  # ty: ignore
        options = [o.removeprefix("--") for action in actions for o in action.option_strings if o.startswith("--")]
        near = hint(unknown[0].split("=")[0].lstrip("-"), options).replace("mean ", "mean --")
        valid = f"an option of `vgcrl {args.command} --help`" if near else " ".join(f"--{o}" for o in options)
        raise UsageError(f"{unknown[0]} is not understood by `vgcrl {args.command}`{near}; valid: {valid}")
    return args


def _asks_for_help(arguments: list[str]) -> bool:
    return arguments[0] == "train" and any(word in arguments for word in HELP)


def _values_for(arguments: list[str]) -> Mapping[str, Any]:
    """Returns the values that `train` would use with these arguments; without any, PLAIN, which needs no JAX."""
    asked = [word for word in arguments if word not in HELP]
    if asked == ["train"]:
        return PLAIN
    from vgcrl.training.option_groups import values_for

    args = parse(asked)
    _import_named(args)
    return values_for(options_of(args))


def main(arguments: list[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters
    words = sys.argv[1:] if arguments is None else arguments
    if "matplotlib" not in sys.modules:
        os.environ["MPLBACKEND"] = "agg"  # figures go to files; a notebook names a backend that may not be installed
    try:
        args = _parsed(words)
        _check_folder()
        _set_up_jax()
        if getattr(args, "ray", None):
            import jax

            jax.config.update("jax_platforms", "cpu")  # the GPUs are for the programs
        if args.command != "list":
            _check_devices()
        _import_named(args)
        with _own_style(COMMANDS[args.command].draws):
            code = COMMANDS[args.command].run(args)
        _flush()
        return code
    except UsageError as error:
        if "--debug" in words:
            _print_traceback(error)
        say(f"vgcrl: {' '.join(str(error).split())}")
        return 2
    except KeyboardInterrupt:
        say("vgcrl: interrupted")
        return 130
    except (MemoryError, RuntimeError) as error:  # JAX's is a RuntimeError
        if not isinstance(error, MemoryError) and not re.search("RESOURCE_EXHAUSTED|[Oo]ut of memory", str(error)):
            raise
        say("vgcrl: this does not fit into memory; valid: fewer or smaller runs, networks, replay or episodes")
        return 2
    except BrokenPipeError:  # whoever read the output has gone
        drop(sys.stdout)
        return 141
    except OSError as error:
        with suppress(OSError):
            _flush()
        where = f"{error.filename}: " if error.filename else ""
        say(f"vgcrl: {where}{error.strerror or error}; valid: files and folders that can be read and written")
        return 2


def _parsed(words: list[str]) -> argparse.Namespace:
    try:
        return parse(words)
    except SystemExit:  # after --help or --version
        _flush()
        raise


def _flush() -> None:
    """Flushes what has been printed; where it cannot be written it is dropped, and OSError is raised."""
    try:
        if sys.stdout:  # it may have been closed
            sys.stdout.flush()
    except OSError:
        drop(sys.stdout)
        raise


def _check_folder() -> None:
    """Raises UsageError where the current folder was removed, since Python and packages often ask for it."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError("the current folder was removed; valid: to be in one that is there") from None


def _import_named(args: argparse.Namespace) -> None:
    """Imports the modules that the user names: by --import, and by --env where the command trains something new."""
    from vgcrl.envs import modules

    modules.import_plugins()
    for module in getattr(args, "modules", []):
        if not module:
            raise UsageError("--import is empty; valid: the name of a module")
        modules.import_named(module, "--import")
    if args.command in ("train", "experts", "sweep"):
        for env in (args.env or "").split(","):
            modules.import_named(modules.module_of(env), f"--env {env}")


def _print_traceback(error: BaseException) -> None:
    """Prints the traceback of an error, or that from a worker process where it happened there."""
    cause = error if isinstance(error, Broken) else error.__cause__
    remote = cause.traceback if isinstance(cause, Broken) else ""
    say(remote or "".join(traceback.format_exception(error)))


def _check_devices() -> None:
    """Raises UsageError where JAX was told of a device that is not there, or that it was not built for."""
    import jax

    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # AssertionError, without text, for one it knows but cannot use
        what = str(error).partition("\n")[0] or f"{os.environ.get('JAX_PLATFORMS')!r} cannot be used"
        raise UsageError(f"JAX has no device to compute on: {what}; valid: JAX_PLATFORMS=cpu, or unset") from None


def _set_up_jax() -> None:
    """Sets JAX to single precision, whatever else it is told, and keeps compiled programs between runs.

    They are kept in $JAX_COMPILATION_CACHE_DIR or the user's cache folder, where that can be written. In the latter
    damaged ones are removed, since JAX writes over none.
    """
    import jax

    jax.config.update("jax_enable_x64", False)
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        with suppress(RuntimeError, OSError):  # of a user without a home
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            (base / "vgcrl").mkdir(parents=True, exist_ok=True)
            if os.access(base / "vgcrl", os.W_OK):
                jax.config.update("jax_compilation_cache_dir", str(base / "vgcrl"))
                warnings.showwarning = partial(_remove_damaged, base / "vgcrl", warnings.showwarning)


def _remove_damaged(cache: Path, show: Callable, message: Any, *where: Any, **more: Any) -> None:
    """Shows a warning, or removes the program that JAX warns that it cannot read; it is compiled and written anew."""
    of = re.match(r"Error reading persistent compilation cache entry for '([^']+)'", str(message))
    if of is None:
        show(message, *where, **more)
        return
    for entry in cache.glob(f"{glob.escape(of[1])}-*"):
        entry.unlink(missing_ok=True)


@contextmanager
def _own_style(draws: bool) -> Generator[None]:
    """Sets the style of figures while a command that draws runs, whatever style the user has (a matplotlibrc)."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns of files of its own that it cannot write
    if not draws or missing_for_reports():
        yield
        return
    from vgcrl.show.subplots import own_style

    with own_style():
        yield
