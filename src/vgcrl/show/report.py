"""Results → one self-contained HTML file: no scripts, no network, readable on a phone; or Markdown."""

import io
import os
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jax
import jinja2
import matplotlib
from matplotlib.figure import Figure

from vgcrl.files import atomic_write
from vgcrl.show import compared, figures, filmstrip
from vgcrl.show.compared import EvaluatedRun
from vgcrl.show.scales import MOST_SETTINGS, Scale, explained, scales
from vgcrl.show.subplots import own_style
from vgcrl.show.tables import Table, counted, metrics_table
from vgcrl.training.config import Config
from vgcrl.training.fields import flag
from vgcrl.training.program import Program, one_run
from vgcrl.training.run_folder import command_for
from vgcrl.version import VERSION

CURVES = (
    "Thin: seeds. Thick: their mean. Dashed: chance and best, computed. Dotted: F of the last batch from replay; where "
    "that is far above F in evaluation episodes, q overfits its replay."
)

DIFFERENCES = (
    "Differences of means over seeds at the last evaluations, with Welch's 95 % interval. ▲ better and ▼ worse: the "
    "interval is above or below 0. Not corrected for several comparisons: 1 in 20 of equal runs is marked by chance. "
    "–: not known, or not comparable: another environment; for F and LGR(z) other goals, such as another --goal-dim; "
    "for the others another --evaluate-episodes, since each episode has a target of its own."
)
TOGETHER = "Means over seeds; shaded: 95 % intervals. Dashed: chance and best, where they are the same for all."


class Section(NamedTuple):
    title: str = ""
    text: str = ""
    table: Table | None = None
    figure: str = ""
    caption: str = ""
    key: Sequence[tuple[str, str]] = ()  # colours of the figure, and what has them
    verdict: bool = False
    link: str = ""  # a file beside the report


class Page(NamedTuple):
    title: str
    lead: str
    sections: list[Section]
    configuration: str


def png(figure: Figure, dpi: int) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def svg(figure: Figure) -> str:
    """Returns a figure as inline SVG, the same for the same numbers."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "vgcrl"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", buffer.getvalue(), flags=re.DOTALL)


def watch(folder: Path, program: Program, beside: Path) -> list[Section]:
    """Returns a section that links to the page of a run, or has the command that writes it; or no section."""
    page = folder / "explore.html"
    if page.exists():
        link = os.path.relpath(page.resolve(), beside.resolve())
        return [Section("Watch it", f"Choose a goal and watch: {link}", link=quote(os.fsencode(link)))]
    if filmstrip.is_body(program):
        command = command_for("explore", folder, program.config)
        return [Section("Watch it", f"Choose a goal and watch, on a page that this command writes: {command}")]
    return []


def what_it_reached(config: Config, record: dict[str, Any], known: dict[str, Scale]) -> list[Section]:
    """Returns sections with the last evaluation: a table of settings side by side, then one of all runs."""
    count, sections = len(config.settings), []
    if count <= MOST_SETTINGS:
        sections.append(Section("What it reached", table=explained(record, known, config.setting_names)))
    if count > 1:
        sections.append(Section("Every run", table=metrics_table(record)))
    return sections


@own_style()
def run_page(run: EvaluatedRun, beside: Path | None = None) -> Page:
    """Returns the page of a run folder, with links for a report that is written into the folder `beside`."""
    folder, program, runs, counters, lines = run
    config = program.config
    first = one_run(runs, 0)
    known, shown_run = scales(program), ", ".join(filter(None, (f"Seed {config.seed}", config.setting_names[0])))
    shown = ("F", "lgr_z", "lgr_s", *(("lgr_v", "spread_v") if filmstrip.is_body(program) else ("env_success",)))
    names = tuple(n for n in shown if any(row.get(n) is not None for line in lines for row in line["seeds"]))
    sections = [
        *what_it_reached(config, lines[-1], known),
        Section("Learning curves", figure=svg(figures.curves(lines, names, known)), caption=CURVES),
        *watch(folder, program, beside or folder),
    ]
    if figures.plane(program):
        sections.append(Section("The arena", figure=svg(figures.arena(program, runs)), caption=f"{shown_run}."))
    if filmstrip.is_body(program):
        caption = f"{shown_run}: of up to 50 skills the slowest, the fastest and some in between."
        sections.append(Section("Skills", figure=svg(filmstrip.skills(program, first)), caption=caption))
    learned = lines[-1]["seeds"][0]["posterior"]
    if learned:
        rows = [[k, str(jax.tree.map(lambda x: round(x, 3), v))] for k, v in learned.items()]
        sections.append(Section("Parameters of q (first seed)", table=Table(["", "value"], rows)))
    effort = (
        f"{counters['step']:,} environment steps per run, {counted(config.seeds, 'seed')}, {counters['wall']:.0f} s"
    )
    lead = f"{effort}; vgcrl {VERSION}."
    return Page(f"{config.method} on {config.env}", lead, sections, config.to_json())


@own_style()
def comparison_page(runs: Sequence[EvaluatedRun]) -> Page:
    """Returns a page with several runs side by side."""
    entries = compared.entries_of(runs)
    kinds = compared.kinds_of(entries)
    sections = [
        Section("What they reached", table=compared.last_evaluations(entries, kinds)),
        Section("Chance and best", table=compared.levels(entries, kinds)),
        Section("Differences", DIFFERENCES, compared.differences(entries, kinds)),
    ]
    if environment := compared.environments_differ(entries):
        sections.append(Section(text=f"Environments differ in {', '.join(map(flag, environment))}."))
    if len(entries) <= compared.MOST_CURVES:
        figure = svg(compared.curves(entries, kinds))
        key = compared.key(entries)
        sections.append(Section("Learning curves together", figure=figure, caption=TOGETHER, key=key))
    else:
        most = compared.MOST_CURVES
        sections.append(Section(text=f"Learning curves of more than {most} settings are not drawn in one picture."))
    if options := compared.options(runs):
        sections.append(Section("Options that differ", table=options))
    return Page("Comparison", f"{counted(len(runs), 'run')}; the page of each follows.", sections, "")


def markdown(page: Page) -> str:
    """Returns a page as Markdown, without its configuration; its figures are Markdown already."""

    def row(cells: list[str]) -> str:
        return " | ".join(["", *(cell.replace("|", "\\|") for cell in cells), ""]).strip()

    parts = [f"# {page.title}", page.lead]
    for section in page.sections:
        table = section.table or Table([], [])
        parts += [f"## {section.title}" if section.title else "", section.text, section.figure, section.caption]
        if table.rows:
            parts.append("\n".join([row(table.columns), "|---" * len(table.columns) + "|", *map(row, table.rows)]))
    return "\n\n".join(part for part in parts if part) + "\n"


def write(pages: list[Page], path: Path, *, follow: bool = False) -> Path:
    """Writes pages as one HTML file, and returns its path; with `follow` through a link, or to a device."""
    source = (files("vgcrl.show") / "report.html").read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=True).from_string(source)
    atomic_write(path, template.render(title=pages[0].title, pages=pages), follow=follow)
    return path
