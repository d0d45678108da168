"""``python -m analysis.codegen``: write every file that derives from the rules, or with ``--check`` name stale ones."""

from __future__ import annotations

import sys

from analysis.codegen import FILES
from dissector.codegen.__main__ import main

if __name__ == "__main__":
    sys.exit(main(files=FILES, name="analysis.codegen"))
