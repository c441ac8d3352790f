"""`python -m vgcrl` is `vgcrl`."""

import sys

from vgcrl.cli import main

sys.exit(main())
