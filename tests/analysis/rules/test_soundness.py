"""Damage makes no findings: whatever is done to a capture, nothing is told that the whole capture does not show.

Every transformation is tried with a part of all captures, so that each capture meets several of them and each of them
many captures; with UPRSCOPE_SWEEP=full all meet all. ``python -m tests.support.soundness`` keeps what fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.soundness import captures, sources
from tests.support.soundness.damage import setup_places
from tests.support.soundness.packets import FIN, RST, SYN, Packet, by_connection
from tests.support.soundness.runner import Case, run, source
from tests.support.soundness.transformations import ALL, HARMLESS, apply, combination

FULL = os.environ.get("UPRSCOPE_SWEEP") == "full"
PARTS = 1 if FULL else 8  #: a transformation meets one capture in so many
SEEDS = range(6 if FULL else 1)
#: Captures that break a rule so that something else looks broken, too, once the cause itself is lost.
ECHOES = {
    ("broken/SNP-11-marker-inside", "SEQ-01"),  # without the start of the bracket its items are out of order
    # The same, where nobody has agreed upon such brackets.
    ("broken/CON-05-oso", "SEQ-01"),
    ("broken/CON-07-enable-out-of-order-snapshots", "SEQ-01"),
    ("broken/OPQ-02-marker", "SNP-10"),  # without the late answer the marker is not answered at all
}


def failures(cases: Iterable[Case]) -> list[str]:
    """What is told wrongly, with the command that shows it."""
    found = []
    for case in cases:
        difference = run(case).difference
        if difference.error:
            found.append(f"{difference.error}: {case.command}")
        found += [
            f"{verdict.rule} {verdict.severity}: {sentence}: {case.command}"
            for verdict, sentence in difference.new
            if (case.capture, verdict.rule) not in ECHOES
        ]
    return found


def share(chain: str) -> list[str]:
    """The captures that a transformation is tried with: over all transformations every capture has its turn."""
    turn = [*ALL, "setup", "combination"].index(chain)
    return [name for name in sources.names() if (crc32(name.encode()) + turn) % PARTS == 0]


@pytest.mark.sweep
@pytest.mark.parametrize("chain", ALL)
def test_a_transformation_makes_no_findings(chain: str) -> None:
    assert not failures(Case(name, chain, seed) for name in share(chain) for seed in SEEDS)


@pytest.mark.sweep
def test_a_lost_packet_of_the_set_up_makes_no_findings() -> None:
    """Each in turn; in CI one in several."""
    cases = [
        Case(name, "setup-loss", seed)
        for name in share("setup")
        for seed in range(0, len(setup_places(source(name).packets)), 1 if FULL else 7)
    ]
    assert not failures(cases)


@pytest.mark.sweep
def test_combinations_make_no_findings() -> None:
    seeds = range(100, 150 if FULL else 104)
    assert not failures(Case(name, combination(name, seed), seed) for name in share("combination") for seed in seeds)


@given(
    st.sampled_from(sources.names()),
    st.lists(st.sampled_from(sorted(ALL)), min_size=1, max_size=4),
    st.integers(0, 10**6),
)
@settings(max_examples=2000 if FULL else 60)
def test_any_chain_makes_no_findings(name: str, chain: list[str], seed: int) -> None:
    assert not failures([Case(name, "+".join(chain), seed)])


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(2, 6 if FULL else 3))
def test_scenarios_made_anew(seed: int) -> None:
    names = [name for name in sources.names(kinds=(), seed=seed) if FULL or crc32(name.encode()) % 3 == 0]
    assert not failures(Case(name, combination(name, seed), seed) for name in names)


# ------------------------------------------------------------------------------------- the transformations themselves


def content(packets: Iterable[Packet]) -> dict[tuple[int, int], bytes]:
    """The bytes of every direction that lie together from its first one on."""
    streams: dict[tuple[int, int], bytearray] = {}
    ends: dict[tuple[int, int], int] = {}
    for each in sorted(packets, key=lambda packet: packet.offset):
        if each.data:
            key = (each.connection.number, each.side)
            end = ends.setdefault(key, each.offset)
            streams.setdefault(key, bytearray()).extend(each.data[max(end - each.offset, 0) :])
            ends[key] = max(end, each.end)
    return {key: bytes(found) for key, found in streams.items()}


@pytest.mark.parametrize("chain", HARMLESS)
def test_harmless_ones_keep_every_byte(chain: str) -> None:
    for name in ("06_replication_takeover#4", "clean/flow-control", "10_upr_early_dialect#1"):
        packets = source(name).packets
        assert content(apply(chain, packets, 3, name)) == content(packets)


@pytest.mark.parametrize("chain", ["rtt", "acks", "resegment", "random-segments", "cork"])
def test_new_packets_keep_causality(chain: str) -> None:
    """At the recorder nothing is acknowledged before it has passed, and acknowledgements never go back."""
    for name in ("06_replication_takeover#4", "clean/flow-control", "02_flow_control#0"):
        for each in by_connection(apply(chain, source(name).packets, 5, name)).values():
            passed, acked = [-1, -1], [-1, -1]
            for packet in each:
                assert packet.acked is None or packet.acked <= passed[1 - packet.side]
                assert packet.flags & RST or packet.acked is None or packet.acked >= acked[packet.side]
                assert packet.flags & (SYN | RST) or packet.offset == passed[packet.side], "bytes in their order"
                passed[packet.side] = max(passed[packet.side], packet.space_end)
                acked[packet.side] = max(acked[packet.side], packet.acked or -1)


def test_what_was_written_is_read_again() -> None:
    packets = source("13_ipv6").packets
    again = captures.read_bytes(captures.write(packets))
    assert [(each.side, each.offset, each.data, each.acked, each.time_ns) for each in again] == [
        (each.side, each.offset, each.data, each.acked, each.time_ns) for each in packets
    ]
    assert any(each.flags & FIN for each in again)
