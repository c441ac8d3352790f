"""A film of a page: a policy whose goals are places, sent to one after the other by clicks on the ground.

python tools/record_clicks.py ant-place --steps 110 --out ant-clicked.gif -- 4,0 1,4 4,4
"""

import argparse
import sys
import tempfile
from pathlib import Path

import imageio.v3 as iio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser  # noqa: E402
from vgcrl.show.watch import explore  # noqa: E402

SIZE = 720, 480
EVERY = 4  # steps between pictures
DRAWN = "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"


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
        for place in args.places:
            x, y = (float(v) for v in place.split(","))
            browser.click(*browser.run(f"vgcrl.pixelOf([{x}, {y}])"))
            for _ in range(args.steps // EVERY):
                browser.run(f"(vgcrl.step({EVERY}), {DRAWN})")
                browser.screenshot(shot)
                frames.append(iio.imread(shot)[..., :3])
            print(f"asked for ({x:g}, {y:g}), stands at", [round(v, 2) for v in browser.run("vgcrl.place()")])
    iio.imwrite(args.out, frames, duration=80, loop=0)


if __name__ == "__main__":
    main()
