"""Keep what a run found in a file: `python tools/keep_run.py RUN results/FOLDER/NAME.json [REMARK]`."""

import dataclasses
import json
import sys
from pathlib import Path

import vgcrl
from vgcrl.training.logs import read_lines
from vgcrl.training.run_folder import read_config
from vgcrl.training.summary import SUMMARISED
from vgcrl.use.policies import train_command

run, out, *remark = sys.argv[1:]
config, lines = read_config(Path(run)), read_lines(Path(run) / "metrics.jsonl")
kept = ("seed", *config.swept, "episode_steps", *SUMMARISED)
record = {
    "command": train_command(config),
    "hardware": lines[-1]["hardware"],
    "versions": lines[-1]["versions"] | {"vgcrl": vgcrl.__version__},
    **({"remark": remark[0]} if remark else {}),
    "seeds": [row["seed"] for row in lines[-1]["seeds"]],
    "config": dataclasses.asdict(config),
    "evaluations": [
        {
            "step": line["step"],
            "wall": line["wall"],
            "seeds": [{k: row[k] for k in kept if k in row} for row in line["seeds"]],
        }
        for line in lines
    ],
}
Path(out).parent.mkdir(parents=True, exist_ok=True)
Path(out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
