"""DIAYN with and without P-HER on three bodies: the paper's table of discrete goals, 10 to 1000 of them."""

from vgcrl.experiments.comparison import Contrast
from vgcrl.experiments.grid import Aside, Grid

BODIES = ("HalfCheetah", "Ant", "Humanoid")
EARLY = Aside(
    "HalfCheetah-G200-early",
    tuple(
        {"env": "HalfCheetah", "goal_dim": "200", "posterior": "categorical", "p_her": p_her, "sn": sn, "early": "1"}
        for sn in "01"
        for p_her in "01"
    ),
    # As the paper trained: little data, each step of it learned from once.
    {"steps": 100_000, "envs": 1, "updates_per_step": 1.0, "replay": 100_000, "evaluate_every": 10_000},
    {"steps": 2_000, "envs": 1, "updates_per_step": 1.0, "evaluate_every": 1_000},
)
GRID = Grid(
    "Discrete goals on HalfCheetah, Ant and Humanoid",
    "P-HER lets DIAYN tell its skills apart where there are many of them, and on bodies that are hard to control.",
    table="discrete",
    method="diayn",
    posteriors={"categorical": "categorical"},
    higher=True,
    contrasts=(
        *(
            Contrast(
                f"{env}: P-HER raises LGR(z) at |G| ≥ 200",
                "p_her",
                lambda row, env=env: row["env"] == env and int(row["goal_dim"]) >= 200 and "early" not in row,
            )
            for env in BODIES
        ),
        *(
            Contrast(
                f"{env}, a hard body: P-HER raises LGR(z) over all |G|",
                "p_her",
                lambda row, env=env: row["env"] == env and "early" not in row,
            )
            for env in BODIES[1:]
        ),
        Contrast(
            "HalfCheetah, |G| = 200, one environment and one update per step: P-HER raises LGR(z) without SN",
            "p_her",
            lambda row: "early" in row and row["sn"] == "0",
        ),
        Contrast(
            "HalfCheetah, |G| = 200, one environment and one update per step: SN raises LGR(z) without P-HER",
            "sn",
            lambda row: "early" in row and row["p_her"] == "0",
        ),
    ),
    asides=(EARLY,),
)
