"""Which side produces, and what is a proxy: as the open says, or as the messages tell that only one role sends."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from analysis.context import COLUMNS, Context
from analysis.context.roles import Roles
from dissector.capture import expand
from dissector.frames.reader import FrameReader
from dissector.generate.scenarios import SCENARIOS
from dissector.options import ReadOptions
from tests.support.checking import batches_of, captured, clean
from tests.support.paths import ROOT


def roles_of(batches: list[pa.RecordBatch]) -> dict[str, Roles]:
    context = Context()
    for batch in batches:
        list(context.fold(batch))
    return {name: context.roles.of(number) for number, name in enumerate(context.connections.names)}


def read(name: str) -> list[pa.RecordBatch]:
    return list(FrameReader(expand([str(ROOT / "captures" / name)]), ReadOptions(columns=COLUMNS)))


def from_frame(batches: list[pa.RecordBatch], frame: int) -> list[pa.RecordBatch]:
    return [batch.filter(pc.greater_equal(batch.column("frame"), frame)) for batch in batches]


def test_a_side_without_a_known_role_has_no_name() -> None:
    assert [Roles().party(side) for side in (0, 1)] == ["", ""]
    assert [Roles(1).party(side) for side in (0, 1)] == ["consumer", "producer"]
    assert [Roles(0, relayed=True).party(side) for side in (0, 1)] == ["proxy", "consumer"]


def test_the_open_names_the_role_of_its_receiver() -> None:
    assert set(roles_of(read("clean/basic.pcapng")).values()) == {Roles(1)}


def test_who_opens_a_connection_to_a_consumer_is_a_proxy() -> None:
    found = set(roles_of(read("clean/relay.pcapng")).values())
    assert Roles(0, relayed=True) in found


@pytest.mark.parametrize("name", [each.name for each in SCENARIOS])
def test_messages_tell_what_the_open_would_have_said(name: str) -> None:
    batches = batches_of(captured(clean(name)))
    whole = roles_of(batches)
    for frame in (4, 8, 16):
        for connection, roles in roles_of(from_frame(batches, frame)).items():
            if roles.known and whole[connection].known:
                assert roles.producer == whole[connection].producer


def test_the_middle_of_a_connection_is_enough() -> None:
    assert [roles.known for roles in roles_of(read("07b_midconnection.pcap")).values()].count(True) >= 1
