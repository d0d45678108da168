"""What comes with the plugin: its profile, the notes for root, the list of rules, and the tables of its statistics."""

from __future__ import annotations

import json
import os
import re
import struct
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.codegen import lua_rules
from analysis.rules import RULE_BY_ID
from dissector.codegen import lua_profile
from dissector.codegen.lua_fields import FieldList
from dissector.codegen.lua_tables import Tables
from dissector.spec import registry
from tests.support.plugin import PLUGIN, ROOT, tshark
from tests.support.tcp_by_hand import CLIENT, SERVER, Conversation, Ends, marker, mutation, pcap, request, response
from uprscope.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.wiresharks import Wireshark

CLEAN = ROOT / "captures" / "clean"


def filters() -> list[str]:
    return [*(rule.filter for rule in lua_profile.COLORS), *(rule for _, rule in lua_profile.BUTTONS)]


def registered() -> set[str]:
    """Return the names of the fields that the plugin registers."""
    return {f"upr.{row['name']}" for row in FieldList(Tables()).rows()}


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that everybody can read, with plugin and profile in it."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plugins = folder / ".local" / "lib" / "wireshark" / "plugins"
        places = ["--plugins", str(plugins), "--config", str(folder / ".config" / "wireshark")]
        assert main(["lua", "--install", "--profile", *places]) == 0
        for each in (folder, *folder.rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)
        monkeypatch.undo()
        yield folder


# ---------------------------------------------------------------- the profile


def test_the_profile_asks_for_fields_that_there_are() -> None:
    asked = {*(graph.field for graph in lua_profile.GRAPHS)}
    asked |= {column.format for column in lua_profile.COLUMNS if not column.format.startswith("%")}
    asked |= {name for rule in filters() for name in re.findall(r"upr\.[a-z_.]+", rule)}
    assert len(asked) > 10
    assert asked <= registered()


def test_the_profile_asks_for_messages_that_there_are() -> None:
    asked = {name for rule in filters() if "upr.name" in rule for name in re.findall(r'"([^"]+)"', rule)}
    assert len(asked) > 20
    assert asked <= {message.name for message in registry.MESSAGES}


def test_every_message_of_the_protocol_has_a_color() -> None:
    colored = {name for rule in lua_profile.COLORS for name in re.findall(r'"([^"]+)"', rule.filter)}
    ours = {message.name for message in registry.MESSAGES if message.dialect != "memcached"}
    assert ours - colored == {"noop"}  # nothing happens: the color of the rest


def test_the_profile_sets_preferences_that_there_are() -> None:
    lines = lua_profile.render()["preferences"].splitlines()
    asked = [line.partition(":")[0] for line in lines if line.startswith("upr.")]
    assert asked
    text = PLUGIN.read_text(encoding="utf-8")
    assert [name for name in asked if f"\n{name.replace('upr.', 'upr.prefs.')} = Pref." not in text] == []


