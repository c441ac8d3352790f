"""VGCRL with continuous goals on three bodies: the paper's table of posteriors, P-HER and spectral normalisation."""

from vgcrl.experiments.grid import Grid
from vgcrl.experiments.paired_claims import PairedClaim

BODIES = ("HalfCheetah", "Ant", "Humanoid")
GRID = Grid(
    "Continuous goals on HalfCheetah, Ant and Humanoid",
    "Spectral normalisation and P-HER bring the goals that q recovers closer to those pursued.",
    table="continuous",
    method="vgcrl",
    posteriors={"gaussian_fixed": "gaussian-fixed", "gaussian_learned": "gaussian", "gmm8": "gmm"},
    higher=False,
    rate=3e-5,
    contrasts=(
        *(
            PairedClaim(
                f"{env}: SN lowers LGR(z) of Gaussians with learned variance",
                ("sn",),
                lambda row, env=env: row["env"] == env and row["posterior"] == "gaussian_learned",
            )
            for env in BODIES
        ),
        *(
            PairedClaim(
                f"{env}: P-HER lowers LGR(z) over all posteriors and |G|",
                ("p_her",),
                lambda row, env=env: row["env"] == env,
            )
            for env in BODIES
        ),
        *(
            PairedClaim(
                f"{env}, |G| = 5: SN and P-HER together lower LGR(z) of Gaussians with learned variance",
                ("p_her", "sn"),
                lambda row, env=env: (
                    row["env"] == env and row["posterior"] == "gaussian_learned" and row["goal_dim"] == "5"
                ),
            )
            for env in BODIES
        ),
    ),
)
