"""The options of a run's configuration on the command line."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from vgcrl.cli.plain_help import read_plain_help
from vgcrl.cli.values import parser_of
from vgcrl.training.fields import HelpLine, flag, kind_of

if TYPE_CHECKING:  # what takes JAX is imported where it is used, so that --help answers at once
    from vgcrl.training.options import Options

Usual = Mapping[str, Any] | None  # the defaults to show, where they are known; None: no options that need JAX


def add_config_options(
    parser: argparse.ArgumentParser, usual: Mapping[str, Any], fixed: tuple[str, ...] = (), raw: bool = False
) -> None:
    """Adds every option that is not fixed, in groups; `usual` are the defaults to show. With `raw` values stay text."""
    from vgcrl.training.config import FIELDS
    from vgcrl.training.option_groups import help_lines

    for title, lines in help_lines(usual).items():
        group = parser.add_argument_group(title)
        for line in (line for line in lines if line.name not in fixed):
            kind = kind_of(FIELDS[line.name])
            if kind.several and kind.each is str and line.name != "method":  # may hold commas
                group.add_argument(flag(line.name), action="append", metavar=line.metavar, help=line.help)
            else:
                _add_line(group, line, str if raw else parser_of(kind))


def _add_line(group: argparse._ArgumentGroup, line: HelpLine, kind: Callable[[str], Any] = str) -> None:
    if line.name == "method":
        group.add_argument("method", nargs="?", metavar="METHOD", help=line.help)
    else:
        group.add_argument(flag(line.name), type=kind, metavar=line.metavar, help=line.help)


def add_plain_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that a plain `vgcrl train --help` shows, without JAX, whose import takes seconds."""
    for title, lines in read_plain_help().items():
        group = parser.add_argument_group(title)
        for line in lines:
            _add_line(group, line)


def options_of(args: argparse.Namespace) -> "Options":
    from vgcrl.training.config import FIELDS
    from vgcrl.training.options import Options

    given: dict[str, Any] = {name: getattr(args, name) for name in FIELDS if hasattr(args, name)}
    given |= {name: tuple(x) for name, x in given.items() if isinstance(x, list)}
    return Options(**given)
