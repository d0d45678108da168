"""The Wiresharks that the plugin is tried on: one of each Lua that people have, run as an ordinary user.

Debian 12, 13 and the one after it have Wireshark 4.0 (Lua 5.2), 4.4 and 4.6 (both Lua 5.4). The tshark that is
installed stands for its version; the others are taken out of their packages into a folder of their own, outside the
tree, and run there with their own libraries. Nothing is installed, and nobody has to be root. Wireshark 4.2 is in no
release of Debian: its Lua is that of 4.0, and only the stub stands for its API.

``python -m tests.support.wiresharks`` fetches what is missing. Exit status: 0, or 1 where one is missing and
UPRSCOPE_REQUIRE_TOOLS=1. Without that the tests that need it are skipped, in red.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

#: Version and the release of Debian that has it. 4.6 moves on with its release: what it is then is what people have.
SUITES = {"4.0": "bookworm", "4.4": "trixie", "4.6": "forky"}
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg")
NOBODY = 65534
TIMEOUT_S = 900
FULL = os.environ.get("UPRSCOPE_SWEEP") == "full"


@dataclass(frozen=True)
class Wireshark:
    """A tshark that can be run."""

    version: str  #: such as 4.4
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict, hash=False)

    def run(
        self, *arguments: str | Path, home: Path | None = None, as_root: bool = False, timeout: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """Run it with nobody's settings, or with those of a home.

        Files are named by their paths. For root it is run as nobody, who may read less: since 4.2, Wireshark reads no
        Lua script for root.
        """
        place = str(home or "/nonexistent")
        user = None if as_root or os.geteuid() else NOBODY
        given = [str(seen_by_all(each)) if isinstance(each, Path) and user else str(each) for each in arguments]
        return subprocess.run(
            [*self.command, *given],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout,
            cwd="/",
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            env={**os.environ, **self.environment, "HOME": place, "XDG_CONFIG_HOME": f"{place}/.config"},
        )


class InUse:
    """The one that the tests at hand are about; the fixture ``wireshark`` chooses it."""

    wireshark: Wireshark

    @classmethod
    def takes(cls, number: int) -> bool:
        """Tell whether it reads a capture of this number: the newest one reads all, the others share them.

        With ``make sweep`` each reads all.
        """
        turn = list(SUITES).index(cls.wireshark.version)
        return FULL or turn == len(SUITES) - 1 or number % (len(SUITES) - 1) == turn


@cache
def all_of_them() -> dict[str, Wireshark]:
    """Return those that are there, by version."""
    found = {}
    installed = shutil.which("tshark")
    for version, suite in SUITES.items():
        laid = cache_folder() / f"tshark-{suite}"
        if installed and _version_of(installed) == version:
            found[version] = Wireshark(version, (installed,))
        elif laid.is_dir():
            found[version] = laid_out(version, laid)
    return found


def cache_folder() -> Path:
    """Return where they are kept; root's own folder is closed to everybody else, so that root has another."""
    if chosen := os.environ.get("UPRSCOPE_CACHE"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/cache/uprscope")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uprscope"


def laid_out(version: str, folder: Path) -> Wireshark:
    """Return the tshark in a folder that packages were taken out into."""
    (libraries,) = (each.parent for each in folder.glob("usr/lib/*/libwireshark.so.*[0-9]") if each.is_symlink())
    (loader,) = libraries.glob("ld-linux*.so.*")
    program = folder / "usr" / "bin" / "tshark"
    command = (str(loader), "--argv0", str(program), "--library-path", str(libraries), str(program))
    # The loader is what runs, so the program would look for its own files around that.
    places = {"WIRESHARK_DATA_DIR": str(folder / "usr/share/wireshark"), "WIRESHARK_PLUGIN_DIR": str(folder / "none")}
    return Wireshark(version, command, places)


def seen_by_all(path: Path) -> Path:
    """Return a path under which everybody can read a file: its own, or that of a copy."""
    path = path.resolve()
    if path.stat().st_mode & 0o004 and all(each.stat().st_mode & 0o001 for each in path.parents):
        return path
    stat = path.stat()
    copy = _public_folder() / f"{stat.st_dev}-{stat.st_ino}-{stat.st_mtime_ns}-{path.name}"
    if not copy.exists():
        draft = copy.with_suffix(".new")
        shutil.copyfile(path, draft)
        draft.chmod(0o644)
        draft.replace(copy)
    return copy


@cache
def _public_folder() -> Path:
    kept = tempfile.TemporaryDirectory(prefix="uprscope-captures-")
    _kept.append(kept)
    Path(kept.name).chmod(0o755)
    return Path(kept.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


@cache
def _version_of(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"TShark \(Wireshark\) (\d+\.\d+)", said)
    return match[1] if match else ""


# ---------------------------------------------------------------- fetching


class UnavailableError(Exception):
    """Why one can't be had here, in a line."""


def lay_out(suite: str, folder: Path) -> None:
    """Take the tshark of a release of Debian, and all that it needs, out of their packages into a folder."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise UnavailableError(f"{program} is not here: only Debian and its kin can fetch other releases' packages")
    keyring = next((name for name in KEYRINGS if Path(name).is_file()), None)
    if keyring is None:
        raise UnavailableError("the keys of Debian's archive are not here: apt-get install debian-archive-keyring")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        root = Path(work)
        for name in ("apt.conf.d", "preferences.d", "lists/partial", "archives/partial", "out"):
            (root / name).mkdir(parents=True)
        (root / "status").touch()
        (root / "sources.list").write_text(f"deb [signed-by={keyring}] {_mirror()} {suite} main\n")
        # A world of its own: no list, setting or package of this machine's is read or changed.
        options = {
            "Dir::Etc": root,
            "Dir::Etc::SourceParts": "-",
            "Dir::State": root,
            "Dir::State::status": root / "status",
            "Dir::Cache": root,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
            "Acquire::Retries": "3",
        }
        apt = ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
        _call(*apt, "update")
        _call(*apt, "-y", "--download-only", "install", "tshark")
        for package in sorted((root / "archives").glob("*.deb")):
            _call("dpkg-deb", "-x", str(package), str(root / "out"))
        (root / "out").chmod(0o755)
        if not folder.exists():  # somebody else may have been faster
            (root / "out").rename(folder)


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UnavailableError(f"{command[0]} failed: {said[0] if said else done.returncode}")


def _mirror() -> str:
    """Return where this machine gets Debian's packages from."""
    etc = Path("/etc/apt")
    for path in (*sorted(etc.glob("sources.list.d/*.sources")), etc / "sources.list"):
        text = path.read_text(errors="replace") if path.is_file() else ""
        for match in re.finditer(r"^(?:URIs:|deb\b[^\n]*?)\s*(\S+://\S*debian/?)(?=\s)", text, re.MULTILINE):
            return match[1]
    return "http://deb.debian.org/debian"


def main() -> int:
    """Fetch what is missing."""
    missing = 0
    for version, suite in SUITES.items():
        if version in all_of_them():
            continue
        folder = cache_folder() / f"tshark-{suite}"
        print(f"Wireshark {version} is missing: taking it out of Debian's packages into {folder}", file=sys.stderr)
        try:
            lay_out(suite, folder)
            _try(laid_out(version, folder), suite)
        except (UnavailableError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            missing += 1
            _complain(version, str(error))
    return 1 if missing and os.environ.get("UPRSCOPE_REQUIRE_TOOLS") == "1" else 0


def _try(made: Wireshark, suite: str) -> None:
    said = made.run("--version")
    if not said.stdout.startswith(f"TShark (Wireshark) {made.version}"):
        found = said.stdout[:40].partition("\n")[0] or said.stderr[:80]
        raise UnavailableError(f"what {suite} has is not {made.version}, or does not run here: {found}")


def _complain(version: str, why: str) -> None:
    colored = not os.environ.get("NO_COLOR") and (sys.stderr.isatty() or os.environ.get("CI"))
    red, plain = ("\033[31m", "\033[0m") if colored else ("", "")
    required = os.environ.get("UPRSCOPE_REQUIRE_TOOLS") == "1"
    what = "and UPRSCOPE_REQUIRE_TOOLS=1 asks for it" if required else "its tests will be skipped"
    kind = "error" if required else "warning"
    print(f"{red}{kind}: no Wireshark {version}, {what}: {why}{plain}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