def luminance(color: str) -> float:
    """Return how bright a color is, as the Web's rules for contrast define it."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("color", lua_profile.COLORS, ids=lambda color: color.name)
def test_colors_can_be_read(color: lua_profile.Color) -> None:
    low, high = sorted((luminance(color.back), luminance(color.front)))
    assert (high + 0.05) / (low + 0.05) >= 4.5  # what the Web's rules ask of text


def test_colors_can_be_told_apart() -> None:
    backs = [rule.back for rule in lua_profile.COLORS]
    assert len(set(backs)) == len(backs)


def test_graphs_have_the_fields_that_every_version_reads() -> None:
    lines = lua_profile.render()["io_graphs"].splitlines()[1:]
    rows = [re.findall(r'"([^"]*)"', line) for line in lines]
    assert [row[6] for row in rows] == ["upr.outstanding", "upr.window", "upr.by_seqno"]
    for row in rows:
        # 4.0 and 4.4 have nine fields; 4.6 has a tenth and a value for it where it is left out.
        assert len(row) == 9
        assert row[0] in {"Enabled", "Disabled"}
        assert row[4] in {"Line", "Step Line"}
        assert (row[5], row[7], row[8]) == ("MAX(Y Field)", "None", "1")


def complaints(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if not line.startswith("Running as user")]


def test_wireshark_takes_the_profile_without_a_word(home: Path, wireshark: Wireshark) -> None:
    done = wireshark.run("-C", "UPR", "--color", "-T", "tabs", "-r", CLEAN / "basic.pcapng", home=home)
    assert done.returncode == 0
    assert complaints(done.stderr) == []
    rows = [re.sub("\x1b\\[[0-9;]*[mK]", "", line).split("\t") for line in done.stdout.splitlines()]
    assert {len(row) for row in rows} == {len(lua_profile.COLUMNS) + 1}  # and an arrow between the addresses
    (change,) = (row for row in rows if row[0].strip() == "20")
    vbucket, seqno, opaque, stream, window = change[-6:-1]
    assert (set(vbucket.split(",")), opaque, window) == ({"0"}, "0x08000000", "20480")
    assert "9" in seqno.split(",")
    assert set(stream.split(",")) == {"18"}


def test_wireshark_takes_the_filters(home: Path, wireshark: Wireshark) -> None:
    together = " || ".join(f"({rule})" for rule in filters())
    done = wireshark.run("-C", "UPR", "-r", CLEAN / "basic.pcapng", "-Y", together, home=home)
    assert done.returncode == 0
    assert complaints(done.stderr) == []


@pytest.mark.usefixtures("wireshark")
def test_what_tcp_complains_about_is_no_violation() -> None:
    (violations,) = (rule for label, rule in lua_profile.BUTTONS if label == "Violations")
    lossy = ROOT / "captures" / "rough" / "lossy.pcapng"
    broken = ROOT / "captures" / "broken" / "SEQ-01-repeated.pcapng"
    assert tshark(lossy, "-Y", "upr && _ws.expert.severity >= 0x600000") != ""
    assert tshark(lossy, "-Y", violations) == ""
    assert tshark(broken, "-Y", violations) != ""


# ---------------------------------------------------------------- putting it there


def install(tmp_path: Path, *options: str) -> None:
    places = ["--plugins", str(tmp_path / "plugins"), "--config", str(tmp_path / "config")]
    assert main(["lua", *options, *places]) == 0


def test_what_wireshark_wrote_about_its_window_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(tmp_path, "--install", "--profile")
    profile = tmp_path / "config" / "profiles" / "UPR"
    (profile / "recent").write_text("gui.toolbar_main_show: FALSE\n")
    (profile / "colorfilters").write_text("")
    capsys.readouterr()
    install(tmp_path, "--install", "--profile")
    said = capsys.readouterr().out
    assert f"kept {profile / 'recent'}" in said
    assert f"replaced {profile / 'colorfilters'}" in said
    assert (profile / "recent").read_text() == "gui.toolbar_main_show: FALSE\n"
    install(tmp_path, "--uninstall")
    assert not profile.exists()


def test_other_files_of_the_profile_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(tmp_path, "--install", "--profile")
    own = tmp_path / "config" / "profiles" / "UPR" / "decode_as_entries"
    own.write_text("")
    install(tmp_path, "--uninstall")
    assert "kept decode_as_entries" in capsys.readouterr().out
    assert [each.name for each in own.parent.iterdir()] == [own.name]


class Machine:
    """A machine with a user, a PATH and a home of its own."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.home, self._programs = tmp_path / "home", tmp_path / "programs"
        self._programs.mkdir()
        for name, value in (("HOME", self.home), ("PATH", self._programs), ("COLUMNS", 100)):
            monkeypatch.setenv(name, str(value))
        for name in ("XDG_CONFIG_HOME", "SUDO_USER"):
            monkeypatch.delenv(name, raising=False)
        self.log_in(0)

    def log_in(self, user: int, sudo: str | None = None) -> None:
        self._patch.setattr(os, "geteuid", lambda: user, raising=False)
        if sudo is not None:
            self._patch.setenv("SUDO_USER", sudo)

    def add(self, name: str, version: str, folders: str = "") -> None:
        """Add a program that says what Wireshark would say."""
        said = {"--version": version, "-G": folders}
        lines = [f"  {option}) echo '{text}';;" for option, text in said.items()]
        program = self._programs / name
        program.write_text("\n".join(["#!/bin/sh", 'case "$1" in', *lines, "esac", ""]))
        program.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def notes(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["lua", "--install", *options]) == 0
    return capsys.readouterr().err


