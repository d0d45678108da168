"""The program for a Spark cluster: a zip for ``--py-files``, and the script that ``spark-submit`` runs.

Knows which files belong to the program: the packages ``dissector``, ``analysis`` and ``uprscope``. The libraries that
these import (numpy, pyarrow and the rest of pyproject.toml) have to be in the Python of the workers.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import analysis
import dissector
import uprscope
from dissector.errors import UsageError
from dissector.frames.writers import destination

_SCRIPT = '''"""Runs uprscope archive under spark-submit; the program itself is in the zip next to this file."""

import sys
from pathlib import Path

# By its name this file hides the package of the zip.
here = Path(__file__).resolve().parent
sys.path[:] = [each for each in sys.path if Path(each).resolve() != here]

from uprscope.cli import main

sys.exit(main(["archive", *sys.argv[1:]]))
'''
#: spark-submit puts the script's folder first on the path: a script called uprscope.py would hide the package.
SCRIPT_NAME = "uprscope_archive.py"
_LEFT_OUT = (".pyc", ".md")


def make_zip(name: str) -> Path:
    """Write the zip and, in the same folder, the script; return the script's path."""
    path = Path(name)
    if path.suffix != ".zip":
        raise UsageError(f"{name}: the name has to end in .zip")
    with destination(name) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in (dissector, analysis, uprscope):
            root = Path(str(package.__file__)).parent
            for each in sorted(root.rglob("*")):
                if each.is_file() and each.suffix not in _LEFT_OUT:
                    packed.writestr(_info(each.relative_to(root.parent)), each.read_bytes())
    script = path.with_name(SCRIPT_NAME)
    with destination(str(script)) as stream:
        stream.write(_SCRIPT.encode())
    return script


def _info(path: Path) -> zipfile.ZipInfo:
    """Return an entry without a date: the same program gives the same zip, byte for byte."""
    entry = zipfile.ZipInfo(path.as_posix())
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
