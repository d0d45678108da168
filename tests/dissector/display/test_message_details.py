"""What a message says: what matters most comes first, and is there however little room there is."""

from __future__ import annotations

from typing import Any

import pytest

from dissector.display.message_details import details, reason, trouble


def row(**values: Any) -> dict[str, Any]:
    common = {"name": "mutation", "response": False, "status": None, "vbucket": 0, "opaque": 1, "defects": []}
    return {**common, "value_length": 0, **values}


def test_seqno_and_key_come_first() -> None:
    found = row(stream_id=3, rev_seqno=1, item_flags=0, by_seqno=7, collection_id=8, key="k0", value_length=40)
    assert details(found) == ["by_seqno=7", "key=k0", "collection=0x8", "stream_id=3", "rev_seqno=1", "40 bytes"]
    assert details(found, brief=True)[:2] == ["seqno=7", "key=k0"]


def test_a_rollback_says_where_to() -> None:
    answer = row(name="stream_request", response=True, vbucket=None, status=0x23, rollback_seqno=20, value_length=8)
    assert details(answer) == ["rollback", "rollback_seqno=20"]


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (0x22, "Outside range", "out_of_range: Outside range"),
        (0x83, "Not supported", "not_supported"),  # the same again
        (0x04, '{"error": {"context": "a\\nb", "ref": "7"}}', "invalid_arguments: a\\nb, ref 7"),
        (0x04, "", "invalid_arguments"),
        (0x04, "x" * 500, "invalid_arguments: " + "x" * 159 + "…"),
    ],
)
def test_a_refusal_says_why(status: int, text: str, said: str) -> None:
    assert details(row(response=True, vbucket=None, status=status, text=text, value_length=len(text))) == [said]


def test_text_of_a_success_is_no_reason() -> None:
    assert details(row(response=True, status=0, text="7.0.5", value_length=5)) == ["success", "value=7.0.5"]


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (None, "send_stream_end_on_client_close_stream=true"),
        (43, "send_stream_end_on_client_close_stream=true"),
        (29, "send_stream_end_on_clie…=true"),
        (9, "send_st…=true"),
    ],
)
def test_a_control_keeps_its_value(room: int | None, said: str) -> None:
    control = row(name="control", key="send_stream_end_on_client_close_stream", text="true", value_length=4)
    assert details(control, room=room) == [said]
    assert room is None or room < 10 or len(said) <= room


def test_trouble_is_told_in_a_word_where_room_is_short() -> None:
    found = row(defects=["framing-length-omitted", "key-empty", "ack-count-in-value"], gap=5, missing=0)
    assert trouble(found) == "[framing-length-omitted key-empty ack-count-in-value gap=5]"
    assert trouble(found, tight=True) == "[key-empty warning note gap=5]"
    assert trouble(row()) == trouble(row(), tight=True) == ""


@pytest.mark.parametrize("text", ["[]", "null", '{"error": 5}', "[" * 100_000, "plain", '{"error": {}}'])
def test_text_that_is_no_error_is_its_own_reason(text: str) -> None:
    assert reason(text) == ("" if text == '{"error": {}}' else text)