needs_unix = pytest.mark.skipif(os.name == "nt", reason="there is no root")


@needs_unix
def test_root_is_told_that_a_new_wireshark_ignores_the_plugin(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = "Global Plugins: /usr/lib/wireshark/plugins/4.4\nGlobal Lua Plugins:  /usr/lib/wire shark/plugins"
    machine.add("tshark", "TShark (Wireshark) 4.4.6 (Git v4.4.6).", folders)
    first, second = notes(capsys).splitlines()
    assert first.startswith("uprscope: Wireshark 4.4.6 ignores the Lua scripts of root")
    assert "ordinary user" in first
    assert second.endswith("uprscope lua --install --plugins '/usr/lib/wire shark/plugins'")
    assert (machine.home / ".local" / "lib" / "wireshark" / "plugins" / "upr.lua").is_file()


@needs_unix
@pytest.mark.parametrize(
    ("version", "ignores"), [("3.6.2", False), ("4.0.17", False), ("4.2.0", True), ("10.0.1", True)]
)
def test_the_version_decides(version: str, ignores: bool, machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.add("wireshark", f"Wireshark {version} (Git v{version} packaged as {version}-1).")
    said = notes(capsys)
    assert (f"Wireshark {version} ignores" in said) == ignores
    assert (f"Wireshark {version} runs the Lua scripts of root; 4.2 and later ignore them" in said) != ignores
    assert ("Global Lua Plugins" in said) == ignores  # this one did not say where they are


@needs_unix
@pytest.mark.parametrize("version", [None, "", "no version at all"])
def test_root_without_a_wireshark_is_told_too(
    version: str | None, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    if version is not None:
        machine.add("tshark", version)
    assert "Wireshark 4.2 and later ignore the Lua scripts of root" in notes(capsys)


@needs_unix
def test_a_wireshark_that_cannot_be_run_is_none(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.add("tshark", "TShark (Wireshark) 4.4.6")
    program = machine.home.parent / "programs" / "tshark"
    program.write_bytes(b"\x7fELF for another machine")
    assert "Wireshark 4.2 and later ignore the Lua scripts of root" in notes(capsys)


@needs_unix
def test_sudo_installs_for_root_alone(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.log_in(0, sudo="somebody-else")
    assert "where the Wireshark of somebody-else does not look" in notes(capsys)
    machine.log_in(0, sudo="root")
    assert "does not look" not in notes(capsys)


@needs_unix
def test_who_is_not_root_is_told_nothing(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.add("tshark", "TShark (Wireshark) 4.4.6")
    machine.log_in(1000)
    assert notes(capsys) == ""


@needs_unix
def test_root_who_says_where_is_told_nothing(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.add("tshark", "TShark (Wireshark) 4.4.6")
    assert notes(capsys, "--plugins", str(machine.home / "global")) == ""


# ---------------------------------------------------------------- the rules


def test_all_rules_are_listed_with_where_they_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lua", "--rules", "--json"]) == 0
    rows = {row["rule"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(RULE_BY_ID)
    assert {rule for rule, row in rows.items() if row["where"] == "plugin"} == set(lua_rules.CHECKED)
    assert {row["where"] for row in rows.values()} == {"plugin", "annotate"}
    for name, rule in RULE_BY_ID.items():
        assert (rows[name]["severity"], rows[name]["title"]) == (rule.severity.value, rule.title)


@pytest.mark.parametrize("columns", [50, 80, 100])
def test_the_table_of_rules_fits_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["lua", "--rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    table = lines[: lines.index("")]
    assert table[0].split() == ["rule", "severity", "where", "title"]
    titles = table[0].index("title")
    listed = [line.split()[0] for line in table[1:] if line[0] != " "]
    assert listed == [row.rule for row in lua_rules.listing()]
    assert all(line[titles - 1] == " " != line[titles] for line in table)
    words = " ".join(" ".join(lines[len(table) :]).split())
    assert f"{len(lua_rules.CHECKED)} of {len(RULE_BY_ID)} rules are checked by the plugin" in words
    assert f"the other {len(RULE_BY_ID) - len(lua_rules.CHECKED)} come" in words


def test_rules_on_demand_name_a_preference_of_the_plugin() -> None:
    text = PLUGIN.read_text(encoding="utf-8")
    assert set(lua_rules.ON_DEMAND) <= set(lua_rules.CHECKED)
    for preference in lua_rules.ON_DEMAND.values():
        assert f"\n{preference.replace('upr.', 'upr.prefs.')} = Pref.bool(" in text


# ---------------------------------------------------------------- tables

LINE = 72  #: characters that fit into Wireshark's text window as it opens


def tables(capture: Path, which: str) -> tuple[list[list[str]], dict[str, str]]:
    """Return a table's rows, and what its numbers stand for."""
    lines = tshark(capture, "-q", "-z", f"upr,{which}").splitlines()
    assert max(map(len, lines)) <= LINE
    end = lines.index("")
    assert lines[end + 1] == "connections, by tcp.stream:"
    legend = dict(line.split(": ", 1) for line in lines[end + 2 :] if line[0] != " ")
    return [line.split() for line in lines[:end]], legend


@pytest.mark.usefixtures("wireshark")
def test_tables_number_connections_as_tcp_does() -> None:
    capture = ROOT / "captures" / "06_replication_takeover.pcap"
    (header, *rows), legend = tables(capture, "connections")
    assert header == ["connection", "dialect", "era", "frames", "bytes", "unsynced"]
    assert [row[0] for row in rows] == list(legend) == [str(number) for number in range(8)]
    text = tshark(capture, "-Y", "upr", "-T", "fields", "-e", "tcp.stream", "-e", "upr.name")
    shown: Counter[str] = Counter()
    for line in text.splitlines():
        stream, names = line.split("\t")
        shown[stream] += len(names.split(","))
    assert {row[0]: int(row[3]) for row in rows} == shown
    assert legend["0"] == "127.0.0.1:51330 - 127.0.0.1:12001 replication:n0->n1:default"
    (header, *rows), told = tables(capture, "streams")
    assert header == ["connection", "vbucket", "id", "snapshots", "changes", "bytes", "last", "seqno", "end"]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert told == legend


@pytest.mark.usefixtures("wireshark")
def test_tables_fit_the_window_whatever_connections_are_called(tmp_path: Path) -> None:
    name = b"replication:ns_1@10.100.200.31->ns_1@10.100.200.32:travel\x1b[31m-sample"
    talk = Conversation(Ends()).open()
    talk.send(CLIENT, request(0x50, struct.pack(">II", 0, 1), name, opaque=1)).send(SERVER, response(0x50, opaque=1))
    talk.send(SERVER, marker(3, 5, 1, 6), mutation(3, 5, 1, b"key"))
    capture = tmp_path / "named.pcap"
    capture.write_bytes(pcap(talk.packets))
    text = tshark(capture, "-q", "-z", "upr,connections")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= LINE + 2
    assert text.splitlines()[-1] == "   " + name.decode().replace("\x1b", ".")
