"""A film small enough for a README.

python tools/shrink_gif.py FILM.gif OUT.gif [--width 630] [--every 2] [--colours 96]
"""

import argparse
from pathlib import Path

from PIL import Image, ImageSequence

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("film", type=Path)
parser.add_argument("out", type=Path)
parser.add_argument("--width", type=int, default=630)
parser.add_argument("--every", type=int, default=2, help="keep one frame of so many")
parser.add_argument("--colours", type=int, default=96)
args = parser.parse_args()
with Image.open(args.film) as film:
    pause, size = film.info["duration"] * args.every, (args.width, round(film.height * args.width / film.width))
    kept = [frame.convert("RGB").resize(size) for frame in ImageSequence.Iterator(film)][:: args.every]
    few = kept[:: max(1, len(kept) // 8)]  # whose colours are those of all frames, so that none flickers
sheet = Image.new("RGB", (args.width, size[1] * len(few)))
for i, image in enumerate(few):
    sheet.paste(image, (0, size[1] * i))
palette = sheet.quantize(args.colours, method=Image.Quantize.MAXCOVERAGE)
first, *others = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in kept)
first.save(args.out, save_all=True, append_images=others, duration=pause, loop=0, optimize=True)
print(args.out, args.out.stat().st_size)
