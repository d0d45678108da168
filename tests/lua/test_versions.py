"""The plugin runs in every Lua that Wireshark has had, and says the same in each: 5.2 to 4.2, 5.3 and 5.4 since 4.4."""

from __future__ import annotations

import importlib
import random
import re
from typing import Any

import pytest

from analysis.codegen import lua_rules
from dissector.frames.reader import FrameReader
from tests.support.paths import SUPPORT
from tests.support.plugin import PLUGIN, ROOT

STUB = SUPPORT / "stub.lua"
VERSIONS = ("lua52", "lua53", "lua54", "lua55", "luajit21")
CAPTURES = (
    "clean/modern.pcapng",
    "clean/collections.pcapng",
    "clean/draft.pcapng",
    "clean/early-upr.pcapng",
    "broken/SEQ-01-repeated.pcapng",
)
Said = list[tuple[bytes, int | None, int | None]]


def frames(name: str) -> list[tuple[bool, bytes]]:
    """Return the frames of a capture: whether the opener sent it, and its bytes."""
    from dissector.capture import expand

    found = []
    reader = FrameReader(expand([str(ROOT / "captures" / name)]))
    for batch, table in reader.tables():
        found += [(int(table.side[index]) == 0, bytes(table.data(index))) for index in range(batch.num_rows)]
    return found


def start(version: str, *, window: bool = False) -> Any:
    runtime = importlib.import_module(f"lupa.{version}").LuaRuntime(encoding=None, unpack_returned_tuples=True)
    runtime.execute(STUB.read_bytes())
    if window:
        runtime.execute(b"function gui_enabled() return true end")
    runtime.execute(PLUGIN.read_bytes())
    runtime.execute(b"PROTO.init()")
    return runtime


