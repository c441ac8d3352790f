"""SAC with HER of stable-baselines3 on a goal environment, in a file like those of tools/keep_run.py.

`python tools/sb3_maze.py ENV STEPS EVERY SEED OUT`: steps in all and between evaluations of 50 episodes. It needs
stable-baselines3 and gymnasium-robotics.
"""

import json
import os
import platform
import shlex
import sys
import time
from pathlib import Path

import gymnasium
import gymnasium_robotics
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import SAC, HerReplayBuffer

EPISODES = 50
OPTIONS = {"batch_size": 256, "learning_rate": 1e-3, "gamma": 0.99, "learning_starts": 1000, "buffer_size": 200_000}
OPTIONS |= {"train_freq": 1, "gradient_steps": 1, "policy_kwargs": {"net_arch": [128, 128]}}
HINDSIGHT = {"n_sampled_goal": 4, "goal_selection_strategy": "future"}


def success(model, env) -> dict[str, float]:
    """Shares of episodes in which the goal was reached, at any step and at the end, without noise."""
    ever, end = [], []
    for i in range(EPISODES):
        obs, _ = env.reset(seed=1_000_000 + i)
        hits, done = [], False
        while not done:
            obs, _, terminated, truncated, info = env.step(model.predict(obs, deterministic=True)[0])
            hits.append(bool(info["success"]))
            done = terminated or truncated
        ever.append(any(hits))
        end.append(hits[-1])
    return {"env_success": float(np.mean(ever)), "env_success_end": float(np.mean(end))}


def main(env_id: str, steps: int, every: int, seed: int, out: Path) -> None:
    gymnasium.register_envs(gymnasium_robotics)
    env, held_out = gymnasium.make(env_id), gymnasium.make(env_id)
    hindsight = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": HINDSIGHT}
    model = SAC("MultiInputPolicy", env, seed=seed, **hindsight, **OPTIONS)
    trained, cpu, evaluations = 0.0, 0.0, []
    for step in range(every, steps + 1, every):
        wall, used = time.monotonic(), time.process_time()
        model.learn(every, reset_num_timesteps=step == every)
        trained, cpu = trained + time.monotonic() - wall, cpu + time.process_time() - used
        found = {"seed": seed, **success(model, held_out)}
        evaluations.append({"step": step, "wall": trained, "cpu_seconds": cpu, "seeds": [found]})
        print(evaluations[-1], flush=True)
        record = {
            "command": shlex.join(["python", "tools/sb3_maze.py", *sys.argv[1:]]),
            "hardware": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
            "versions": {
                "stable-baselines3": stable_baselines3.__version__,
                "torch": torch.__version__,
                "gymnasium-robotics": gymnasium_robotics.__version__,
                "python": platform.python_version(),
            },
            "seeds": [seed],
            "config": OPTIONS | HINDSIGHT,
            "evaluations": evaluations,
        }
        out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, steps, every, seed, out = sys.argv[1:]
    main(name, int(steps), int(every), int(seed), Path(out))
