"""``uprscope lua``: the Wireshark plugin, printed or put where Wireshark looks for it.

The plugin is made from the declarations when it is asked for, so an installed package has it too. This module knows
Wireshark's folders; what the plugin holds it does not know.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.codegen import lua_profile
from dissector.codegen import render as rendered
from dissector.errors import UsageError

if TYPE_CHECKING:
    import argparse

NAME = "upr.lua"
PROFILE = "UPR"
#: The plugin's words for its rules come from the rules; the module that puts both together is looked up by name.
_FILES = {NAME: "analysis.codegen.lua_rules"}

_EPILOG = """\
examples:
  uprscope lua > upr.lua                       to use it once:
  tshark -X lua_script:upr.lua -r capture.pcapng
  uprscope lua --install --profile             to have it always
  tshark -C UPR --color -r capture.pcapng -Y upr.expert.seq_01
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--install", action="store_true", help="put the plugin into your Wireshark plugin folder")
    action.add_argument("--uninstall", action="store_true", help="remove it from there, and the profile")
    parser.add_argument("--profile", action="store_true", help="with --install: also a profile with colors and filters")
    parser.add_argument(
        "--plugins", metavar="DIR", type=Path, help="the plugin folder (default: where Wireshark looks)"
    )
    parser.add_argument("--config", metavar="DIR", type=Path, help="Wireshark's configuration folder (the same)")


def run(args: argparse.Namespace) -> int:
    """Print, install or remove."""
    if args.profile and not args.install:
        raise UsageError("--profile goes with --install")
    plugin = (args.plugins or plugin_folder()) / NAME
    profile = (args.config or config_folder()) / "profiles" / PROFILE
    if args.install:
        _write(plugin, rendered(NAME, _FILES))
        if args.profile:
            for name, text in lua_profile.render().items():
                _write(profile / name, text)
    elif args.uninstall:
        _remove(plugin, profile)
    else:
        sys.stdout.write(rendered(NAME, _FILES))
    return 0


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


def _write(path: Path, text: str) -> None:
    known = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    if known == text:
        print(f"{path} is up to date")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text, encoding="utf-8", newline="\n")
    draft.replace(path)
    print(f"{'wrote' if known is None else 'replaced'} {path}")


def _remove(plugin: Path, profile: Path) -> None:
    found = False
    if plugin.is_file():
        plugin.unlink()
        print(f"removed {plugin}")
        found = True
    if profile.is_dir():
        own = set(lua_profile.render())
        others = sorted(each.name for each in profile.iterdir() if each.name not in own)
        if others:
            for name in own:
                (profile / name).unlink(missing_ok=True)
            print(f"removed our files from {profile}; kept {', '.join(others)}")
        else:
            shutil.rmtree(profile)
            print(f"removed {profile}")
        found = True
    if not found:
        print(f"nothing to remove: neither {plugin} nor {profile}")
