"""``python -m dissector.codegen``: write every file that derives from the spec, or with ``--check`` name stale ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dissector import codegen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def main(
    argv: Sequence[str] | None = None, files: Mapping[str, str] = codegen.FILES, name: str = "dissector.codegen"
) -> int:
    """Write or check; 1 means that something was stale. ``name`` is that of the package that ``files`` belong to."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description="write generated files anew")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name what is stale")
    parser.add_argument("--root", type=Path, default=codegen.ROOT, help="the repository (default: this one)")
    args = parser.parse_args(argv)
    # An installed package has no repository around it; nothing is written into site-packages.
    if not (args.root / "pyproject.toml").is_file():
        parser.error(f"{args.root} is not a checkout of the repository; name one with --root")
    if args.check:
        found = codegen.stale(args.root, files)
        for each in found:
            print(f"{each} is stale: run python -m {name}", file=sys.stderr)
        return 1 if found else 0
    for each in codegen.write(args.root, files):
        print(each)
    return 0


if __name__ == "__main__":
    sys.exit(main())
