"""Libraries that only some commands need: which ones, in which versions, and how to install them.

They are declared once, as the extras in pyproject.toml, and read from the metadata of the installed package. Hints name
the libraries and never this package: no index has it, so what an index has under its name would be somebody else's.
"""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import sys
from pathlib import Path

PACKAGE = "uprscope"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"extra\s*==")


def install_command(*libraries: str) -> str:
    """Return the command that installs libraries into this environment, be it pipx's or one of pip's."""
    environment = Path(sys.prefix)  # pipx calls one of its own as the package, or as --suffix says
    pipx = (environment / "pipx_metadata.json").is_file()
    command = f"pipx inject {shlex.quote(environment.name)}" if pipx else "pip install"
    return f"{command} {shlex.join(map(_requirement, libraries))}"


def _requirement(library: str) -> str:
    """Return a library with the versions that will do; its bare name where the package's metadata is not there."""
    try:
        declared = importlib.metadata.requires(PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:  # unpacked, as on a cluster
        return library
    for each in declared:
        requirement, _, condition = each.partition(";")
        name = _NAME.match(requirement)
        if name is not None and name[0].lower() == library and _EXTRA.search(condition) and "[" not in requirement:
            return requirement.strip()
    return library
