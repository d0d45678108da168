"""The plugin as people use it: recovery after losses, statistics, preferences, heuristics, installation."""

from __future__ import annotations

import re
import shlex
import struct
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.codegen.lua_rules import CHECKED
from analysis.rules import RULES
from dissector.frames.reader import FrameReader
from tests.support.plugin import PLUGIN, ROOT, messages, tshark
from tests.support.tcp_by_hand import SERVER, Conversation, Ends, counted, marker, pcap, read_rows
from uprscope.cli import main

if TYPE_CHECKING:
    from tests.support.wiresharks import Wireshark

pytestmark = pytest.mark.usefixtures("wireshark")
CLEAN = ROOT / "captures" / "clean"
TROUBLES = {
    "none": (),
    "loss 0.5 %": ("--loss", "0.005"),
    "loss 2 %": ("--loss", "0.02"),
    "loss 10 %": ("--loss", "0.1"),
    "starts late": ("--skip-packets", "40"),
    "duplicates": ("--duplicate", "0.05"),
}


def names(capture: Path, *arguments: str) -> list[str]:
    """Return the messages that the plugin shows."""
    text = tshark(capture, "-T", "fields", "-e", "upr.name", *arguments)
    return [name for line in text.splitlines() for name in line.split(",") if name]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_every_whole_message_is_found(trouble: str, tmp_path: Path) -> None:
    capture = tmp_path / "a.pcapng"
    assert main(["generate", "multiplex", "--frames", "1500", *TROUBLES[trouble], "-o", str(capture)]) == 0
    whole = [row["name"] for row in read_rows(capture, FrameReader) if not row["missing"]]
    assert sorted(names(capture)) == sorted(whole)
    assert len(whole) > 1000


