"""The page in which one picks a goal and watches, of a run or of a policy that comes with the package."""

import sys
import webbrowser
from pathlib import Path

from vgcrl.show.explorer import explore as write_page
from vgcrl.use.policies import card, folder_of, is_shipped


def explore(run: str | Path, *, out: str | Path | None = None, open: bool = False) -> Path:
    """One HTML file, which needs no server and no network: `explore.html` in the run's folder, POLICY.html of a policy
    that comes with the package, unless told. `open` shows it in the browser.

    >>> vgcrl.explore("runs/diayn-pointmass", open=True)
    """
    folder, path, facts = folder_of(run), None if out is None else Path(out), {}
    if is_shipped(folder):
        told = card(folder.name)
        facts = {"name": folder.name, **{k: told[k] for k in ("about", "command", "measured")}}
        path = path or Path(f"{folder.name}.html")
    page = write_page(folder, path, lambda text: print(text, file=sys.stderr), **facts)
    if open:
        webbrowser.open(page.absolute().as_uri())
    return page
