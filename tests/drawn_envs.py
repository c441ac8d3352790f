"""A Gymnasium environment that draws itself; importing this module registers `Drawn-v0`."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Drawn(gymnasium.Env):
    """A dot on a line that goes where the action says."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    observation_space = action_space = spaces.Box(-1, 1, (1,))

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.zeros(1, np.float32)
        return self.place, {}

    def step(self, action):
        self.place = np.clip(self.place + 0.1 * np.asarray(action, np.float32), -1, 1)
        return self.place, 0.0, False, False, {}

    def render(self):
        picture = np.full((40, 60, 3), 240, np.uint8)
        column = round(float(30 + 25 * self.place[0]))
        picture[15:25, column - 2 : column + 3] = [200, 80, 60]
        return picture


gymnasium.register("Drawn-v0", Drawn, max_episode_steps=12)
