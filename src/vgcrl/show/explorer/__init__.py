"""The explorer: one HTML file in which one picks a goal and watches the body go. No server, no network."""

from vgcrl.show.explorer.page import explore

__all__ = ["explore"]
