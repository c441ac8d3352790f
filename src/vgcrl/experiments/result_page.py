"""The page of an experiment's result, read from its folder."""

import base64
import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.errors import UsageError
from vgcrl.experiments.verdicts import tally
from vgcrl.files import read_small
from vgcrl.show.report import Page, Section
from vgcrl.show.tables import Table, counted, with_interval


class PictureKind(NamedTuple):
    name: str  # its MIME type is image/NAME
    starts: tuple[bytes, ...]  # what such a file may begin with


PICTURES = {
    ".png": PictureKind("png", (b"\x89PNG\r\n\x1a\n",)),
    ".svg": PictureKind("svg+xml", (b"<svg", b"<?xml")),
}


def page(result: dict[str, Any], figures: dict[str, str], pictures: dict[str, str]) -> Page:
    """Returns the page of a result as it is on disk; `figures` and `pictures` map titles to HTML or Markdown."""
    rows = [
        [c["sentence"], c["verdict"], with_interval(c["measured"], c["ci95"]), c["paper"]] for c in result["claims"]
    ]
    sections = [
        Section(text=result["claim"], verdict=True),
        *([Section(text=tally([c["verdict"] for c in result["claims"]]))] if rows else []),
        *([Section("Verdicts", table=Table(["claim", "verdict", "measured, 95 %", "paper"], rows))] if rows else []),
        *([Section(text=result["finding"])] if result["finding"] else []),
        *(Section(title, figure=text) for title, text in figures.items()),
        *(table_section(title, text_table(**table)) for title, table in result["tables"].items()),
        *(Section(title, figure=text) for title, text in pictures.items()),
        Section("Commands", table=Table(["trained with"], [[each] for each in result["command"].split("; ")])),
    ]
    programs = result["programs"].values()
    seconds = sum(p["wall_seconds"] for p in programs)
    trained = f"{counted(sum(p['runs'] for p in programs), 'run')} in {counted(len(programs), 'program')}"
    lead = f"{trained}, {seconds / 60:.1f} minutes. Hardware: {result['hardware']}. Commands are at the end."
    return Page(
        result["title"], lead, sections, json.dumps({k: p["config"] for k, p in result["programs"].items()}, indent=1)
    )


def table_section(title: str, table: Table) -> Section:
    """Returns the section of a table; a legend of its signs, which may follow its title, becomes the text."""
    heading, means, legend = title.partition(": ▲")
    return Section(heading, text=f"▲{legend}." if means else "", table=table)


def text_table(columns: list[Any], rows: list[list[Any]]) -> Table:
    """Returns a table in which every cell is text, from one read from a file."""
    return Table([str(cell) for cell in columns], [[str(cell) for cell in row] for row in rows])


def slug(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def embed(folder: Path, title: str, file: str) -> str:
    """Returns a picture as an HTML element, in which no script of it can run.

    Raises ValueError where the file is not a picture that lies in the folder itself.
    """
    path = folder / file
    kind = PICTURES.get(path.suffix)
    if kind is None or not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{file!r} is no picture of this folder")
    data = read_small(path)
    if not data.lstrip().startswith(kind.starts):
        raise ValueError(f"{file!r} is no {path.suffix[1:]}")
    source = f"data:image/{kind.name};base64,{base64.b64encode(data).decode()}"
    return f'<img style="max-width:100%" alt="{html.escape(title)}" src="{source}">'


def link(folder: Path, title: str, file: str) -> str:
    """Returns the Markdown that shows a picture beside it."""
    return f"![{title}]({file})"


def read_page(folder: Path, show: Callable[[Path, str, str], str] = embed) -> Page:
    """Returns the page of a saved experiment; `show` makes HTML or Markdown of a picture's folder, title and file."""
    path = folder / "result.json"
    try:
        result = json.loads(read_small(path))
        titles = result.get("figures") or [p.stem.replace("-", " ").capitalize() for p in sorted(folder.glob("*.svg"))]
        drawn = {title: f"{slug(title)}.{'svg' if show is embed else 'png'}" for title in titles}
        both = (drawn, result.get("pictures", {}))
        return page(result, *({title: show(folder, title, file) for title, file in x.items()} for x in both))
    except UsageError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise UsageError(f"{path} is not the result of an experiment: {error!r}; valid: as it was written") from None
