"""Which packets a frame's row names, and what is forgotten once no row can name it."""

from __future__ import annotations

from dissector.tcp.packet_marks import Mark, compacted, forget_before, packets_of


def marks_of(*packets: int) -> list[Mark]:
    """Return marks of packets with 10 bytes each; a packet's time is ten times its number, its ack a hundred."""
    return [Mark(10 * place, packet, 10 * packet, 100 * packet) for place, packet in enumerate(packets)]


def test_a_span_within_one_packet() -> None:
    assert packets_of(marks_of(1, 2, 3), 12, 20) == (2, 2, 20, 200)


def test_a_span_over_packets_that_came_out_of_order() -> None:
    # Bytes 5 to 35 are of packets 4, 2, 7 and 3; the first byte came in packet 4.
    assert packets_of(marks_of(4, 2, 7, 3, 9), 5, 35) == (2, 7, 70, 400)


def test_marks_before_a_span_are_forgotten() -> None:
    marks = marks_of(1, 2, 3)
    packets_of(marks, 20, 25)
    assert [mark.packet for mark in marks] == [3]


def test_the_mark_of_the_byte_itself_is_kept() -> None:
    marks = marks_of(1, 2, 3)
    forget_before(marks, 19)
    assert [mark.packet for mark in marks] == [2, 3]
    forget_before(marks, 1000)
    assert [mark.packet for mark in marks] == [3]


def test_few_marks_stay_and_many_keep_those_that_a_row_names() -> None:
    few = marks_of(*range(1, 9))
    assert compacted(few) == few
    many = marks_of(5, 1, 2, 3, 4, 9, 6, 7, 8)
    assert [mark.packet for mark in compacted(many)] == [5, 1, 9]
    assert packets_of(compacted(many), 0, 90) == packets_of(many, 0, 90)
