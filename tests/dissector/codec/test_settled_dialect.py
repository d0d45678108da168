"""When the evidence of a connection settles its dialect, so that a message of the other one is a broken one."""

from __future__ import annotations

import pytest

from dissector.codec.dialect_evidence import DialectTally
from dissector.spec.model import Dialect

UPR, DCP = Dialect.UPR, Dialect.DCP
ASK, MARKER = 0x53, 0x56


@pytest.mark.parametrize(
    ("evidence", "settled"),
    [
        ([], None),
        ([(ASK, DCP)], DCP),
        ([(ASK, UPR)], None),  # one request: a client may ask in a form that the producer does not know
        ([(ASK, UPR)] * 9, None),
        ([(ASK, UPR), (MARKER, DCP)], DCP),  # the producer decides
        ([(ASK, UPR), (MARKER, UPR)], UPR),
        ([(ASK, DCP), (MARKER, UPR)], None),
        ([(ASK, DCP), (MARKER, UPR), (MARKER, UPR)], UPR),
        ([(MARKER, UPR)], None),  # it may be a broken one
        ([(MARKER, DCP), (MARKER, UPR)], None),
        ([(ASK, DCP), (MARKER, DCP), (MARKER, UPR)], DCP),
        ([(MARKER, DCP), (MARKER, UPR), (MARKER, DCP)], DCP),
    ],
)
def test_settled(evidence: list[tuple[int, Dialect]], settled: Dialect | None) -> None:
    tally = DialectTally()
    for opcode, dialect in evidence:
        tally.add(opcode, dialect)
    assert tally.settled is settled
    tally.hello = True
    assert tally.settled is DCP
    assert tally.settled_for_good


def test_two_messages_more_settle_it_for_good() -> None:
    tally = DialectTally()
    for dialect, for_good in ((DCP, False), (UPR, False), (DCP, False), (DCP, True)):
        tally.add(MARKER, dialect)
        assert tally.settled_for_good is for_good
