"""Write what `vgcrl train --help` shows; run it after a change of the options."""

import json

from vgcrl.cli.plain_help import FILE, plain_help

FILE.write_text(json.dumps(plain_help(), indent=1, ensure_ascii=False) + "\n")
