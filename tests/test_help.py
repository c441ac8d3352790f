"""Help answers at once, in groups, with the values of the method and environment asked for."""

import subprocess
import sys
from collections import Counter
from importlib.metadata import Distribution, PackageNotFoundError, version

import pytest

import vgcrl
from vgcrl.cli import COMMANDS, main
from vgcrl.cli.plain_help import plain_help, read_plain_help
from vgcrl.experiments.scheduling import worker
from vgcrl.training import summary
from vgcrl.training.config import FIELDS
from vgcrl.training.fields import described
from vgcrl.training.option_groups import GROUPS

WITHOUT_JAX = """
import sys
import vgcrl
from vgcrl.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0
assert not {"jax", "numpy", "scipy"} & set(sys.modules)
"""


def helped(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main([*words, "--help"])
    assert end.value.code == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("words", [[], ["resume"], ["train"], ["bench"]], ids=["vgcrl", "resume", "train", "bench"])
def test_help_does_not_wait_for_jax(words):
    done = subprocess.run([sys.executable, "-c", WITHOUT_JAX, *words, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version_is_the_package_s(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"vgcrl {vgcrl.__version__}\n"


def test_a_copy_that_is_not_installed_knows_its_version(monkeypatch):
    found = Distribution.from_name

    def from_name(name):
        if name == "vgcrl":
            raise PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(Distribution, "from_name", from_name)
    with pytest.raises(PackageNotFoundError):
        version("vgcrl")
    assert summary.versions()["vgcrl"] == vgcrl.__version__
    assert worker.versions()["vgcrl"].startswith(f"{vgcrl.__version__} (")


def test_plain_help_is_as_the_options_say():
    assert read_plain_help() == plain_help(), "the options have changed: python tools/write_help.py"


def test_every_option_is_in_one_group():
    assert Counter(name for names in GROUPS.values() for name in names) == Counter(
        name for name, field in FIELDS.items() if not described(field).hidden
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    assert f"vgcrl {command}" in helped(capsys, command)


def test_help_shows_the_values_of_what_is_asked_for(capsys):
    plain = helped(capsys, "train")
    assert "the values for diayn on pointmass" in plain
    assert "parallel environments of each run [16]" in plain
    asked = helped(capsys, "train", "vgcrl", "--env", "windy-pointmass", "--dims", "3", "--goal-dim", "5")
    assert "the values for vgcrl on windy-pointmass" in asked
    assert "or number of categories [5]" in asked
    assert "goals for the policy update: none|her|p-her [p-her]" in asked


def test_help_for_what_there_is_not(capsys):
    assert main(["train", "--env", "pointmas", "--help"]) == 2
    assert "did you mean pointmass" in capsys.readouterr().err
