"""The explorer: one HTML file in which you choose a goal and watch the robot go. No server, no network."""

from vgcrl.show.explorer.page import explore

__all__ = ["explore"]
