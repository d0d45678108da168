"""The tables: what they must hold, and that mistakes in a declaration are caught when it is made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dissector.spec import controls, defects, enums, errata, events, fields, registry
from dissector.spec.model import (
    Dialect,
    Enumeration,
    Field,
    Flags,
    Kind,
    Layout,
    Message,
    Name,
    Party,
    Presence,
    Release,
    Reply,
    Shape,
    SpecError,
)


def dcp(opcode: int) -> Message:
    found = registry.message(Dialect.DCP, opcode)
    assert found is not None
    return found


def test_every_opcode_of_each_dialect() -> None:
    def opcodes(dialect: Dialect) -> set[int]:
        return {known.opcode for known in registry.MESSAGES if known.dialect is dialect}

    assert opcodes(Dialect.DRAFT) == {1, 2, 3, 4, 5}
    assert opcodes(Dialect.UPR) == set(range(0x50, 0x5F))
    assert opcodes(Dialect.DCP) == set(range(0x50, 0x68))
    assert opcodes(Dialect.PROTO) == set(range(0x50, 0x5B))
    neighbours = {0x00, 0x01, 0x07, 0x10, 0x1F, 0x20, 0x21, 0x22, 0x3D, 0x40, 0x48, 0x82, 0x89, 0x96, 0xB7, 0xF1, 0xFE}
    assert neighbours <= opcodes(Dialect.MEMCACHED)


#: Extras lengths of the shipped protocol, from the servers' validators.
@pytest.mark.parametrize(
    ("opcode", "sizes"),
    [
        (0x50, {8}),
        (0x51, {4}),
        (0x52, {0}),
        (0x53, {48}),
        (0x54, {0}),
        (0x55, {4}),
        (0x56, {20, 1}),
        (0x57, {31, 32}),
        (0x58, {18, 19, 21}),
        (0x59, {18, 19, 20}),
        (0x5A, {0}),
        (0x5B, {1}),
        (0x5C, {0}),
        (0x5D, {4, 0}),
        (0x5E, {0}),
        (0x5F, {13}),
        (0x60, {31}),
        (0x61, {8}),
        (0x62, {16}),
        (0x63, {16}),
        (0x64, {8}),
        (0x65, {4}),
        (0x66, {0}),
        (0x67, {0}),
    ],
)
def test_extras_lengths(opcode: int, sizes: set[int]) -> None:
    request = dcp(opcode).request
    assert request is not None
    assert {layout.extras_size for layout in request.layouts} == sizes


def test_marker_values() -> None:
    request = dcp(0x56).request
    assert request is not None
    assert {layout.name: layout.value_size for layout in request.layouts} == {
        "V1": 0,
        "V2.0": 36,
        "V2.1": 44,
        "V2.2": 52,
    }


def test_replies_and_flow_control() -> None:
    always = {
        known.opcode for known in registry.MESSAGES if known.dialect is Dialect.DCP and known.reply is Reply.ALWAYS
    }
    assert always == {0x50, 0x51, 0x52, 0x53, 0x54, 0x5B, 0x5C, 0x5E}
    assert dcp(0x56).reply is Reply.WHEN_ASKED
    counted = {known.opcode for known in registry.MESSAGES if known.dialect is Dialect.DCP and known.flow is not None}
    assert counted == {0x55, 0x56, 0x57, 0x58, 0x59, 0x5B, 0x5F, 0x60, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67}


def test_senders() -> None:
    by_sender: dict[Party, set[int]] = {}
    for opcode in range(0x50, 0x68):
        by_sender.setdefault(dcp(opcode).sender, set()).add(opcode)
    assert by_sender[Party.CONSUMER] == {0x53, 0x54, 0x5D, 0x5E, 0x61}
    assert by_sender[Party.PRODUCER] == {*range(0x55, 0x5D), 0x5F, 0x60, *range(0x62, 0x68)}


def test_records_have_their_documented_sizes() -> None:
    assert sum(field.size for field in fields.FAILOVER_ENTRY) == 16
    assert sum(field.size for field in fields.VBUCKET_SEQNO_ENTRY) == 10
    assert sum(field.size for field in fields.CACHE_RECORD) == 40


def test_catalogue_sizes() -> None:
    assert [erratum.id for erratum in errata.ERRATA] == [f"E-{number:02}" for number in range(1, 45)]
    assert len(controls.CONTROL_KEYS) == 24
    assert {event.id for event in events.SYSTEM_EVENTS} == {0, 1, 2, 3, 4, 5}
    assert {member.value for member in enums.END_REASONS.members} == set(range(9))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", defect.id) for defect in defects.DEFECTS)
    assert all(defect.rule is None or re.fullmatch(r"FRM-\d\d", defect.rule) for defect in defects.DEFECTS)


def test_everything_is_documented() -> None:
    for known in registry.MESSAGES:
        assert known.doc, known.name
        for shape in known.shapes():
            for layout in shape.layouts:
                assert all(field.doc for field in (*layout.extras, *layout.value)), known.name


def test_states_are_swapped_between_the_dialects() -> None:
    """E-10."""
    for value, documents, servers in ((2, "pending", "replica"), (3, "replica", "pending")):
        document, server = enums.UPR_VBUCKET_STATES.member(value), enums.VBUCKET_STATES.member(value)
        assert document is not None
        assert server is not None
        assert (document.name, server.name) == (documents, servers)


def test_releases_have_an_order() -> None:
    assert Release(3) < Release(3, 0, 2) < Release(4) < Release(6, 5) < Release(8) < Release(99)
    assert [str(Release(3)), str(Release(3, 0, 2)), str(Release(99))] == ["3.0", "3.0.2", "after 8.0"]


def test_defects_of_decoder_are_declared_and_used() -> None:
    """Every id that the code reports is declared, and every declared id is reported somewhere."""
    code = "".join(path.read_text() for path in Path(registry.__file__).parent.parent.rglob("*.py"))
    reported = set(re.findall(r'report\(\s*"([a-z-]+)"', code)) | set(re.findall(r'note="([a-z-]+)"', code))
    reported |= set(re.findall(r'Defect\("([a-z-]+)"', code))
    assert reported == {defect.id for defect in defects.DEFECTS}


U8 = Field("a", Kind.U8, "doc")


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Enumeration("twice", "", (Name(1, "a"), Name(1, "b"))),
        lambda: Flags("no bit", "", (Name(3, "a"),)),
        lambda: Flags("zero", "", (Name(0, "a"),)),
        lambda: Layout("twice", extras=(U8, U8)),
        lambda: Layout("version", extras=(U8,), version=1),
        lambda: Shape(layouts=(Layout("one", extras=(U8,)), Layout("two", extras=(U8,)))),
        lambda: Message(Dialect.DCP, 0x100, "a", "A", Party.CLIENT, Party.SERVER, "", "", request=Shape()),
        lambda: Message(Dialect.DCP, 0x99, "a", "A", Party.CLIENT, Party.SERVER, "", ""),
        lambda: Message(
            Dialect.DCP, 0x99, "a", "A", Party.CLIENT, Party.SERVER, "", "", request=Shape(), subtypes=(1,)
        ),
        lambda: Message(Dialect.DCP, 0x99, "a", "A", Party.CLIENT, Party.SERVER, "", "", request=Shape(), seqno="x"),
    ],
)
def test_mistakes_are_caught_when_declared(declare: object) -> None:
    assert callable(declare)
    with pytest.raises(SpecError):
        declare()


def test_presence_of_extras_follows_from_the_layouts() -> None:
    both = (Layout("none"), Layout("one", extras=(U8,)))
    assert Shape().extras is Presence.MUST_NOT
    assert Shape(layouts=both[1:]).extras is Presence.MUST
    assert Shape(layouts=both).extras is Presence.MAY
