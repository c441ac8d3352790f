"""How often a policy reaches the goals that a goal environment asks for, and how far from them it ends.

The same 50 episodes for whoever has `predict` as stable-baselines3 has it: `tools/sb3_maze.py` asks as it trains, and
`python tools/maze_score.py RUN results/mazes/NAME.json` adds the policies of a run of vgcrl to its file.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import gymnasium_robotics
import numpy as np

EPISODES = 50
FIRST_SEED = 1_000_000  # of the environments' starts and goals


def score(predict: Callable[..., Any], env_id: str) -> dict[str, float]:
    """Shares of episodes with success, at any step and at the end; mean distance of goals at first and at the end."""
    gymnasium.register_envs(gymnasium_robotics)
    envs = [gymnasium.make(env_id) for _ in range(EPISODES)]
    seen = [env.reset(seed=FIRST_SEED + i)[0] for i, env in enumerate(envs)]
    first, running = distances(seen), np.ones(EPISODES, bool)
    ever, end = np.zeros(EPISODES), np.zeros(EPISODES)
    while running.any():
        actions = predict({key: np.stack([obs[key] for obs in seen]) for key in seen[0]}, deterministic=True)[0]
        for i in np.flatnonzero(running):
            seen[i], _, terminated, truncated, info = envs[i].step(actions[i])
            end[i] = info["success"]
            ever[i] = max(ever[i], end[i])
            running[i] = not (terminated or truncated)
    for env in envs:
        env.close()
    found = {"env_success": ever, "env_success_end": end, "start_distance": first, "end_distance": distances(seen)}
    return {name: float(x.mean()) for name, x in found.items()}


def distances(seen: list[dict[str, np.ndarray]]) -> np.ndarray:
    return np.array([np.linalg.norm(obs["achieved_goal"] - obs["desired_goal"]) for obs in seen])


def main(run: Path, out: Path) -> None:
    from vgcrl.training.trainer import restore
    from vgcrl.use.policy import policy_of

    record = json.loads(out.read_text(encoding="utf-8"))
    program, runs, counters = restore(run, print)
    scores = [{"seed": s, **score(policy_of(program, runs, s).predict, program.config.env)} for s in record["seeds"]]
    record["own_goals"] = {"step": counters["step"], "episodes": EPISODES, "seeds": scores}
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(counters, *scores, sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
