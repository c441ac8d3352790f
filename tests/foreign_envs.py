"""Gymnasium environments with known answers, found as `foreign_envs:Echo-v0`."""

import ctypes
import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Echo(gymnasium.Env):
    """Observes the action it received, its time and the random number it started with; actions command its end."""

    observation_space = spaces.Box(
        np.array([[-1, 0, -np.inf], [0, 0, -1e9]]), np.array([[3, 10, np.inf], [20, 1, 1e9]]), dtype=np.float64
    )
    action_space = spaces.Box(np.array([[-1, 0, -np.inf]], np.float32), np.array([[3, 10, np.inf]], np.float32))
    dt = 0.25

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.obs = np.zeros((2, 3))
        self.obs[1, 1] = self.np_random.uniform()
        return self.obs, {}

    def step(self, action):
        assert self.action_space.contains(action)
        if action[0, 2] > 0.9:
            raise ValueError(f"boom on {os.environ.get('JAX_PLATFORMS')}\nand more")
        if action[0, 2] < -0.9:
            os._exit(3)
        self.obs[0] = action[0]
        self.obs[1, 0] += 1
        return self.obs, 0.0, bool(action[0, 0] == 3), bool(action[0, 1] == 10), {}


class Sleeper(Echo):
    """No step of it ends."""

    def step(self, action):
        while True:
            time.sleep(1.0)


class Whole(gymnasium.Env):
    """Actions are whole numbers, and so is what it sees."""

    observation_space = spaces.Box(0, 255, (2, 2), np.uint8)
    action_space = spaces.Box(0, 4, (4,), np.int32)

    def reset(self, *, seed=None, options=None):
        return np.zeros((2, 2), np.uint8), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return action.astype(np.uint8).reshape(2, 2), 0.0, False, False, {}


class Spaces(gymnasium.Env):
    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space


class Needy(gymnasium.Env):
    def __init__(self):
        raise gymnasium.error.DependencyNotInstalled("Box9D is not installed, run `pip install box9d`")


class Faulty(gymnasium.Env):
    def __init__(self):
        raise RuntimeError("\n no licence\nsomewhere deep")


class Bare(gymnasium.Env):
    """Without spaces."""


class Quitter(gymnasium.Env):
    def __init__(self):
        raise SystemExit(7)


