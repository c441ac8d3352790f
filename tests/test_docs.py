"""What README and docs print is understood: commands, and the Python between them."""

import importlib
import json
import re
import shlex
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

import vgcrl
from tiny import TINY, flags
from vgcrl.cli import main, parse
from vgcrl.cli.config_options import options_of
from vgcrl.experiments import EXPERIMENTS
from vgcrl.training.resolve import resolve
from vgcrl.use import policies

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
USERS_OWN = {"sgcrl", "diayn-transition", "laplace-skills", "NAME"}  # methods that a page adds
STANDS_FOR = {"METHOD": "diayn", "ENV": "pointmass", "RUN": "pointmass-diayn", "NAME": "pointmass-diayn"}
STANDS_FOR |= {"my_module:MyEnv-v0": "foreign_envs:Reach-v0"}


def blocks(page, language=None):
    found = re.findall(r"^```([^\n]*)\n(.*?)^```", page.read_text(), flags=re.S | re.M)
    return [text for name, text in found if language in (None, name)]


def commands(page):
    inline = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    written = [line for block in blocks(page) for line in block.replace("\\\n", " ").splitlines()]
    written += re.findall(r"`(vgcrl [^`]+)`", inline)
    split = [shlex.split(line, comments=True) for line in written if line.startswith("vgcrl ")]
    return [words[1:] for words in split if len(words) > 2 and not any(re.search("[…[|]", word) for word in words)]


def test_commands_are_understood(capsys):
    """Those that train are resolved to a configuration, on an engine that is here."""
    trained = 0
    for page, words in ((each, words) for each in PAGES for words in commands(each)):
        where = f"{page.name}: vgcrl {shlex.join(words)}"
        if words[1].startswith("-") or words[:2] in [["train", name] for name in USERS_OWN] or words[-1] == "P":
            continue
        words = ["mujoco" if word == "warp" else STANDS_FOR.get(word, word) for word in words]
        if "--help" in words:
            with pytest.raises(SystemExit):
                main(words)
            assert "--steps" in capsys.readouterr().out, where
            continue
        args = parse(words)
        if args.command == "train":
            resolve(options_of(args))
            trained += 1
        elif args.command == "reproduce":
            assert args.name in (*EXPERIMENTS, "all"), where
        elif args.command in ("explore", "film") and not words[1].startswith("runs/"):
            assert words[1] in policies.names(), where
        elif args.command == "sweep":
            plain = words[: words.index("--ray")] if "--ray" in words else words
            assert main([*plain, "--dry-run"]) == 0, where
    assert trained > 20


INTERVAL = re.compile(r"(-?\d+(?:\.\d+)?) ± (\d+(?:\.\d+)?)")


def test_intervals_of_methods_are_those_of_the_reports_they_link_to():
    found = 0
    for page in (ROOT / "docs" / "methods").glob("*.md"):
        text = page.read_text()
        linked = set(re.findall(r"\]\(\.\./\.\./results/(\w+)\)", text))
        measured = {
            pair for name in linked for pair in INTERVAL.findall((ROOT / f"results/{name}/README.md").read_text())
        }
        for told in INTERVAL.findall(text):
            assert any(rounded(pair, told) == told for pair in measured), (page.name, told)
            found += 1
    assert found > 10


def rounded(pair, like):
    """Both numbers with as many digits as those."""
    return tuple(f"{float(x):.{len(y.partition('.')[2])}f}" for x, y in zip(pair, like, strict=True))


def pythons(page):
    return [block for block in blocks(ROOT / page, "python") if "vgcrl." in block]


def numbers(text):
    return [float(x) for x in re.findall(r"-?\d+\.\d*", text)]


@pytest.mark.usefixtures("registries_as_they_were", "unrendered")
def test_python_of_the_readme(tmp_path, monkeypatch):
    """On smaller runs than it has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(vgcrl, "train", partial(smaller, vgcrl.train, TINY | {"quiet": True}))
    block, entry = pythons("README.md")
    names = {}
    exec(block, names)
    assert names["action"].shape == (2,)
    Path("my_methods.py").write_text(entry)
    assert main(["train", "diayn-transition", "--import", "my_methods", *flags()]) == 0
    config = json.loads(Path("runs/diayn-transition-pointmass/config.json").read_text())
    assert (config["method"], config["posterior"], config["plugins"]) == (
        "diayn-transition",
        "categorical",
        ["my_methods"],
    )


def test_loop_of_your_own(monkeypatch):
    """Over fewer steps than the page has."""
    monkeypatch.setattr(vgcrl, "compile", partial(smaller, vgcrl.compile, TINY))
    (block,) = pythons("docs/api.md")
    assert "90_000" in block
    assert "500)" in block
    names = {}
    exec(block.replace("90_000", "9_000").replace("500)", "50)"), names)
    assert names["state"].iteration * names["program"].steps_per_iteration >= 9_000


@pytest.mark.usefixtures("registries_as_they_were")
def test_posterior_of_own_method_is_learned(tmp_path, monkeypatch):
    """What updates move is the network, and nothing else of it."""
    (module,) = pythons("docs/own-method.md")
    (tmp_path / "my_posteriors.py").write_text(module)
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("my_posteriors")
    program = vgcrl.compile("laplace-skills", env="pointmass", sigma=0.5, **TINY)
    first = program.init()
    before = jax.tree.map(np.array, first.runs.learner.q)
    after = program.advance(first, 20).runs.learner.q
    assert after.q.scale == 0.5
    assert all((x != y).any() for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True))


def smaller(train, small, method, **given):
    return train(method, **small, **{name: x for name, x in given.items() if name not in small})


def test_weights_are_what_run_folder_says(trained):
    (block,) = blocks(ROOT / "docs" / "run-folder.md", "python")
    names = {}
    exec(block.replace("runs/diayn-pointmass", str(trained)), names)
    np.testing.assert_allclose(names["action"], vgcrl.load(trained).act(np.zeros(4), z=3), atol=1e-6)


@pytest.mark.slow
def test_python_of_getting_started_prints_what_it_says(capsys):
    """Robots go where they are sent; what they do on the way differs from processor to processor."""
    page = ROOT / "docs" / "getting-started.md"
    names = {}
    for block in pythons(page):
        exec(block, names)
    told = (
        next(text for text in blocks(page, "") if text.startswith("asked for")) + pythons(page)[-1].rpartition("#")[2]
    )
    np.testing.assert_allclose(numbers(capsys.readouterr().out), numbers(told), atol=0.6)
