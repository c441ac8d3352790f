"""SAC with HER of stable-baselines3 on a goal environment, in a file like those of tools/keep_run.py.

`python tools/sb3_maze.py ENV STEPS EVERY SEED OUT`: steps in all, and between evaluations by `tools/maze_score.py`. It
needs stable-baselines3 and gymnasium-robotics.
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
import stable_baselines3
import torch
from maze_score import EPISODES, score
from stable_baselines3 import SAC, HerReplayBuffer

OPTIONS = {"batch_size": 256, "learning_rate": 1e-3, "gamma": 0.99, "learning_starts": 1000, "buffer_size": 200_000}
OPTIONS |= {"train_freq": 1, "gradient_steps": 1, "policy_kwargs": {"net_arch": [128, 128]}}
HINDSIGHT = {"n_sampled_goal": 4, "goal_selection_strategy": "future"}


def main(env_id: str, steps: int, every: int, seed: int, out: Path) -> None:
    gymnasium.register_envs(gymnasium_robotics)
    hindsight = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": HINDSIGHT}
    model = SAC("MultiInputPolicy", gymnasium.make(env_id), seed=seed, **hindsight, **OPTIONS)
    trained, cpu, evaluations = 0.0, 0.0, []
    for step in range(every, steps + 1, every):
        wall, used = time.monotonic(), time.process_time()
        model.learn(every, reset_num_timesteps=step == every)
        trained, cpu = trained + time.monotonic() - wall, cpu + time.process_time() - used
        found = {"seed": seed, **score(model.predict, env_id)}
        evaluations.append({"step": step, "wall": trained, "cpu_seconds": cpu, "seeds": [found]})
        print(evaluations[-1], flush=True)
        record = {
            "command": shlex.join(["python", "tools/sb3_maze.py", *sys.argv[1:5], out.name]),
            "hardware": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
            "versions": {
                "stable-baselines3": stable_baselines3.__version__,
                "torch": torch.__version__,
                "gymnasium-robotics": gymnasium_robotics.__version__,
                "python": platform.python_version(),
            },
            "seeds": [seed],
            "config": OPTIONS | HINDSIGHT | {"env": env_id},
            "evaluations": evaluations,
            "own_goals": {"step": step, "episodes": EPISODES, "seeds": [found]},
        }
        out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, steps, every, seed, out = sys.argv[1:]
    main(name, int(steps), int(every), int(seed), Path(out))
