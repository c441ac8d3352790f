"""One picture of several pages, after some steps of each; and their sizes and how long they take to open.

python tools/picture_pages.py docs/explorer.png pointmass-diayn halfcheetah-place ant-place RUN [--steps 60]

Each is a policy that comes with the package or a run folder, maybe with a goal after an @: ant-place@4,2 or
pointmass-diayn@6.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser  # noqa: E402
from vgcrl.show.watch import explore  # noqa: E402

SIZE, GAP, COLOURS = (1000, 640), 8, 256
DRAWN = "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(r, 500))))"


def shot(browser: Browser, what: str, steps: int, home: Path) -> Image.Image:
    """A picture of one page; prints what it took."""
    name, _, goal = what.partition("@")
    page, file = explore(name, out=home / "page.html"), home / "shot.png"
    begun = time.perf_counter()
    browser.open(page)
    browser.run("vgcrl.ready.then(() => { vgcrl.play(false); vgcrl.reset(1); })")
    opened = time.perf_counter() - begun
    if goal:
        z = [float(x) for x in goal.split(",")]
        browser.run(f"vgcrl.setGoal({json.dumps(z if '.' in goal or ',' in goal else int(goal))})")
    browser.run(f"(vgcrl.step({steps}), {DRAWN})")
    browser.screenshot(file)
    print(f"{name}: {page.stat().st_size / 1e6:.2f} MB, opens in {opened:.1f} s; console: {browser.console or 'empty'}")
    return Image.open(file).convert("RGB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("pages", nargs="+", metavar="PAGE")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, Browser() as browser:
        browser.resize(*SIZE)
        shots = [shot(browser, what, args.steps, Path(home)) for what in args.pages]
    across = min(2, len(shots))
    width, height = (side + GAP for side in SIZE)
    sheet = Image.new("RGB", (across * width - GAP, -(-len(shots) // across) * height - GAP), "#c9c4b6")
    for i, image in enumerate(shots):
        sheet.paste(image, (i % across * width, i // across * height))
    sheet.quantize(COLOURS, method=Image.Quantize.MEDIANCUT).save(args.out, optimize=True)


if __name__ == "__main__":
    main()