def test_skipped_bytes_are_shown_once(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcapng"
    assert main(["generate", "multiplex", "--frames", "1500", "--loss", "0.1", "-o", str(capture)]) == 0
    text = tshark(capture, "-Y", "upr.unsynced", "-T", "fields", "-e", "upr.unsynced", "-e", "_ws.expert.message")
    lines = text.splitlines()
    assert lines
    assert all("Bytes skipped" in line for line in lines)
    assert tshark(capture, "-Y", "upr.expert.snp_02 || upr.expert.seq_01 || upr.expert.flc_01") == ""


def test_statistics() -> None:
    streams = tshark(CLEAN / "multiplex.pcapng", "-q", "-z", "upr,streams").splitlines()
    connections = tshark(CLEAN / "multiplex.pcapng", "-q", "-z", "upr,connections").splitlines()
    assert streams[0].split()[:3] == ["connection", "vbucket", "id"]
    assert len(streams) > 2
    rows = connections[1 : connections.index("")]
    assert sum(int(line.split()[-3]) for line in rows) > 100
    assert " dcp " in rows[0]


def info(capture: Path, number: int, *arguments: str) -> str:
    """Return what the list says of a packet, behind its protocol and length."""
    (line,) = tshark(capture, "-Y", f"frame.number == {number}", *arguments).splitlines()
    return re.split(r" DCP \d+ ", line)[1]


STORIES = {
    ("clean/basic.pcapng", 4): 'open "basic"',
    ("clean/basic.pcapng", 6): "control connection_buffer_size=20480",
    ("clean/basic.pcapng", 7): "control → success",
    ("clean/basic.pcapng", 19): "stream_request vb 0 → success, snapshot_marker vb 0 0 to 12, "
    'mutation vb 0 seqno 1 "user::0-1" … x7',
    ("clean/basic.pcapng", 20): 'mutation vb 0 seqno 9 "user::0-9" … x4, stream_end vb 0 ok',
    # A message that began in the packet before, and others of the kind: one run.
    ("clean/basic.pcapng", 26): 'mutation vb 1 seqno 10 "user::1-10" … x5',
    ("clean/basic.pcapng", 28): "buffer_ack 4306 bytes",
    ("04_rollback_errors.pcap", 23): "stream_request vb 0 → rollback to 20",
}


@pytest.mark.parametrize(("name", "number"), STORIES)
def test_the_info_column_tells_every_message(name: str, number: int) -> None:
    capture = ROOT / "captures" / name
    story = STORIES[name, number]
    assert info(capture, number) == story
    assert info(capture, number, "-2") == story  # a later pass knows what was asked
    tree = tshark(capture, "-V", "-Y", f"frame.number == {number}")
    assert f"Couchbase UPR/DCP replication, {story.partition(', ')[0].partition(' …')[0]}\n" in tree


def test_keys_are_in_no_line_where_they_are_not_to_be_shown() -> None:
    capture = CLEAN / "basic.pcapng"
    assert info(capture, 20, "-o", "upr.keys:FALSE") == "mutation vb 0 seqno 9 … x4, stream_end vb 0 ok"
    assert "Key: user" not in tshark(capture, "-o", "upr.keys:FALSE", "-o", "upr.values:FALSE", "-V")


def test_keys_and_values_of_records_are_shown_apart() -> None:
    """A record of a cache transfer has a collection id before its key."""
    capture = CLEAN / "cache-transfer.pcapng"
    names = ("upr.record.collection_id", "upr.record.key", "upr.record.value")
    fields = [part for name in names for part in ("-e", name)]
    lines = tshark(capture, "-Y", "upr.record.key", "-T", "fields", *fields).splitlines()
    records = [record for line in lines for record in zip(*(part.split(",") for part in line.split("\t")), strict=True)]
    assert len(records) > 5
    assert all(int(collection, 0) < 64 and re.fullmatch("[ -~]+", key) for collection, key, _ in records)
    assert all(re.fullmatch("[0-9a-f]+", value) for *_, value in records)
    assert tshark(capture, "-Y", f'upr.record.key == "{records[0][1]}"') != ""
    assert "railing stray" not in tshark(capture, "-V")


def test_answers_are_timed_to_the_clock() -> None:
    text = tshark(CLEAN / "basic.pcapng", "-Y", "upr.response_time", "-T", "fields", "-e", "upr.response_time")
    times = text.replace(",", "\n").split()
    assert len(times) > 10
    assert all(len(each) <= len("0.000000") for each in times)
    assert "0.25" in times


def test_links_and_state() -> None:
    fields = (
        "upr.stream",
        "upr.snapshot_start",
        "upr.snapshot_end",
        "upr.previous_seqno",
        "upr.outstanding",
        "upr.window",
    )
    arguments = [part for field in fields for part in ("-e", field)]
    (line,) = tshark(CLEAN / "basic.pcapng", "-Y", "frame.number == 20", "-T", "fields", *arguments).splitlines()
    stream, start, end, previous, _, window = line.split("\t")
    assert set(stream.split(",")) == {"18"}
    assert (set(start.split(",")), set(end.split(","))) == ({"0"}, {"12"})
    assert previous.split(",") == sorted(previous.split(","), key=int)
    assert set(window.split(",")) == {"20480"}
    answers = tshark(
        CLEAN / "basic.pcapng", "-2", "-Y", "upr.response_in || upr.response_to", "-T", "fields", "-e", "frame.number"
    )
    assert len(answers.splitlines()) > 20


def test_what_no_double_holds_is_shown_by_its_own_message_alone(tmp_path: Path) -> None:
    small, large, largest = 2**53 - 1, 2**53 + 1, 2**64 - 1
    talk = Conversation(Ends()).open()
    for seqno, end in ((5, 6), (small, small), (large, largest), (7, 9)):
        extras = struct.pack(">QQIIIHB", seqno, 1, 0, 0, 0, 0, 0)
        talk.send(SERVER, marker(3, 5, 1, end), counted(0x57, extras, b"key", vbucket=3, opaque=5, cas=1))
    capture = tmp_path / "large.pcap"
    capture.write_bytes(pcap(talk.packets))
    shown = [each for packet in messages(capture).values() for each in packet]
    changes = [each for each in shown if each["upr.name"] == "mutation"]
    ends = [each["upr.snap_end_seqno"] for each in shown if each["upr.name"] == "snapshot_marker"]
    assert ends == ["6", str(small), str(largest), "9"]
    assert [each["upr.by_seqno"] for each in changes] == ["5", str(small), str(large), "7"]
    assert [each.get("upr.snapshot_end") for each in changes] == ["6", str(small), None, "9"]
    # A consumer refuses what is 2^48 and more, so that these are not the seqno before any other.
    assert [each.get("upr.previous_seqno") for each in changes] == [None, "5", "5", "5"]


def test_other_ports_are_recognised_and_11210_can_be_left_alone() -> None:
    recorded = ROOT / "captures" / "03_noop.pcap"  # on ports 12000 and more
    assert len(names(recorded)) == len(read_rows(recorded, FrameReader))
    left = tshark(CLEAN / "basic.pcapng", "-o", "upr.where:leave", "-Y", "upr")
    assert left == ""
    beside = tshark(CLEAN / "basic.pcapng", "-o", "upr.where:beside", "-Y", "upr && couchbase")
    assert len(beside.splitlines()) > 10
    handed = tshark(CLEAN / "modern.pcapng", "-Y", 'upr.name == "hello" && couchbase')
    assert len(handed.splitlines()) >= 2


def test_json_is_a_tree_where_somebody_asks_for_it(wireshark: Wireshark) -> None:
    basic = CLEAN / "basic.pcapng"
    assert len(tshark(basic, "-Y", 'json.key == "seqno"').splitlines()) > 5
    printed = ("-T", "fields", "-e", "json.key", "-Y", 'upr.name == "mutation"')
    # Up to 4.2 nobody can tell what -e asks for.
    assert ("seqno" in tshark(basic, *printed)) == (wireshark.version != "4.0")
    assert "json.key" not in tshark(basic, "-T", "pdml", "-Y", 'upr.name == "mutation"')
    assert "seqno" in tshark(basic, "-o", "upr.json:always", *printed)
    assert tshark(basic, "-o", "upr.json:never", "-Y", 'json.key == "seqno"') == ""


def test_checks_can_be_switched_off() -> None:
    broken = ROOT / "captures" / "broken" / "SEQ-01-repeated.pcapng"
    assert tshark(broken, "-Y", "upr.expert.seq_01") != ""
    assert tshark(broken, "-o", "upr.checks:FALSE", "-Y", "upr.expert.seq_01") == ""


def test_install_and_uninstall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["--plugins", str(tmp_path / "plugins"), "--config", str(tmp_path / "config")]
    assert main(["lua", "--install", "--profile", *places]) == 0
    assert f"wrote {tmp_path / 'plugins' / 'upr.lua'}" in capsys.readouterr().out
    assert (tmp_path / "plugins" / "upr.lua").read_text(encoding="utf-8") == PLUGIN.read_text(encoding="utf-8")
    assert (tmp_path / "config" / "profiles" / "UPR" / "colorfilters").is_file()
    assert main(["lua", "--install", *places]) == 0
    assert "is up to date" in capsys.readouterr().out
    assert main(["lua", "--uninstall", *places]) == 0
    assert "removed" in capsys.readouterr().out
    assert not (tmp_path / "plugins" / "upr.lua").exists()
    assert main(["lua", "--uninstall", *places]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert main(["lua", "--profile"]) == 2


def test_an_installed_plugin_and_its_profile_are_found(
    wireshark: Wireshark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the folders that are the default, for an ordinary user."""
    broken = ROOT / "captures" / "broken" / "SEQ-01-repeated.pcapng"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        monkeypatch.setenv("HOME", folder)
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        assert main(["lua", "--install", "--profile"]) == 0
        assert folder in capsys.readouterr().out
        found = wireshark.run("-C", "UPR", "-r", broken, "-Y", 'upr.severity == "error"', home=home)
        assert (found.stderr.strip(), len(found.stdout.splitlines())) == ("", 1)
        assert main(["lua", "--uninstall"]) == 0
        gone = wireshark.run("-r", broken, "-Y", 'upr.severity == "error"', home=home)
        assert gone.returncode != 0


def test_the_rules_in_the_readme_are_those_that_are_checked() -> None:
    page = (ROOT / "lua" / "README.md").read_text().partition("## Violations")[2].partition("\n`uprscope")[0]
    assert f"{len(CHECKED)} of the {len(RULES)} rules" in page
    named: set[str] = set()
    for row in (line.split("|")[2].partition(";")[0] for line in page.splitlines() if line.count("|") == 3):
        for first, last in re.findall(r"([A-Z]{3}-\d\d)(?: to ([A-Z]{3}-\d\d))?", row):
            numbers = range(int(first[4:]), int((last or first)[4:]) + 1)
            named |= {f"{first[:3]}-{number:02d}" for number in numbers}
    assert named == set(CHECKED)


def test_the_message_in_the_readme_is_what_tshark_prints(wireshark: Wireshark) -> None:
    page = (ROOT / "lua" / "README.md").read_text()
    command, _, rest = page.partition("## A message\n\n")[2].partition("\n\n")
    shown = textwrap.dedent(rest.partition("\n\n")[0])
    words = shlex.split(command)
    assert words[:5] == ["$", "tshark", "-X", "lua_script:lua/upr.lua", "-r"]
    printed = tshark(ROOT / words[5], *words[6:])
    lines = printed[printed.index("Couchbase UPR") :].splitlines()
    for one, other in zip(lines, shown.splitlines(), strict=False):
        # Versions show more or less of long values.
        assert one == other or one.startswith(other.removesuffix("…")), wireshark.version
