"""Your own environment, no reward: a boat in a current learns to go where it is asked to.

    pip install '.[mujoco]'
    python examples/own_environment.py

Its id is `module:Id`, here with this file as the module. In this folder the command line does the same:
vgcrl train gcrl --env own_environment:Boat-v0 --features 0,1 --steps 20_000
"""

import gymnasium
import numpy as np

import vgcrl


class Boat(gymnasium.Env):
    """A motor boat on a lake of 2 by 2; the current carries it east in the north, and west in the south."""

    observation_space = gymnasium.spaces.Box(np.array([-1, -1, -1, -1]), np.ones(4), dtype=np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed = self.np_random.uniform(-0.2, 0.2, 2), np.zeros(2)
        return np.concatenate([self.place, self.speed]), {}

    def step(self, action):
        self.speed = np.clip(0.8 * self.speed + 0.2 * action, -1, 1)
        current = np.array([0.5 * self.place[1], 0.0])
        self.place = np.clip(self.place + 0.1 * (self.speed + current), -1, 1)
        return np.concatenate([self.place, self.speed]), 0.0, False, False, {}


if "Boat-v0" not in gymnasium.registry:  # a file that is run is imported once more, by its name
    gymnasium.register("Boat-v0", Boat, max_episode_steps=50)


def main() -> None:
    small = dict(envs=16, hidden=(64, 64), batch=128, learning_rate=1e-3, random_steps=1_000, replay=20_000)
    run = vgcrl.train(
        "gcrl", env="own_environment:Boat-v0", features="0,1", steps=20_000, seeds=1, quiet=False, **small
    )
    policy, boat = vgcrl.load(run.dir), gymnasium.make("Boat-v0")
    for asked in ([0.7, 0.7, 0, 0], [-0.7, 0.7, 0, 0], [-0.7, -0.7, 0, 0]):
        obs, _ = boat.reset(seed=0)
        ended = False
        while not ended:
            obs, _, _, ended, _ = boat.step(policy.act(obs, goal_state=asked))
        print(f"asked for {asked[:2]}, came to [{obs[0]:.2f}, {obs[1]:.2f}]")
    places = np.random.default_rng(0).uniform(-0.9, 0.9, (20, 4)) * [1, 1, 0, 0]
    score = vgcrl.lgr(lambda obs, z: policy.act(obs, z=z), policy.embed, boat, places, dims=(0, 1))
    print(f"LGR(s) of 20 places: {score:.4f}, {score**0.5:.2f} off")
    print(f"report, in this folder: vgcrl report {run.dir} --import own_environment")


if __name__ == "__main__":
    main()