class Table(gymnasium.Env):
    """Observations and actions that are not flat: the action is written into the second row. It is also chatty."""

    observation_space = spaces.Box(-1, 1, (2, 3))
    action_space = spaces.Box(-1, 1, (1, 3))

    def __init__(self):
        print("welcome")
        ctypes.CDLL(None).printf(b"welcome from C\n")

    def reset(self, *, seed=None, options=None):
        return np.zeros((2, 3), np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.concatenate([np.zeros((1, 3), np.float32), action]), 0.0, False, False, {}


class Timeless(Whole):
    @property
    def dt(self):
        raise RuntimeError("ask later")


class Ship(gymnasium.Env):
    """Goes where its motor and the current take it; nothing is known of how far. Registered nowhere."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,))
    action_space = spaces.Box(-1, 1, (2,))

    def __init__(self, current=0.0):
        self.current = current

    def reset(self, *, seed=None, options=None):
        self.place = np.zeros(3, np.float32)
        return self.place.copy(), {}

    def step(self, action):
        self.place += np.float32([*action, 0]) + np.float32([self.current, 0, 0])
        return self.place.copy(), 0.0, False, False, {}


class Reach(gymnasium.Env):
    """A goal environment: it goes where its action says at once, and asks for a place to be; how it tells whether that
    is reached is chosen. An action near (1, 1) ends the episode, and where asked for that goal does too."""

    observation_space = spaces.Dict(
        observation=spaces.Box(-1, 1, (3,)),
        achieved_goal=spaces.Box(-np.inf, np.inf, (2,)),
        desired_goal=spaces.Box(-np.inf, np.inf, (2,)),
    )
    action_space = spaces.Box(-1, 1, (2,))

    def __init__(self, tells="is_success", fixed=False, ends=False):
        self.tells, self.fixed, self.ends = tells, fixed, ends
        if tells == "reward":
            self.compute_reward = lambda achieved, desired, info: -float(np.abs(achieved - desired).max() > 0.1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.desired = np.array([0.5, 0.5]) if self.fixed else self.np_random.uniform([-0.8, -0.4], [0.8, 0.4])
        return self._see(np.zeros(2)), {}

    def _see(self, place):
        whole = {"observation": [*place, 0.5], "achieved_goal": place, "desired_goal": self.desired}
        return {name: np.array(x, np.float32) for name, x in whole.items()}

    def step(self, action):
        near = bool(np.abs(action - self.desired).max() <= 0.1)
        info = {self.tells: near} if self.tells in ("is_success", "success") else {}
        return self._see(action), 0.0, bool(action.min() > 0.95) or (self.ends and near), False, info


class Walk(gymnasium.Env):
    """Three actions, numbered from −1: a step to the left, none, or to the right, on a line from −5 to 5."""

    observation_space = spaces.Box(-5, 5, (1,))
    action_space = spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        self.place = np.zeros(1, np.float32)
        return self.place.copy(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.place = np.clip(self.place + action, -5, 5).astype(np.float32)
        return self.place.copy(), 0.0, False, False, {}


class Mixed(gymnasium.Env):
    """Observations of several kinds."""

    observation_space = spaces.Dict(
        kind=spaces.Discrete(3), pair=spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.Box(0, 9, (1, 1))))
    )
    action_space = spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        return {"kind": 2, "pair": (np.zeros(2, np.float32), np.full((1, 1), 7, np.float32))}, {}

    def step(self, action):
        return {"kind": 1, "pair": (action, np.full((1, 1), 8, np.float32))}, 0.0, False, False, {}


BOX = spaces.Box(-1, 1, (2,))


class Lame(Echo):
    def step(self, action):
        raise RuntimeError("no power\nat all")


class Scalar(gymnasium.Env):
    """Observations and actions without any axis."""

    observation_space = action_space = spaces.Box(-1, 1, ())

    def reset(self, *, seed=None, options=None):
        return np.float32(0), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return action, 0.0, False, False, {}

    def close(self):
        raise RuntimeError("closed twice")


class Switches(Whole):
    action_space = spaces.Box(0, 1, (4,), bool)


class Lost(Whole):
    """From its second start on it does not know where it is."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,))
    action_space = spaces.Box(-1, 1, (1,))
    starts = 0

    def reset(self, *, seed=None, options=None):
        self.starts += 1
        return np.full(1, np.nan if self.starts > FIRST_STARTS else 0.0, np.float32), {}

    def step(self, action):
        return action, 0.0, False, False, {}


FIRST_STARTS = 1
gymnasium.register("Scalar-v0", Scalar, max_episode_steps=6)
gymnasium.register("Switches-v0", Switches, max_episode_steps=6)
gymnasium.register("Reach-v0", Reach, max_episode_steps=6)
gymnasium.register("Walk-v0", Walk, max_episode_steps=8)
gymnasium.register("Mixed-v0", Mixed, max_episode_steps=6)
gymnasium.register("Lost-v0", Lost, max_episode_steps=6)
gymnasium.register("Lame-v0", Lame, max_episode_steps=6)
gymnasium.register("Echo-v0", Echo, max_episode_steps=6)
gymnasium.register("Endless-v0", Echo)
gymnasium.register("Bare-v0", Bare, max_episode_steps=6)
for name, limit in {
    "Numpy": np.int64(6),
    "Float": 6.0,
    "Half": 6.5,
    "Zero": 0,
    "None": -1,
    "Inf": np.inf,
    "Word": "6",
}.items():
    gymnasium.register(f"{name}Limit-v0", Echo, max_episode_steps=limit)
gymnasium.register("Whole-v0", Whole, max_episode_steps=6)
gymnasium.register("Needy-v0", Needy, max_episode_steps=6)
gymnasium.register("Quitter-v0", Quitter, max_episode_steps=6)
gymnasium.register("Table-v0", Table, max_episode_steps=6)
gymnasium.register("Timeless-v0", Timeless, max_episode_steps=6)
gymnasium.register("Faulty-v0", Faulty, max_episode_steps=6)
for name, seen, acted in (
    ("Discrete", BOX, spaces.MultiDiscrete([2, 3])),
    ("Still", BOX, spaces.Box(-1, 1, (0,))),
    ("Flat", spaces.Box(np.array([0, 0, -1]), np.array([1, 0, 1])), BOX),
    ("Words", spaces.Sequence(BOX), BOX),
    ("Nowhere", None, BOX),
    ("Count", 5, BOX),
    ("Empty", spaces.Dict(), BOX),
    ("Hollow", spaces.Dict(place=BOX, rest=spaces.Tuple(())), BOX),
    ("Idle", BOX, None),
    ("Picture", spaces.Dict(place=BOX, view=spaces.Box(0, 255, (8, 9, 3), np.uint8)), BOX),
):
    kwargs = {"observation_space": seen, "action_space": acted}
    gymnasium.register(f"{name}-v0", Spaces, max_episode_steps=6, kwargs=kwargs)
