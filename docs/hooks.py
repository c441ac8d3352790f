"""Pages that mkdocs makes from the repository, so that no number and no line of code is typed twice.

Made: the home page from README.md, results from results/, the tutorial from its notebook, a page for each method.
In other pages `[NAME in FILE](../PATH "source")`, or without `NAME in `, becomes the source of a function or class, or of a
file; `<!-- options -->` becomes the table of all options. So each reads well as it is.
"""

import ast
import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))
SOURCE = r'^\[(?:(?P<name>\w+) in )?\S+\]\(\.\./(?P<path>\S+) "source"\)$'
OWN_DEFAULTS = {"of_places": "With `--positions yes`", "of_goal_envs": "In goal environments"}
SHOWN_IN = {"pointmass": "jax", "HalfCheetah": "mujoco", "Ant": "mujoco", "Humanoid": "mujoco"}
SHOWN_OPTIONS = ("goal_dim", "features", "posterior", "sigma", "components", "posterior_features", "spectral_norm")
SHOWN_OPTIONS += ("relabel", "relabel_fraction")
SHOWN_OPTIONS += ("steps", "envs", "horizon", "positions", "terminate", "hidden", "inputs", "batch", "learning_rate")
SHOWN_OPTIONS += ("posterior_learning_rate", "updates_per_step", "discount", "initial_alpha", "target_entropy", "replay")
SHOWN = {
    "env_success": "goals reached",
    "env_success_end": "reached at the end",
    "coverage": "coverage",
    "spread_v": "velocity spread, m/s",
    "success": "places reached",
    "lgr_v": "LGR_v",
}


def on_config(config: Any) -> Any:
    """Sections with a page for each method and each folder of results."""
    found = {"Methods": ("methods", list(methods())), "Results": ("results", [path.name for path in folders()])}
    sections = [{name: [f"{at}/index.md", *({n: f"{at}/{n}.md"} for n in each)]} for name, (at, each) in found.items()]
    config.nav[3:3] = sections
    return config


