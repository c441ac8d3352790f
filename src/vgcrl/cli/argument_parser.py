"""The parser of the whole command line."""

import argparse
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import vgcrl
from vgcrl.cli.commands import COMMANDS
from vgcrl.errors import UsageError


class Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any):
        super().__init__(**options)
        self._negative_number_matcher = re.compile(r"^-(\d|\.\d|inf|nan)")  # also -1e-3, which is no option

    def _print_message(self, message: str, file: Any = None) -> None:
        """Prints help and version; argparse would hide an error in writing them."""
        print(message, end="", file=file)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message if "; valid: " in message else f"{message}; valid: {self._valid(message)}")

    def _valid(self, message: str) -> str:
        """Returns what is valid where argparse says only what is wrong."""
        if missing := re.search("are required: (.*)", message):
            values = (self._spelled_out(word) for word in missing[1].split(", "))
            return f"`{' '.join([self.prog, *values])}`"
        if "not allowed with" in message:
            return "one of the two"
        option = re.match("argument (--[a-z-]+): expected", message)
        return self._spelled_out(option[1]) if option else f"as `{self.prog} --help` tells"

    def _spelled_out(self, word: str) -> str:
        """Returns an option with the name of its value; other words as they are."""
        action = self._option_string_actions.get(word)
        return f"{word} {action.metavar or 'VALUE'}" if action else word


def _add_import(parser: argparse.ArgumentParser) -> None:
    help = "import MODULE first, also from the current folder: it registers your methods, posteriors or environments"
    parser.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE", help=help)


def parser(asked: str | None = None, usual: Mapping[str, Any] | None = None) -> Parser:
    """Returns the parser of all commands.

    Options that need JAX are added only for the command asked for, or for all if none is; `usual` are the defaults of
    `train`, where they are known.
    """
    top = Parser(prog="vgcrl", description="Train policies that reach goals and discover skills.", allow_abbrev=False)
    top.add_argument(
        "--version", action="version", version=f"vgcrl {vgcrl.__version__}", help="print the version and exit"
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help, description=command.help, allow_abbrev=False)
        subparser.add_argument("--debug", action="store_true", help="print the whole traceback of an error too")
        command.add_options(subparser, (usual or {}) if asked in (None, name) else None)
        if command.imports:
            _add_import(subparser)
    return top
