"""``uprscope lua``: the Wireshark plugin, printed or put where Wireshark looks for it, and the rules that it checks.

The plugin is made from the declarations when it is asked for, so an installed package has it too. This module knows
which files go where; :mod:`analysis.codegen.lua_rules` and :mod:`dissector.codegen.lua_profile` know what is in them.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.codegen import lua_profile
from dissector.errors import UsageError
from dissector.terminal.style import Terminal, one_line
from uprscope.cli import wireshark

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from analysis.codegen.lua_rules import ListedRule

NAME = "upr.lua"
PROFILE = "UPR"

_EPILOG = """\
examples:
  uprscope lua > upr.lua                       to use it once:
  tshark -X lua_script:upr.lua -r capture.pcapng
  uprscope lua --install --profile             to have it always
  tshark -C UPR --color -r capture.pcapng -Y upr.expert.seq_01
  uprscope lua --rules                         what it checks itself, and the rest:
  uprscope check capture.pcapng --annotate out.pcapng
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--install", action="store_true", help="put the plugin into your Wireshark plugin folder")
    action.add_argument("--uninstall", action="store_true", help="remove it from there, and the profile")
    action.add_argument(
        "--rules",
        action="store_true",
        help="list all rules, and which of them the plugin checks",
    )
    parser.add_argument(
        "--profile", action="store_true", help="with --install: also a profile with columns, colors, filters and graphs"
    )
    parser.add_argument("--json", action="store_true", help="with --rules: as JSON")
    parser.add_argument(
        "--plugins", metavar="DIR", type=Path, help="the plugin folder (default: where Wireshark looks)"
    )
    parser.add_argument("--config", metavar="DIR", type=Path, help="Wireshark's configuration folder (the same)")


def run(args: argparse.Namespace) -> int:
    """Print, install or remove the plugin, or list the rules; return the exit status."""
    if args.profile and not args.install:
        raise UsageError("--profile goes with --install")
    if args.json and not args.rules:
        raise UsageError("--json goes with --rules")
    plugin = (args.plugins or wireshark.plugin_folder()) / NAME
    profile = (args.config or wireshark.config_folder()) / "profiles" / PROFILE
    if args.install:
        _install(plugin, profile if args.profile else None)
        if args.plugins is None:
            _note(wireshark.root_notes())
    elif args.uninstall:
        _remove(plugin, profile)
    elif args.rules:
        _list_rules(Terminal.of(sys.stdout, args.color), as_json=args.json)
    else:
        sys.stdout.write(_plugin())
    return 0


def _plugin() -> str:
    from analysis.codegen import lua_rules  # noqa: PLC0415 - brings the rules along

    return lua_rules.render()


def _install(plugin: Path, profile: Path | None) -> None:
    _write(plugin, _plugin())
    if profile is None:
        return
    for name, text in lua_profile.render().items():
        if name == lua_profile.KEPT and (profile / name).is_file():
            print(f"kept {profile / name}")
        else:
            _write(profile / name, text)


def _note(notes: Iterator[str]) -> None:
    terminal = Terminal.of(sys.stderr)
    for note in notes:
        sys.stderr.write(f"{terminal.warning('uprscope:')} {one_line(note)}\n")


def _list_rules(terminal: Terminal, *, as_json: bool) -> None:
    from analysis.codegen import lua_rules  # noqa: PLC0415 - brings the rules along

    rules = lua_rules.listing()
    if as_json:
        json.dump([rule._asdict() for rule in rules], sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    for line in (*_rule_lines(terminal, rules), "", *_summary(terminal, rules)):
        print(terminal.encode(line))


def _rule_lines(terminal: Terminal, rules: Sequence[ListedRule]) -> Iterator[str]:
    """Yield the table: the short columns, then the titles, which are wrapped."""
    rows = [("rule", "severity", "where"), *((rule.rule, rule.severity, rule.where) for rule in rules)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    indent = " " * (sum(widths) + 2 * len(widths))
    titles = ["title", *(rule.title for rule in rules)]
    for row, title in zip(rows, titles, strict=True):
        start = "".join(f"{cell:{width}}  " for cell, width in zip(row, widths, strict=True))
        yield from terminal.wrap(title, start, indent)


def _summary(terminal: Terminal, rules: Sequence[ListedRule]) -> Iterator[str]:
    counts = Counter(rule.where for rule in rules)
    yield from terminal.wrap(
        f"{counts['plugin']} of {len(rules)} rules are checked by the plugin; the other {counts['annotate']} come into"
        f" Wireshark with uprscope check CAPTURE --annotate out.pcapng"
    )
    for rule in rules:
        if rule.preference:
            yield from terminal.wrap(f"{rule.rule} is checked only with the preference {rule.preference}")


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