def on_files(files: Files, config: Any) -> Files:
    def made(path: str, content: str) -> None:
        files.append(File.generated(config, path, content=content))

    made("index.md", home((ROOT / "README.md").read_text()))
    made("contributing.md", (ROOT / "CONTRIBUTING.md").read_text())
    made("tutorial.md", tutorial(ROOT / "examples" / "tutorial.ipynb"))
    for name in methods():
        files.remove(files.src_uris[f"methods/{name}.md"])
        made(f"methods/{name}.md", method_page(name))
    made("results/index.md", results_index())
    for folder in folders():
        made(f"results/{folder.name}.md", results_page(folder))
    for path in sorted((ROOT / "results").rglob("*.png")) + sorted((ROOT / "results").glob("*.json")):
        files.append(File(str(path.relative_to(ROOT)), str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def folders() -> list[Path]:
    return [path for path in sorted((ROOT / "results").iterdir()) if path.is_dir()]


def results_link(found: re.Match[str]) -> str:
    """A folder of results, or a file in it, as the site has them: a page, or its section."""
    up, folder, file = found.groups()
    return f"]({up}results/{folder}.md" + (f"#{file.lower()})" if file else ")")


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = re.sub(r"\]\(((?:\.\./)*?)(?:\.\./)?results/([\w-]+)(?:/([\w-]+)\.json)?\)", results_link, markdown)
    markdown = re.sub(SOURCE, lambda m: source(m["path"], m["name"]), markdown, flags=re.M)
    return markdown.replace("<!-- options -->", options()) if "<!-- options -->" in markdown else markdown


def options() -> str:
    """Every option of training, as Python has it."""
    from vgcrl.training.config import DEFAULTS, FIELDS
    from vgcrl.training.fields import described, help_of, kind_of

    def line(name: str) -> list[str]:
        kind, default = kind_of(FIELDS[name]), DEFAULTS.get(name)
        several = ", or several" if kind.several else ""
        said = help_of(FIELDS[name]).replace("|", "\\|")
        return [f"`{name}`", kind.each.__name__ + several, "" if default is None else f"`{default}`", said]

    shown = [name for name, field in FIELDS.items() if not described(field).hidden]
    return table(["option", "type", "default", "what it is"], [line(name) for name in shown])


def source(path: str, name: str | None) -> str:
    """A file, or one function or class of it."""
    text = (ROOT / path).read_text()
    if name is not None:
        (found,) = (node for node in ast.parse(text).body if getattr(node, "name", None) == name)
        text = ast.get_source_segment(text, found) or ""
    return f"```python title=\"{path.removeprefix('src/vgcrl/')}\"\n{text.rstrip()}\n```"


def methods() -> dict[str, Any]:
    from vgcrl.objective.methods import METHODS

    return METHODS


def table(heads: Any, body: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *body])


def method_page(name: str) -> str:
    """What is written about it, and its defaults."""
    text = (ROOT / "docs" / "methods" / f"{name}.md").read_text()
    found = {where: getattr(methods()[name], field) for field, where in OWN_DEFAULTS.items()}
    others = "".join(f"\n\n{where}: {options_text(each)}." for where, each in found.items() if each)
    return f"{text}\n## Defaults\n\n{defaults(name)}{others}\n"


def defaults(name: str) -> str:
    """Of the options that matter most, in each environment that has a column."""
    from vgcrl.objective.posteriors import OPTIONS as POSTERIOR_OPTIONS
    from vgcrl.training.fields import flag, spoken
    from vgcrl.training.options import Options
    from vgcrl.training.resolve import resolve

    def shown(config: Any, option: str) -> str:
        value = getattr(config, option)
        if value is None or config.posterior not in POSTERIOR_OPTIONS.get(option, [config.posterior]):
            return "–"
        if option == "features":
            first, last = value.split(",")[0], value.split(",")[-1]
            return first if first == last else f"{first} to {last}"
        return ",".join(f"{x:.6g}" for x in value) if isinstance(value, tuple) else spoken(value)

    configs = [resolve(Options(method=name, env=env, engine=engine)) for env, engine in SHOWN_IN.items()]
    values = {option: [shown(config, option) for config in configs] for option in SHOWN_OPTIONS}
    return table(["option", *SHOWN_IN], [[f"`{flag(option)}`", *each] for option, each in values.items()])


def options_text(options: dict[str, Any]) -> str:
    """As on the command line; a default that depends on the environment as its function says."""
    from vgcrl.training.fields import flag, words_of

    said = {key: (x.__doc__ or "").partition(",")[0].lower() for key, x in options.items() if callable(x)}
    words = {key: [flag(key), said[key]] if key in said else words_of(key, x) for key, x in options.items()}
    return ", ".join(f"`{option}` {value}" for option, value in words.values())


def home(readme: str) -> str:
    """The README, with links as the site has them."""
    readme = re.sub(r"\]\(docs/", "](", readme)
    fixed = {
        "CONTRIBUTING.md": "contributing.md",
        "examples/own_environment.py": "own-environment.md",
        "examples/tutorial.ipynb": "tutorial.md",
    }
    for old, new in fixed.items():
        readme = readme.replace(f"]({old})", f"]({new})")
    return readme.replace("[CITATION.cff](CITATION.cff)", "`CITATION.cff`")


def tutorial(notebook: Path) -> str:
    cells = json.loads(notebook.read_text())["cells"]
    texts = ["".join(cell["source"]).replace("](../docs/", "](") for cell in cells]
    kinds = [cell["cell_type"] for cell in cells]
    return "\n\n".join(f"```python\n{t}\n```" if k == "code" else t for k, t in zip(kinds, texts, strict=True))


def results_index() -> str:
    found = []
    for path in sorted((ROOT / "results").glob("*/result.json")):
        result = json.loads(path.read_text())
        verdicts = [claim["verdict"] for claim in result["claims"]]
        told = "; ".join(f"{v}: {verdicts.count(v)}" for v in sorted(set(verdicts), key=lambda v: (v != "holds", v)))
        found.append([f"[{result['title']}]({path.parent.name}.md)", told, f"`vgcrl reproduce {path.parent.name}`"])
    known = {path.parent.name for path in (ROOT / "results").glob("*/result.json")}
    others = [path.name for path in folders() if path.name not in known]
    links = "\n".join(f"- [{name}]({name}.md)" for name in others)
    return (
        "# Experiments and results\n\nMade from the files under `results/`, which name command, seeds, steps, hardware"
        f" and versions.\n\n{table(['experiment', 'claims', 'command'], found)}\n\n[How verdicts"
        f" are made](../verdicts.md).\n\nOther committed runs:\n\n{links}\n"
    )


def results_page(folder: Path) -> str:
    """The report of an experiment, if there is one, and then the runs that were kept one by one."""
    report, paths = folder / "README.md", sorted(set(folder.glob("*.json")) - {folder / "result.json"})
    text = report.read_text() if report.exists() else f"# {folder.name}\n"
    text = re.sub(r"\]\(([\w./-]+\.png)\)", rf"]({folder.name}/\1)", text)
    text = re.sub(r"\]\(([\w-]+)\.json\)", lambda found: f"](#{found[1].lower()})", text)
    return f"{text}\n{side_by_side(paths)}" + "\n\n".join(run_section(path) for path in paths)


def own_goals(found: dict[str, Any]) -> str:
    """What tools/maze_score.py found of each seed."""
    heads = [key for key in found["seeds"][0] if key != "seed"]
    body = [[str(seed["seed"]), *(f"{seed[key]:.3g}" for key in heads)] for seed in found["seeds"]]
    names = [SHOWN.get(key, key.replace("_", " ")) for key in heads]
    return f"{found['episodes']} episodes after {found['step']:,} steps:\n\n{table(['seed', *names], body)}"


def variants(run: dict[str, Any]) -> str:
    """Success of each seed, by the options that a variant adds."""
    body = []
    for variant in run["variants"]:
        for found in variant["evaluations"]:
            each = [f"{x:.2f}" for x in found["env_success"]]
            mean = sum(found["env_success"]) / len(each)
            options = f"`{variant['options']}`" if variant["options"] else "none"
            body.append([options, f"{found['step']:,}", ", ".join(each), f"{mean:.2f}", f"{found['cpu_seconds']:.0f}"])
    return f"{run['task']}:\n\n{table(['options', 'steps', 'each seed', 'mean', 'processor seconds of all'], body)}"


def side_by_side(paths: list[Path]) -> str:
    """Runs that tell the environment's own success, step by step: those whose names begin alike in one table."""
    runs: dict[str, dict[str, dict[int, str]]] = {}
    for path in paths:
        for evaluation in json.loads(path.read_text()).get("evaluations", []):
            for seed in (seed for seed in evaluation["seeds"] if seed.get("env_success") is not None):
                columns = runs.setdefault(path.stem.partition("-")[0], {})
                column = columns.setdefault(f"{path.stem}, seed {seed['seed']}", {})
                column[evaluation["step"]] = f"{seed['env_success']:.2f}"
    found = []
    for name, columns in runs.items():
        steps = sorted({step for column in columns.values() for step in column})
        body = [[f"{step:,}", *(column.get(step, "") for column in columns.values())] for step in steps]
        found.append(f"## {name}: goals reached\n\n{table(['steps', *columns], body)}\n\n")
    return "".join(found)


def command(line: str) -> str:
    """As one copies it, in lines that fit; an option stays with its value."""
    joined = re.sub(r"(--\S+) (?!--)", "\\1\0", line)
    lines = textwrap.wrap(joined, 84, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    return "```\n" + " \\\n".join(lines).replace("\0", " ") + "\n```"


def speeds(rows: list[dict[str, Any]]) -> str:
    """What `vgcrl bench` measured of all runs of a program together."""
    sizes, rates = ("runs", "envs", "updates_per_step"), ("env_steps_per_second", "updates_per_second")
    body = [[*(f"{row[k]:g}" for k in sizes), *(f"{row[k]:,.0f}" for k in rates)] for row in rows]
    return table(["runs", "environments each", "updates per step", "env steps/s", "updates/s"], body)


def parity(rows: list[dict[str, Any]]) -> str:
    """How far a step of each engine ends from C MuJoCo's."""
    heads = ["environment", "engine", "qpos, median", "90 %", "largest", "observation, median", "length of a step", "same bits again"]
    body = []
    for row in (row for row in rows if "qpos" in row):
        off = (*row["qpos"].values(), row["observation"]["median"], row["step_length"]["median"])
        body.append([row["env"], row["engine"], *(f"{x:.2g}" for x in off), "yes" if row["same_bits_again"] else "no"])
    return table(heads, body)


def twice(run: dict[str, Any]) -> str:
    """Each run of a program beside itself, trained again."""
    names = SHOWN | {"lgr_z": "LGR(z)"}
    body = []
    for metric, found in run["by_step"].items():
        for step in (step for step in found["first"] if step in found["second"]):
            pairs = zip(found["first"][step], found["second"][step], strict=True)
            body.append([names.get(metric, metric), f"{int(step):,}", *(f"{a:.3f}, {b:.3f}" for a, b in pairs)])
    return table(["", "steps", *run["runs"]], body)


def together(rows: list[dict[str, Any]]) -> str:
    """Speeds of programs trained by tools/train_together.py."""
    body = [[row["programs"], row["beside"], f"{row['env_steps_per_second']:,.0f}"] for row in rows]
    return table(["three posteriors of", "", "env steps/s"], body)


def profile(run: dict[str, Any]) -> str:
    """The kernels of an iteration that took longest."""
    body = [[f"`{row['kernel']}`", f"{row['ms']:.1f}", str(row["count"])] for row in run["longest"][:12]]
    return f"{run['iteration_ms']} ms, {run['learning_ms']} of learning:\n\n{table(['kernel', 'ms in all', 'times'], body)}"


def arrivals(run: dict[str, Any]) -> str:
    """What tools/go_there.py found of each policy and seed."""
    heads = list(next(iter(run["arrivals"].values()))[0])
    each = [(how, seed, row) for how, rows in run["arrivals"].items() for seed, row in zip(run["seeds"], rows, strict=True)]
    body = [[how, str(seed), *(f"{row[key]:.3f}" for key in heads)] for how, seed, row in each]
    return f"{run['task']}:\n\n{table(['policy', 'seed', *heads], body)}"


def examined(run: dict[str, Any]) -> str:
    """What was measured again, of each seed; training's own last evaluation had fewer episodes or another simulator."""
    found = run["examined"]
    return f"Measured again with {found['engine']}:\n\n{command(found['command'])}\n\n{of_each_seed(found['seeds'])}"


def of_each_seed(seeds: list[dict[str, Any]]) -> str:
    shown = {key: head for key, head in SHOWN.items() if seeds[0].get(key) is not None}
    body = [[str(seed["seed"]), *(f"{seed[key]:.4g}" for key in shown)] for seed in seeds]
    return table(["seed", *shown.values()], body)


def last_evaluation(evaluations: list[dict[str, Any]]) -> str:
    """Of each seed."""
    return f"After {evaluations[-1]['step']:,} steps:\n\n{of_each_seed(evaluations[-1]['seeds'])}"


# What a file may hold, and how that is shown; of several the first.
KINDS = {
    "arrivals": arrivals,
    "variants": variants,
    "own_goals": lambda run: own_goals(run["own_goals"]),
    "together": lambda run: together(run["together"]),
    "longest": profile,
    "by_step": twice,
    "training": lambda run: speeds(run["training"]),
    "rows": lambda run: parity(run["rows"]),
    "examined": examined,
    "evaluations": lambda run: last_evaluation(run["evaluations"]),
}


def run_section(path: Path) -> str:
    """One file of a run: its command, and what it holds."""
    run = json.loads(path.read_text())
    facts = "\n".join(f"- {key}: {run[key]}" for key in ("what", "code", "hardware", "device", "remark") if key in run)
    text = f"## {path.stem}\n\n" + (f"{command(run['command'])}\n\n{facts}\n" if "command" in run else "")
    shown = next((show(run) for key, show in KINDS.items() if key in run), None)
    return f"{text}\n{shown}\n" if shown else text
