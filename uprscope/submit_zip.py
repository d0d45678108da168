"""What a cluster needs of this program: a zip for ``--py-files`` and a script to submit.

Knows which files belong to the program; must not know Spark. The libraries that it stands on (numpy, pyarrow and the
rest of pyproject.toml) have to be in the Python of the workers.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import analysis
import dissector
import uprscope
from dissector.errors import UsageError
from dissector.frames.writers import destination

_SCRIPT = '''"""Runs uprscope archive under spark-submit; the program itself is in the zip beside this file."""

import sys
from pathlib import Path

# By its name this file hides the package of the zip.
here = Path(__file__).resolve().parent
sys.path[:] = [each for each in sys.path if Path(each).resolve() != here]

from uprscope.cli import main

sys.exit(main(["archive", *sys.argv[1:]]))
'''
_LEFT_OUT = (".pyc", ".md")


def make_zip(name: str) -> Path:
    """Write the zip, and beside it the script; return the script's path."""
    path = Path(name)
    if path.suffix != ".zip":
        raise UsageError(f"{name}: the name has to end in .zip")
    with destination(name) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in (dissector, analysis, uprscope):
            root = Path(str(package.__file__)).parent
            for each in sorted(root.rglob("*")):
                if each.is_file() and each.suffix not in _LEFT_OUT:
                    packed.writestr(_info(each.relative_to(root.parent)), each.read_bytes())
    script = path.with_suffix(".py")
    with destination(str(script)) as stream:
        stream.write(_SCRIPT.encode())
    return script


def _info(path: Path) -> zipfile.ZipInfo:
    """Return an entry without the time of day: the same program gives the same zip."""
    entry = zipfile.ZipInfo(path.as_posix())
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