def said(version: str, conversation: list[tuple[bool, bytes]]) -> Said:
    """Let a version dissect a conversation, then the same again as a later pass does, then halves of frames."""
    run = start(version).globals()[b"RUN"]
    out = [run(data, number, forward, False) for number, (forward, data) in enumerate(conversation, 1)]
    out += [run(data, number, forward, True) for number, (forward, data) in enumerate(conversation, 1)]
    out += [run(data[: len(data) // 2], 10_000 + at, forward, False) for at, (forward, data) in enumerate(conversation)]
    return out


@pytest.mark.parametrize("name", CAPTURES)
def test_every_version_says_the_same(name: str) -> None:
    conversation = frames(name)
    first = said(VERSIONS[0], conversation)
    assert sum(text.count(b"upr.magic") for text, *_ in first) >= 2 * len(conversation)
    for version in VERSIONS[1:]:
        for one, other in zip(first, said(version, conversation), strict=True):
            assert one == other, version


def value_of(name: bytes, value: bytes) -> object:
    """Return what a line of the log says, which has bytes where a field has a place."""
    if name == b"upr.key":
        return value if re.fullmatch(rb"([0-9a-f]{2})+", value) else value.hex().encode()
    if b"." in value:
        return float(value)
    return float(int(value, 16)) if re.fullmatch(rb"([0-9a-f]{2}){1,8}", value) else value


@pytest.mark.parametrize("version", VERSIONS)
def test_in_the_window_every_number_has_its_place(version: str) -> None:
    told: list[list[tuple[bytes, bytes]]] = []
    for window in (False, True):
        run = start(version, window=window).globals()[b"RUN"]
        texts = [run(data, at, forward, False)[0] for at, (forward, data) in enumerate(frames("clean/basic.pcapng"), 1)]
        pairs = (line.split(b"=", 1) for text in texts for line in text.splitlines() if line.startswith(b"upr."))
        told.append([(name, value) for name, value in pairs])
    terminal, window_ = told
    assert [(name, value_of(name, value)) for name, value in terminal] == [
        (name, value_of(name, value)) for name, value in window_
    ]
    for name in (b"upr.magic", b"upr.body_length", b"upr.nru", b"upr.opaque", b"upr.by_seqno"):
        assert all(b"." not in value for each, value in window_ if each == name)
        assert any(b"." in value for each, value in terminal if each == name)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CAPTURES)
def test_fields_that_are_asked_for_are_those_of_the_whole_tree(version: str, name: str) -> None:
    """Where no tree is seen, only fields that something asks for are made: here, all of them are asked for."""
    told: list[list[list[str]]] = []
    for visible in (b"true", b"false"):
        runtime = start(version)
        runtime.execute(b"VISIBLE = " + visible)
        run = runtime.globals()[b"RUN"]
        texts = [run(data, at, forward, False)[0] for at, (forward, data) in enumerate(frames(name), 1)]
        pairs = [[line.split(b"=", 1) for line in text.splitlines() if line.startswith(b"upr.")] for text in texts]
        told.append([sorted(f"{each}={value_of(each, value)!r}" for each, value in frame) for frame in pairs])
    assert told[0] == told[1]
    assert sum(map(len, told[0])) > 20 * len(told[0])


def state_of(text: bytes) -> list[bytes]:
    return [
        line
        for line in text.splitlines()
        if line.startswith((b"upr.previous_seqno", b"upr.outstanding", b"info", b"more"))
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_packet_may_come_as_many_tvbs(version: str) -> None:
    """Each of them is remembered by itself, wherever in the packet it begins, and writes behind the others."""
    conversation = frames("clean/basic.pcapng")
    run = start(version).globals()[b"RUN"]
    changes = [data for forward, data in conversation if not forward and data[1] == 0x57][:6]
    first = conversation.index((False, changes[0]))
    for number, (forward, data) in enumerate(conversation[:first], 1):
        run(data, number, forward, False)
    tvbs = list(zip(changes, (0, 54, 300, 900, 0, 54), (first + 1,) * 4 + (first + 2,) * 2, strict=True))
    passes = []
    for visited in (False, True):
        said_now = []
        before = None
        for data, offset, number in tvbs:
            text, *_ = run(data, number, False, visited, offset, number == before)
            said_now.append(state_of(text))
            before = number
        passes.append(said_now)
    assert passes[0] == passes[1]
    assert len({tuple(lines) for lines in passes[0]}) == len(tvbs)
    told = 'info=mutation vb 0 seqno {} "user::0-{}"{}'
    assert [lines[-1].decode() for lines in passes[0]] == [
        told.format(seqno, seqno, f" … x{count}" if count > 1 else "")
        for seqno, count in ((1, 1), (1, 2), (1, 3), (1, 4), (6, 1), (6, 2))
    ]


def test_a_packet_that_is_looked_at_anew_may_begin_elsewhere() -> None:
    """Nothing of the last look is used: Wireshark's objects do not outlive it."""
    forward, data = frames("clean/basic.pcapng")[0]
    run = start("lua54").globals()[b"RUN"]
    run(data, 1, forward, False, 54)
    text, *_ = run(data, 1, forward, True, 60)
    assert state_of(text)[-1].startswith(b"info=")


def test_a_finding_is_reported() -> None:
    text = b"\n".join(text for text, *_ in said("lua54", frames("broken/SEQ-01-repeated.pcapng")))
    assert b"!upr.expert.seq_01 SEQ-01: seqno" in text


def test_no_bytes_make_it_fail() -> None:
    """Frames with bytes changed, cut and swapped: the plugin reads what it can."""
    dice = random.Random(7)  # noqa: S311 - no secret
    conversation = frames("clean/modern.pcapng") + frames("clean/sync-writes.pcapng")
    for version in ("lua52", "lua54"):
        run = start(version).globals()[b"RUN"]
        for number in range(1, 1500):
            forward, data = dice.choice(conversation)
            changed = bytearray(data)
            for _ in range(dice.randrange(4)):
                changed[dice.randrange(len(changed))] = dice.randrange(256)
            cut = bytes(changed[: dice.randrange(1, len(changed) + 1)])
            run(cut + dice.choice(conversation)[1], number, forward, False)


def test_the_committed_plugin_is_not_stale() -> None:
    assert PLUGIN.read_text(encoding="utf-8") == lua_rules.render(), "run python -m analysis.codegen"


def test_only_what_every_lua_has() -> None:
    text = PLUGIN.read_text(encoding="utf-8")
    assert "SPDX-License-Identifier: GPL-2.0-or-later" in text.splitlines()[0]
    for word in ("bit32", "goto ", "string.unpack", "utf8.", "table.unpack", "math.type"):
        assert word not in text
