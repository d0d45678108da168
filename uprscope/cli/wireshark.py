"""The Wireshark of this machine: where it looks for plugins and profiles, and whether it runs the scripts of root.

Knows Wireshark's folders, options and versions; nothing of the plugin that is put there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: From this version on Lua scripts in root's own folders, and those of -X lua_script, are ignored without a word.
IGNORES_ROOT = (4, 2)
_SECONDS = 20  #: a first start reads all of Wireshark's libraries
_VERSION = re.compile(r"Wireshark\)? (\d+)\.(\d+)[.\d]*")
_GLOBAL_FOLDER = re.compile(r"^Global Lua Plugins:\s*(\S.*)$", re.MULTILINE)


class Installed(NamedTuple):
    """A Wireshark that was found."""

    program: str
    name: str  #: Wireshark 4.4.6
    version: tuple[int, int]

    @property
    def ignores_root(self) -> bool:
        """Whether it ignores the Lua scripts of root."""
        return self.version >= IGNORES_ROOT


def plugin_folder() -> Path:
    """Return where Wireshark looks for a user's Lua plugins."""
    if os.name == "nt":
        return Path(os.environ.get("APPDATA", "")) / "Wireshark" / "plugins"
    return Path.home() / ".local" / "lib" / "wireshark" / "plugins"


def config_folder() -> Path:
    """Return where Wireshark keeps a user's profiles."""
    if os.name == "nt":
        return Path(os.environ.get("APPDATA", "")) / "Wireshark"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "wireshark"


def installed() -> Installed | None:
    """Look for a Wireshark on the PATH and ask it for its version."""
    for name in ("tshark", "wireshark"):
        program = shutil.which(name)
        found = _VERSION.search(_printed(program, "--version")) if program else None
        if program and found:
            return Installed(program, found[0].replace(")", ""), (int(found[1]), int(found[2])))
    return None


def root_notes() -> Iterator[str]:
    """Yield notes for an installation as root: whether Wireshark will run the plugin, and what to do if not."""
    if not _is_root():
        return
    user = os.environ.get("SUDO_USER", "root")
    if user != "root" and Path.home() != _home_of(user):
        yield f"this is root's folder, where the Wireshark of {user} does not look: for {user}, run it without sudo"
    found = installed()
    if found and not found.ignores_root:
        yield f"{found.name} runs the Lua scripts of root; 4.2 and later ignore them: run those as an ordinary user"
        return
    ignoring = f"{found.name} ignores" if found else "Wireshark 4.2 and later ignore"
    yield f"{ignoring} the Lua scripts of root without a word: run Wireshark as an ordinary user,"
    yield f"or install for all users: uprscope lua --install --plugins {_global_folder(found)}"


def _global_folder(found: Installed | None) -> str:
    """Return the folder whose scripts run for root too, or words that say how to find it."""
    folder = _GLOBAL_FOLDER.search(_printed(found.program, "-G", "folders")) if found else None
    return shlex.quote(folder[1].strip()) if folder else "DIR (tshark -G folders: Global Lua Plugins)"


def _printed(program: str, *options: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own tshark
            [program, *options], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _home_of(user: str) -> Path | None:
    try:
        return Path(f"~{user}").expanduser()
    except RuntimeError:
        return None
