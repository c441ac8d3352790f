"""A bright square on a small picture, moved by the action: where it is can be told by looking, and by no number."""

import gymnasium
import numpy as np
from gymnasium import spaces

SIZE, SIDE, STRIDE = 16, 3, 2.0


class Square(gymnasium.Env):
    """The action is a velocity; `channels_first` shows the picture as (1, height, width)."""

    def __init__(self, channels_first=False):
        self.channels_first = channels_first
        shape = (1, SIZE, SIZE) if channels_first else (SIZE, SIZE, 1)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Box(-1, 1, (2,))

    def _seen(self):
        picture = np.zeros((SIZE, SIZE), np.uint8)
        row, column = np.rint(self.place).astype(int)
        picture[row : row + SIDE, column : column + SIDE] = 200
        return picture[None] if self.channels_first else picture[..., None]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.full(2, (SIZE - SIDE) / 2) + self.np_random.uniform(-1, 1, 2)
        return self._seen(), {}

    def step(self, action):
        self.place = np.clip(self.place + STRIDE * np.asarray(action), 0, SIZE - SIDE)
        return self._seen(), 0.0, False, False, {}


class DrawnSquare(Square):
    """Renders itself larger, and in colour."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode=None):
        super().__init__(channels_first=True)
        self.render_mode = render_mode

    def render(self):
        picture = np.full((120, 120, 3), 240, np.uint8)
        row, column = np.rint(self.place * 7).astype(int)
        picture[row : row + 21, column : column + 21] = [200, 80, 60]
        return picture


gymnasium.register("Square-v0", Square, max_episode_steps=10)
gymnasium.register("DrawnSquare-v0", DrawnSquare, max_episode_steps=10)
