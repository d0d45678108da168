"""The stub of Wireshark's Lua API refuses what the real ones refuse, so that a test without Wireshark finds it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

from tests.conftest import WIRESHARKS
from tests.support.paths import SUPPORT
from tests.support.plugin import ROOT, tshark
from tests.support.wiresharks import SUITES

if TYPE_CHECKING:
    from tests.support.wiresharks import Wireshark

SCRIPT = SUPPORT / "contract.lua"
STUB = SUPPORT / "stub.lua"
#: Which Lua a Wireshark has.
LUAS = {"4.0": "lua52", "4.4": "lua54", "4.6": "lua54"}


def read(text: str) -> dict[str, str]:
    """Return what became of each call."""
    lines = (line.partition(": ") for line in text.splitlines())
    return {call: verdict for verdict, _, call in lines if verdict in {"taken", "refused"}}


def in_the_stub(version: str) -> dict[str, str]:
    runtime = importlib.import_module(f"lupa.{version}").LuaRuntime(encoding=None, unpack_returned_tuples=True)
    runtime.execute(STUB.read_bytes())
    runtime.execute(b"function print() end")
    runtime.execute(SCRIPT.read_bytes())
    runtime.globals()[b"RUN"](bytes(40), 1, True, False)
    return read(runtime.globals()[b"CONTRACT"].decode())


@pytest.mark.parametrize("version", ["lua52", "lua53", "lua54", "lua55", "luajit21"])
def test_the_stub_takes_what_the_plugin_does_and_nothing_else(version: str) -> None:
    calls = in_the_stub(version)
    assert {call for call, verdict in calls.items() if verdict == "taken"} - {
        "float as offset",
        "float as length",
    } == {call for call in calls if call.startswith("+")}
    if version in {"lua53", "lua54", "lua55"}:  # before them nobody can tell a whole float from an integer
        assert calls["float as offset"] == calls["float as length"] == "refused"


def test_every_wireshark_that_is_fetched_is_tried() -> None:
    assert list(SUITES) == list(WIRESHARKS) == list(LUAS)


def test_the_stub_refuses_what_wireshark_refuses(wireshark: Wireshark) -> None:
    theirs = read(tshark(ROOT / "captures" / "clean" / "basic.pcapng", "-V", plugin=SCRIPT))
    ours = in_the_stub(LUAS[wireshark.version])
    assert theirs.keys() == {call for call in ours if not call.startswith("~")}
    assert [call for call, verdict in theirs.items() if verdict == "refused" and ours[call] == "taken"] == []
    assert [call for call, verdict in theirs.items() if verdict == "refused" and call.startswith("+")] == []
    assert sum(verdict == "refused" for verdict in theirs.values()) > 10
