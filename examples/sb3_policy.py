"""LGR(s) of a policy trained elsewhere: stable-baselines3's SAC on HalfCheetah, for the target states of the package.

    pip install 'vgcrl[mujoco]' stable-baselines3
    python examples/sb3_policy.py --steps 5000

The policy has no goal and runs forward, so its encoder returns None. A policy that stands still is scored for
comparison.
"""

import argparse

import gymnasium
import numpy as np
from stable_baselines3 import SAC

import vgcrl
from vgcrl.measure import target_states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5_000)
    parser.add_argument("--targets", type=int, default=14, help="of the 42, evenly spread")
    args = parser.parse_args()
    model = SAC("MlpPolicy", gymnasium.make("HalfCheetah-v5"), seed=0).learn(args.steps)
    aims = target_states.default("HalfCheetah", 17, args.targets)
    policies = {
        "stable-baselines3 SAC": lambda obs, z: model.predict(obs, deterministic=True)[0],
        "standing still": lambda obs, z: np.zeros(6),
    }
    for name, policy in policies.items():
        scores = [vgcrl.lgr(policy, lambda state: None, "HalfCheetah", aims, dims=dims) for dims in (None, (8,))]
        print(f"{name}: LGR(s) {scores[0]:.2f}, LGR_v {scores[1]:.3f}")


if __name__ == "__main__":
    main()
