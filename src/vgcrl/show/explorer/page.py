"""One HTML file from a run: the template, its modules as an import map, data and assets gzipped."""

import base64
import gzip
import html
import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from vgcrl.files import atomic_write
from vgcrl.show.explorer.export import export_run, labelled
from vgcrl.show.explorer.networks import Data
from vgcrl.training.logs import to_json
from vgcrl.version import VERSION

LARGEST = 8_000_000  # bytes of a page
HERE = files("vgcrl.show.explorer")
ASSETS = {"body": ("three.js", "mujoco.js", "mujoco.wasm"), "pointmass": (), "recorded": ()}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _packed(name: str, data: bytes) -> str:
    """Returns gzipped bytes as a script element that no browser runs."""
    return f'<script type="application/octet-stream" id="{name}">{_base64(data)}</script>\n'


def modules() -> str:
    """Returns the import map, as JSON: the text of every file of js/ under the name that the others import."""
    sources = {path.name: path.read_bytes() for path in (HERE / "js").iterdir() if path.name.endswith(".js")}
    urls = {f"vgcrl/{name}": f"data:text/javascript;base64,{_base64(text)}" for name, text in sorted(sources.items())}
    return json.dumps({"imports": urls})


def credits(names: tuple[str, ...]) -> str:
    found = json.loads((HERE / "assets" / "versions.json").read_text(encoding="utf-8"))
    parts = sorted({found[f"{name}.gz"] for name in names})
    return f"Parts: {', '.join(parts)}, with licences in the package." if parts else ""


def render(run: Data) -> str:
    names = ASSETS[run["world"]["kind"]]
    carried = [_packed("run", gzip.compress(to_json(run).encode(), mtime=0))]
    carried += [_packed(name, (HERE / "assets" / f"{name}.gz").read_bytes()) for name in names]
    return Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(run.get("name") or f"{run['method']} on {run['env']}"),
        version=VERSION,
        credits=credits(names),
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        assets="".join(carried),
        modules=modules(),
    )


def fitting(run: Data, warn: Callable[[str], None]) -> str:
    """Returns the page; where it exceeds `LARGEST` bytes it leaves out the last seeds or episodes, and warns of it."""
    page, world = render(run), run["world"]
    every = run["policies"] or world["episodes"]

    def first(count: int) -> str:
        some = every[:count]
        return render({**run, **({"policies": some} if run["policies"] else {"world": {**world, "episodes": some}})})

    count = len(every)
    if len(page) > LARGEST and count > 1:
        alone = len(first(1))
        each = (len(page) - alone) / (count - 1)
        count = max(1, min(count - 1, 1 + int((LARGEST - alone) / each)))
        page = first(count)
    while len(page) > LARGEST and count > 1:
        count -= 1
        page = first(count)
    if count < len(every):
        left, last = every[count]["label"], every[-1]["label"]
        many = left if count == len(every) - 1 else f"{left} to {last}"
        warn(f"left out to keep the page below {LARGEST / 1e6:.0f} MB: {many}")
    if len(page) > LARGEST:
        warn(f"the page has {len(page) / 1e6:.0f} MB, and may be slow to open")
    return page


def explore(
    folder: Path,
    out: Path | None,
    warn: Callable[[str], None],
    noise: bool = False,
    goals: Sequence[Any] | None = None,
    follow: bool = False,
    **facts: Any,
) -> Path:
    """Writes the page of a run folder and returns its path, `explore.html` in the folder unless `out` is given.

    `noise`: whether the policy acts with the noise of training when the page opens. `goals`: those of recorded
    episodes. `follow`: whether to write through a link, or to a device. `facts`: further entries of the page's data.
    """
    run = {**export_run(folder, warn, noise, goals), **facts}
    page = fitting({**run, "measured": labelled(run["measured"])}, warn)
    path = out or folder / "explore.html"
    atomic_write(path, page, follow=follow)
    return path
