"""``python -m dissector.codegen``: write every file that derives from the spec, or with ``--check`` name stale ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dissector import codegen

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check; 1 means that something was stale."""
    parser = argparse.ArgumentParser(prog="python -m dissector.codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name what is stale")
    parser.add_argument("--root", type=Path, default=codegen.ROOT, help="the repository (default: this one)")
    args = parser.parse_args(argv)
    # An installed package has no repository around it; writing into site-packages would help nobody.
    if not (args.root / "pyproject.toml").is_file():
        parser.error(f"{args.root} is not a checkout of the repository; name one with --root")
    if args.check:
        found = codegen.stale(args.root)
        for name in found:
            print(f"{name} is stale: run python -m dissector.codegen", file=sys.stderr)
        return 1 if found else 0
    for name in codegen.write(args.root):
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
