"""A film of a page: a policy whose goals are places, sent to one after the other by clicks on the ground.

python tools/record_clicks.py ant-place --steps 110 --out ant-clicked.gif -- 4,0 1,4 4,4
"""

import argparse
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser  # noqa: E402
from vgcrl.show.watch import explore  # noqa: E402

SIZE = 720, 480  # narrow, so that the stage is above the panel
EVERY, MILLISECONDS = 8, 160  # steps between pictures, and how long each is shown
WIDTH, COLOURS = 480, 64  # of the film
DRAWN = "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"


def write(frames: list[Image.Image], path: Path) -> None:
    """Small, with the colours of the first picture for all."""
    size = WIDTH, round(WIDTH * frames[0].height / frames[0].width)
    images = [frame.resize(size, Image.Resampling.LANCZOS) for frame in frames]
    palette = images[0].quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
    few = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    few[0].save(path, save_all=True, append_images=few[1:], duration=MILLISECONDS, loop=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy")
    parser.add_argument("places", nargs="+", metavar="X,Y")
    parser.add_argument("--steps", type=int, default=140, help="for each place")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_intermixed_args()
    frames = []
    with tempfile.TemporaryDirectory() as home, Browser() as browser:
        page, shot = Path(home) / "page.html", Path(home) / "shot.png"
        explore(args.policy, out=page)
        browser.resize(*SIZE)
        browser.open(page)
        browser.run("vgcrl.ready.then(() => { vgcrl.play(false); vgcrl.reset(1); })")
        stage = browser.run("(r => [0, 0, r.width, r.height])(document.querySelector('main').getBoundingClientRect())")
        for place in args.places:
            x, y = (float(v) for v in place.split(","))
            browser.click(*browser.run(f"vgcrl.pixelOf([{x}, {y}])"))
            for _ in range(args.steps // EVERY):
                browser.run(f"(vgcrl.step({EVERY}), {DRAWN})")
                browser.screenshot(shot)
                frames.append(Image.open(shot).convert("RGB").crop(stage))
            print(f"asked for ({x:g}, {y:g}), stands at", [round(v, 2) for v in browser.run("vgcrl.place()")])
    write(frames, args.out)


if __name__ == "__main__":
    main()
