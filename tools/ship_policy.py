"""Make a run folder one of the policies that come with the package.

python tools/ship_policy.py RUN NAME --about "what it does, in a few words" [--seed S] [--noise]
"""

import argparse
from pathlib import Path

from vgcrl.use.policies import SHIPPED, ship


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--about", required=True)
    parser.add_argument("--seed", type=int, help="[the one with the best F at the last evaluation]")
    parser.add_argument("--noise", action="store_true", help="it is meant to act with the noise of its training")
    parser.add_argument("--into", type=Path, default=SHIPPED)
    args = parser.parse_args()
    print(ship(args.run, args.name, args.about, args.seed, args.into, args.noise))


if __name__ == "__main__":
    main()
