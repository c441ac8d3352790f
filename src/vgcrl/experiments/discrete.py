"""DIAYN with and without P-HER on three bodies: the paper's table of discrete goals, 10 to 1000 of them."""

from vgcrl.experiments.cells import Row
from vgcrl.experiments.grid import ExtraRun, Grid
from vgcrl.experiments.paired_claims import PairedClaim
from vgcrl.experiments.paper import paper_rows

BODIES = ("HalfCheetah", "Ant", "Humanoid")
ONE_ENVIRONMENT = "Early training as in the paper: one environment, one update per step"
VELOCITY = "Skills that move: q sees only the velocity"
UPDATE_PER_STEP = "As many updates as in the paper: one update per step"


def rows(title: str, goal_dim: str, sn: str) -> tuple[Row, ...]:
    both = [(p_her, bound) for bound in sn for p_her in "01"]
    same = {"env": "HalfCheetah", "goal_dim": goal_dim, "posterior": "categorical", "aside": title}
    return tuple({**same, "p_her": p_her, "sn": bound} for p_her, bound in both)


def with_published(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Returns rows that repeat rows of the paper with the paper's numbers added."""
    same = ("env", "goal_dim", "posterior", "p_her", "sn")
    known = {tuple(row[k] for k in same): row for row in paper_rows("discrete")}
    return tuple(known[tuple(row[k] for k in same)] | row for row in rows)


ASIDES = (
    ExtraRun(
        "HalfCheetah-G200-one-environment",
        rows(ONE_ENVIRONMENT, "200", sn="01"),
        {"steps": 100_000, "envs": 1, "updates_per_step": 1.0, "replay": 100_000, "evaluate_every": 10_000},
        {"steps": 2_000, "envs": 1, "updates_per_step": 1.0, "evaluate_every": 1_000},
    ),
    ExtraRun(
        "HalfCheetah-G10-velocity",
        rows(VELOCITY, "10", sn="0"),
        {"features": "velocity", "steps": 2_000_000, "envs": 128, "updates_per_step": 0.125},
        {"features": "velocity"},
    ),
    ExtraRun(
        "HalfCheetah-G50-update-per-step",
        with_published(rows(UPDATE_PER_STEP, "50", sn="0")),
        {"envs": 64, "updates_per_step": 1.0},
        {"steps": 2_000, "envs": 8, "updates_per_step": 1.0, "evaluate_every": 1_000},
    ),
)
GRID = Grid(
    "Discrete goals on HalfCheetah, Ant and Humanoid",
    "P-HER lets DIAYN tell its skills apart where there are many of them, and on robots that are hard to control.",
    table="discrete",
    method="diayn",
    posteriors={"categorical": "categorical"},
    higher=True,
    contrasts=(
        *(
            PairedClaim(
                f"{env}: P-HER raises LGR(z) at |G| ≥ 200",
                ("p_her",),
                lambda row, env=env: row["env"] == env and int(row["goal_dim"]) >= 200 and "aside" not in row,
            )
            for env in BODIES
        ),
        *(
            PairedClaim(
                f"{env}, hard to control: P-HER raises LGR(z) over all |G|",
                ("p_her",),
                lambda row, env=env: row["env"] == env and "aside" not in row,
            )
            for env in BODIES[1:]
        ),
        PairedClaim(
            "HalfCheetah, |G| = 200, one environment and one update per step: P-HER raises LGR(z) without SN",
            ("p_her",),
            lambda row: row.get("aside") == ONE_ENVIRONMENT and row["sn"] == "0",
        ),
        PairedClaim(
            "HalfCheetah, |G| = 200, one environment and one update per step: SN raises LGR(z) without P-HER",
            ("sn",),
            lambda row: row.get("aside") == ONE_ENVIRONMENT and row["p_her"] == "0",
        ),
    ),
    asides=ASIDES,
)
