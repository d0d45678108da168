"""Refusals: the answer that says no to a guilty message is found, shown, and told with the server's reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.check.inspection import check
from analysis.check.refusals import refusal_of, told
from analysis.check.text_report import findings
from analysis.check.transcript import read
from dissector.capture import expand
from dissector.options import ReadOptions
from dissector.terminal.style import Terminal

FEED = "captures/09_feed_real_consumer.pcap"
BROKEN = "captures/02b_flow_control_broken.pcap"
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def _at_root(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)


def sent(end: int, **other: Any) -> Row:
    return {"direction": 0, "opcode": 0x57, "opaque": 1, "response": False, "end_offset": end, **other}


def answer(acked: int | None, status: int = 0x22, **other: Any) -> Row:
    named = {"direction": 1, "opcode": 0x57, "opaque": 1, "response": True, "end_offset": 9, "text": None}
    return {**named, "acked_offset": acked, "status": status, **other}


def test_the_answer_to_the_message_is_found() -> None:
    refused = answer(100)
    assert refusal_of(sent(100), [sent(200, opcode=0x58), answer(200, opaque=2), refused]) is refused
    assert refusal_of(sent(100), [sent(200), refused]) is refused  # the second one had not arrived


@pytest.mark.parametrize(
    ("message", "later"),
    [
        (sent(100), []),
        (sent(100), [answer(100, 0)]),
        (sent(100), [answer(100, 0x23)]),  # roll back: the protocol goes on
        (sent(100), [answer(99)]),  # to a message before it
        (sent(100), [answer(None)]),
        (sent(100), [sent(200), answer(200)]),  # may be to the second one
        (answer(100), [answer(100)]),
    ],
)
def test_what_is_not_certain_is_no_refusal(message: Row, later: list[Row]) -> None:
    assert refusal_of(message, later) is None


def test_a_refusal_is_told_with_name_and_reason() -> None:
    assert told(answer(1, text="Outside range")) == "0x22 out_of_range: Outside range"
    assert told(answer(1)) == "0x22 out_of_range"
    assert told(answer(1, 0x7777)) == "0x7777"
    context = '{"error":{"context":"seqno is too high","ref":"7a1b"}}'
    assert told(answer(1, 0x04, text=context)) == "0x04 invalid_arguments: seqno is too high, ref 7a1b"
    assert told(answer(1, 0x04, text='{"error":{}}')) == "0x04 invalid_arguments"
    assert told(answer(1, 0x04, text="[1]")) == "0x04 invalid_arguments: [1]"


@pytest.mark.parametrize(
    ("capture", "rule", "by"),
    [
        (FEED, "SEQ-01", "Refused by the consumer: 0x22 out_of_range: Outside range."),
        (BROKEN, "FRM-03", "Refused by the producer: 0x04 invalid_arguments: Invalid arguments."),
    ],
)
@pytest.mark.parametrize("chunk", [None, 4096])
def test_the_report_names_and_shows_it(capture: str, rule: str, by: str, chunk: int | None) -> None:
    found = [each for each in check(capture).findings if each.rule == rule]
    transcript = read(expand([capture]), ReadOptions(chunk_bytes=chunk), found)
    text = "\n".join(findings(found, transcript, Terminal(width=100)))
    assert by in " ".join(text.split())
    assert "refusal •" in text
