"""``uprscope explain``: everything in the spec can be found, and what is said about it is true."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.codec.decoder import decode
from dissector.codec.encoder import encode, pack_fields
from dissector.codec.message import Header
from dissector.errors import UsageError
from dissector.explain import as_data, as_text
from dissector.explain.byte_diagram import draw
from dissector.explain.catalogue import Category, JsonUse, TableMember, tables, things
from dissector.explain.lookup import lookup
from dissector.spec import enums, events, registry
from dissector.spec.headers import HEADERS, HeaderForm
from dissector.spec.model import Body, Dialect, Field, Message, UInt, size_of
from dissector.spec.sources import SOURCES
from dissector.spec.topics import TOPICS
from dissector.spec.value_kinds import BODIES
from dissector.terminal.style import Terminal
from uprscope import cli

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dissector.explain.lookup import Answer
    from dissector.spec.model import Layout, Shape

_WIDTH = 80


def _answers(*words: str) -> tuple[Answer, ...]:
    results = lookup(words)
    assert len(results) == 1, f"{words} was taken for several questions"
    return results[0].answers


def _subjects(*words: str) -> Sequence[object]:
    """Everything that a question finds, in answers and among what else has the number."""
    (result,) = lookup(words)
    return [thing.subject for answer in result.answers for thing in answer.things] + [
        thing.subject for thing in result.also
    ]


def _heads(*words: str) -> list[tuple[str, str, str]]:
    """The first thing of every answer: category, name and dialect."""
    found = []
    for answer in _answers(*words):
        first = answer.things[0]
        dialect = str(first.subject.dialect) if isinstance(first.subject, Message) else ""
        found.append((str(first.category), first.name, dialect))
    return found


def _shown(*words: str, width: int = _WIDTH) -> str:
    return as_text.render(lookup(words), Terminal(width=width))


def _spellings(name: str) -> Iterator[str]:
    yield name
    yield name.upper()
    yield name.replace("_", "-")
    yield name.replace("_", "")
    yield name.replace("_", " ").title()


def test_every_message_is_found_by_number_name_and_constant() -> None:
    for message in registry.MESSAGES:
        questions = [f"0x{message.opcode:02x}", f"0X{message.opcode:X}", str(message.opcode), message.constant]
        questions += _spellings(message.name)
        questions += [f"{message.dialect} {message.name}", f"{message.dialect}_{message.name}"]
        questions += [f"0x{message.opcode:02x}/{subtype}" for subtype in message.subtypes]
        for question in questions:
            assert message in _subjects(question), question
        assert message in _subjects("opcode", str(message.opcode))
        assert message in _subjects(*message.name.split("_"))


def test_every_table_member_is_found_by_number_and_name() -> None:
    words = {
        Category.STATUS: "status",
        Category.FLAG: "flag",
        Category.DATATYPE: "datatype",
        Category.REASON: "reason",
        Category.STATE: "state",
        Category.FEATURE: "feature",
        Category.VALUE: "value",
        Category.SUBTYPE: "subtype",
    }
    members = [thing for thing in things() if isinstance(thing.subject, TableMember)]
    assert len(members) == sum(len(table.members) for table in tables())
    for thing in members:
        number = thing.numbers[0]
        alone = [] if thing.category is Category.SUBTYPE else [thing.name, *thing.aliases]
        for question in (*alone, f"{words[thing.category]} {thing.name}"):
            assert thing.subject in _subjects(*question.split()), question
        for question in (f"0x{number:x}", str(number)):
            assert thing.subject in _subjects(question), question
            assert thing.subject in _subjects(words[thing.category], question), question


def test_every_declared_table_is_in_the_catalogue() -> None:
    used = {id(field.names) for known in registry.MESSAGES for field in _declared(known) if field.names is not None}
    used |= {id(known.subtype_names) for known in registry.MESSAGES if known.subtype_names is not None}
    # System events are in the catalogue as what they are, with their values.
    assert used <= {id(table) for table in (*tables(), events.EVENT_NAMES)}


def _declared(message: Message) -> Iterator[Field]:
    for shape in message.shapes():
        for layout in shape.layouts:
            yield from layout.extras
            yield from layout.value


def test_everything_else_is_found_by_name() -> None:
    for key in registry.CONTROL_BY_NAME.values():
        for question in (*_spellings(key.name), f"control {key.name}"):
            assert key in _subjects(*question.split(" ")), question
    for erratum in registry.ERRATUM_BY_ID.values():
        number = int(erratum.id.removeprefix("E-"))
        for question in (erratum.id, erratum.id.lower(), f"e{number:02}", f"E-{number}", f"erratum e{number}"):
            assert erratum in _subjects(*question.split()), question
    for defect in registry.DEFECT_BY_ID.values():
        for question in (defect.id, defect.id.upper().replace("-", "_"), f"defect {defect.id}"):
            assert defect in _subjects(*question.split()), question
    for magic in enums.MAGICS:
        assert magic in _subjects(f"0x{magic.value:02x}")
        assert magic in _subjects("magic", magic.name)
    for info in enums.FRAME_INFOS:
        assert info in _subjects("frame-info", str(info.id))
        assert info in _subjects(info.name)
    for event in registry.EVENT_BY_ID.values():
        assert event in _subjects("event", str(event.id))
        assert event in _subjects(event.name)
    for dialect in Dialect:
        assert dialect in [getattr(subject, "dialect", None) for subject in _subjects(str(dialect))]
    for source in SOURCES:
        assert source in [getattr(subject, "key", None) for subject in _subjects("source", source)]
    for topic in TOPICS:
        assert topic in _subjects("topic", *topic.name.split())
        assert topic in _subjects(topic.name)
    for form in HEADERS:
        assert form in _subjects(form.name)
        assert all(form in _subjects(alias) for alias in form.aliases)
    for known in registry.MESSAGES:
        for shape in known.shapes():
            for key in shape.json_keys:
                for name in (key.name, *(member.name for member in key.members)):
                    uses = [subject for subject in _subjects("json-key", name) if isinstance(subject, JsonUse)]
                    assert (known, name) in [(use.message, use.key.name) for use in uses]
    for family in enums.STATUS_RANGES:
        assert family in _subjects("status", hex(family.high))
        assert family in _subjects(family.name)


@pytest.mark.parametrize(
    ("question", "heads"),
    [
        (
            "0x50",
            [("opcode", "open", "dcp"), ("opcode", "stream_request", "upr-proto"), ("status", "bucket_paused", "")],
        ),
        ("87", [("opcode", "mutation", "dcp"), ("opcode", "deletion", "upr-proto")]),
        ("5e", [("opcode", "control", "dcp")]),
        ("0x23", [("status", "rollback", ""), ("opcode", "ioctl_get", "memcached")]),
        ("status 0x23", [("status", "rollback", "")]),
        ("opcode 0x23", [("opcode", "ioctl_get", "memcached")]),
        ("rollback", [("status", "rollback", ""), ("stream-end reason", "rollback", "")]),
        ("ENOMEM", [("status", "out_of_memory", "")]),
        ("PROTOCOL_BINARY_CMD_DCP_NOOP", [("opcode", "noop", "dcp")]),
        ("PROTOCOL_BINARY_RESPONSE_KEY_ENOENT", [("status", "key_not_found", "")]),
        ("noop", [("opcode", "noop", "dcp"), ("opcode", "kv_noop", "memcached")]),
        ("UPR_MUTATION", [("opcode", "mutation", "upr")]),
        ("add", [("opcode", "add", "memcached")]),  # a name, though 0xadd would be a number
        ("draft", [("dialect", "draft", "")]),
        ("pending", [("vbucket state", "pending", ""), ("vbucket state", "pending", "")]),
        ("0x04/3", [("opcode", "mutation", "draft")]),
        ("subtype mutation", [("draft subtype", "mutation", "")]),
        ("failover_log_request", [("draft subtype", "failover_log_request", "")]),
        ("KEY_EEXISTS", [("status", "key_exists", "")]),
        ("XATTR_EINVAL", [("status", "xattr_invalid", "")]),
        ("flow control", [("topic", "flow control", "")]),
        ("plain header", [("header", "request header", ""), ("header", "response header", "")]),
        ("sid", [("JSON key", "sid", "")]),
        ("collections", [("HELLO feature", "collections", ""), ("JSON key", "collections", "")]),
    ],
)
def test_the_likeliest_meaning_comes_first(question: str, heads: list[tuple[str, str, str]]) -> None:
    assert _heads(*question.split()) == heads


def test_the_early_numbering_of_a_state_comes_second() -> None:
    assert [answer.things[0].numbers[0] for answer in _answers("pending")] == [3, 2]


def test_one_message_of_several_dialects_is_one_answer() -> None:
    (answer,) = _answers("mutation")
    dialects = [thing.subject.dialect for thing in answer.things if isinstance(thing.subject, Message)]
    assert dialects == [Dialect.DCP, Dialect.UPR, Dialect.DRAFT, Dialect.PROTO]
    shown = _shown("mutation")
    differences = shown.partition("Dialect differences")[2].partition("Errata")[0]
    # Before 2013-12-11 there was no nmeta, before 2014-01-21 no nru; the prototype's 32 bytes are dcp's alone.
    assert "30 bytes of extras (2013-12-11 to 2014-01-21): without nru" in differences
    assert "28 bytes of extras (before 2013-12-11): without nmeta and nru" in differences
    assert "no form with 32 bytes of extras" in differences
    assert "draft: 0x04/3" in differences


def test_numbers_that_changed_their_meaning_are_told() -> None:
    assert "1 is state_changed (closed in dcp)" in _shown("stream_end")
    assert "2 is pending (replica in dcp)" in " ".join(_shown("set_vbucket_state").split())


def test_refusals_keys_replies_and_subtypes_are_told() -> None:
    shown = " ".join(_shown("stream_request").split())
    assert "0x88 unknown_collection a collection of the filter does not exist" in shown
    assert "disconnect the receiver does not have the role" in shown
    assert "cts.free_memory integer" in shown
    assert "(1 to 65535, since 6.5)" in shown
    assert "2 state_changed: the vbucket changed its state" in " ".join(_shown("draft stream_end").split())
    assert "answered optional: by the documents never" in " ".join(_shown("upr mutation").split())
    assert "collection_modify" in _shown("system_event")


def test_json_tells_refusals_keys_and_subtypes() -> None:
    told = as_data.message_facts(registry.named(Dialect.DCP, "stream_request"))
    assert {"status": 0x8C, "name": "unknown_scope", "doc": "the scope of the filter does not exist"} in told["errors"]
    assert told["disconnects"]
    keys = {key["key"]: key for key in told["request"]["json_keys"]}
    assert (keys["sid"]["type"], keys["cts"]["members"][1]["key"]) == ("integer", "all_keys")
    ended = as_data.message_facts(registry.named(Dialect.DRAFT, "stream_end"))
    assert [(one["value"], one["name"]) for one in ended["subtype_names"]] == [(1, "ok"), (2, "state_changed")]


def test_an_opcode_with_many_subtypes_is_a_list() -> None:
    first = _answers("0x04")[0]
    assert first.listing
    assert [thing.label for thing in first.things] == [f"0x04/{subtype}" for subtype in range(1, 7)]


def test_a_bare_number_mentions_what_else_has_it() -> None:
    (result,) = lookup(["0x04"])
    names = {thing.name for thing in result.also}
    assert {"include_xattrs", "to_latest", "too_slow", "xattr"} <= names
    assert "0x04 is also" in _shown("0x04")


def test_a_forgotten_prefix_is_mentioned() -> None:
    """57 is 0x39, a neighbour; 0x57 is what most people mean."""
    (result,) = lookup(["57"])
    assert [answer.things[0].name for answer in result.answers] == ["rincr"]
    assert [(thing.label, thing.name) for thing in result.also] == [("0x57", "mutation")]
    assert "57 is also\n  0x57  mutation" in _shown("57")
    for question in (["0x39"], ["opcode", "57"], ["87"], ["8a"]):  # asked for exactly, or UPR's own as it stands
        (exact,) = lookup(question)
        assert "mutation" not in {thing.name for thing in exact.also}


def test_several_questions_and_a_word_for_the_sort() -> None:
    results = lookup(["mutation", "status", "0x23", "stream", "request", "E-22"])
    assert [result.query for result in results] == ["mutation", "status 0x23", "stream request", "E-22"]


@pytest.mark.parametrize("category", list(Category))
def test_a_sort_alone_lists_all_of_it(category: Category) -> None:
    answers = [answer for answer in _answers(str(category)) if answer.category is category]
    if category is Category.HEADER:
        assert [answer.things[0].name for answer in _answers("header")] == [form.name for form in HEADERS]
        return
    (listing,) = answers
    assert len(listing.things) == sum(thing.category is category for thing in things())
    shown = _shown(str(category))
    for thing in listing.things:
        assert thing.name in shown


def _cases() -> Iterator[tuple[Message, int | None, Shape, Layout]]:
    for message in registry.MESSAGES:
        first = message.request or message.push
        assert first is not None
        for status, shape in ((None, first), *message.responses):
            for layout in shape.layouts:
                yield message, status, shape, layout


def _places(message: Message, status: int | None, shape: Shape, layout: Layout) -> set[tuple[str, int, int, str]]:
    """Where the decoder finds the fields of a layout: part, offset in it, size, name."""
    key = b"k" if shape.key == "must" else b""
    frame = encode(message, layout=layout, response=status is not None, status=status or 0, key=key)
    decoded = decode(message.dialect, frame)
    value_at = registry.HEADER_SIZE + layout.extras_size + len(key)
    found = set()
    for entry in decoded.fields:
        part, start = ("value", value_at) if entry.offset >= value_at else ("extras", registry.HEADER_SIZE)
        found.add((part, entry.offset - start, entry.spec.size, entry.name))
    return found


def _rows(shown: str) -> set[tuple[str, int, int, str]]:
    """Read the tables of fields back from the text."""
    found, part = set(), ""
    for line in shown.splitlines():
        if head := re.match(r" +(extras|value) +size +field", line):
            part = head[1]
        elif part and (row := re.match(r" +(\d+) +(\d+)  (\w+)", line)):
            found.add((part, int(row[1]), int(row[2]), row[3]))
        elif not line.strip():
            part = ""
    return found


def test_layouts_agree_with_what_the_decoder_finds() -> None:
    checked = 0
    for message, status, shape, layout in _cases():
        expected = _places(message, status, shape, layout)
        if not expected:
            continue
        missing = expected - _rows(_shown(f"{message.dialect} {message.name}"))
        assert not missing, f"{message.dialect} {message.name} {layout.name}"
        told = next(form for form in as_data.shape_facts(shape)["layouts"] if form["name"] == layout.name)
        said = {
            (part, field["offset"], field["size"], field["name"])
            for part in ("extras", "value")
            for field in told[part]
        }
        assert said == expected
        checked += 1
    assert checked > 60  # most messages have fields: a decoder that finds none would prove nothing


@pytest.mark.parametrize("form", HEADERS, ids=lambda form: form.name)
def test_headers_agree_with_the_decoder_s(form: HeaderForm) -> None:
    same = {
        "key_length": "key_word",
        "request_id": "opaque",
        "subtype": "datatype",
        "vbucket": "vbucket_or_status",
        "status": "vbucket_or_status",
    }
    flexible = "flexible" in form.name
    assert all(registry.MAGICS[magic].flexible is flexible for magic in form.magics)
    end = 0
    for offset, field in form.places:
        blank: dict[str, Any] = dict.fromkeys(Header._fields, 0) | {"opaque": bytes(4)}
        ones = (1 << 8 * field.size) - 1
        if flexible and field.name in {"framing_length", "key_length"}:
            blank["key_word"] = 0xFF00 if field.name == "framing_length" else 0x00FF
        else:
            name = same.get(field.name, field.name)
            blank[name] = ones.to_bytes(4, "big") if name == "opaque" else ones
        lit = [place for place, byte in enumerate(Header(**blank).pack()) if byte]
        assert lit == list(range(offset, offset + field.size)), field.name
        assert offset == form.offset(field.name)
        end = offset + field.size
    assert end == registry.HEADER_SIZE


@pytest.mark.parametrize(
    ("body", "dialect", "name", "response"),
    [
        (Body.FAILOVER_LOG, Dialect.DCP, "get_failover_log", True),
        (Body.VBUCKET_SEQNOS, Dialect.DCP, "get_all_vb_seqnos", True),
        (Body.FEATURES, Dialect.DCP, "hello", True),
        (Body.CACHE_TRANSFER, Dialect.DCP, "cache_transfer", False),
    ],
)
def test_records_agree_with_the_decoder_s(body: Body, dialect: Dialect, name: str, response: bool) -> None:
    record = BODIES[body].record
    tail = b"\0k" if body is Body.CACHE_TRANSFER else b""
    one = pack_fields(record, {"key_length": len(tail), "feature": 1}) + tail
    decoded = decode(dialect, encode(registry.named(dialect, name), response=response, value=one * 2))
    assert len(decoded.value.records) == 2
    assert [entry.spec for entry in decoded.value.records[1].fields] == list(record)


def test_a_diagram_of_fields_that_cross_rows() -> None:
    record = BODIES[Body.VBUCKET_SEQNOS].record  # 2 bytes, then 8
    assert draw(record, 40) == [
        "         0       1       2       3",
        "     ┌───────────────┬───────────────┐",
        "   0 │    vbucket    │               │",
        "     ├───────────────┘               │",
        "   4 │             seqno             │",
        "     │               ┌───────────────┘",
        "   8 │               │",
        "     └───────────────┘",
    ]


@given(st.lists(st.tuples(st.sampled_from(list(UInt)), st.from_regex(r"[a-z]{1,9}(_[a-z]{1,9}){0,3}", fullmatch=True))))
def test_diagrams_hold_every_name_and_every_row(drawn: list[tuple[UInt, str]]) -> None:
    fields = tuple(Field(f"{name}_{index}", kind, "") for index, (kind, name) in enumerate(drawn))
    for width in (40, 80):
        lines = draw(fields, width)
        assert all(len(line) <= width for line in lines)
        rows = [int(line[:5]) for line in lines[1:] if line[:5].strip()]
        assert rows == list(range(0, size_of(fields), 4))
        letters = sorted("".join(lines[1:]).translate(str.maketrans("", "", " ─│┌┬┐├┼┤└┴┘╵╷╶╴" + "0123456789")))
        assert letters == sorted("".join(re.sub(r"\d", "", field.name) for field in fields))


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for thing in things():
        question = f"{thing.category} {thing.name}"
        for line in _shown(*question.split(), width=width).splitlines():
            assert len(line) <= width, question
            assert line == line.rstrip()


def test_the_overview_s_examples_can_be_asked() -> None:
    shown = as_text.overview(Terminal())
    for category, examples in as_text._EXAMPLES.items():
        assert examples in shown
        for example in examples.split(", "):
            found = lookup(example.split())
            assert any(answer.things[0].category is category for answer in found[0].answers), example
    assert set(as_text._EXAMPLES) == set(Category)


def test_no_argument_gives_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain"]) == 0
    shown = capsys.readouterr().out
    counted = len(registry.CONTROL_BY_NAME)
    assert re.search(rf"^ +{counted}  control ", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("mutaton", "uprscope: nothing is called 'mutaton' (did you mean mutation or tap_mutation?)"),
        ("75", "uprscope: nothing has the number 75 (0x4b) (did you mean 0x75?)"),
        ("status 0x4b", "uprscope: no status has the number 0x4b (uprscope explain lists what can be asked)"),
        ("qqqqqq", "uprscope: nothing is called 'qqqqqq' (uprscope explain lists what can be asked)"),
        ("", "uprscope: nothing is called '' (uprscope explain lists what can be asked)"),
    ],
)
def test_what_is_not_there_gets_one_line(question: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", *(question.split() or [""])]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"{said}\n")


def test_a_part_of_a_name_suggests_the_whole() -> None:
    with pytest.raises(UsageError, match="connection_buffer_size"):
        lookup(["buffer"])


def test_one_bad_question_spoils_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "mutation", "nonsense"]) == 2
    assert capsys.readouterr().out == ""


@given(st.text(max_size=80))
def test_hostile_questions_are_answered_or_refused_in_one_printable_line(question: str) -> None:
    try:
        lines = as_text.render(lookup([question]), Terminal()).split("\n")
    except UsageError as error:
        lines = [str(error)]
    assert all(line.isprintable() for line in lines)


def test_escapes_in_an_argument_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "\x1b[31m\u202etxt"]) == 2
    assert capsys.readouterr().err.startswith(r"uprscope: nothing is called '\x1b[31m\u202etxt'")
    # What is found in spite of its spelling is not repeated raw either; Python takes \x1c for white space.
    for question in ("mutation\x1b", "\x1c0x04\x1d", "0x04\u2029"):
        assert cli.main(["explain", question]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert all(line.isprintable() for line in out.split("\n"))


def _asked(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert cli.main(["explain", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_of_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    ((result,)) = _asked(capsys, "snapshot-marker")
    assert result["query"] == "snapshot-marker"
    (answer,) = result["answers"]
    assert (answer["kind"], answer["opcode"], answer["dialect"]) == ("opcode", 0x56, "dcp")
    sizes = {form["name"]: (form["extras_size"], form["value_size"]) for form in answer["request"]["layouts"]}
    # Two seqnos and a type make 20 bytes; V2.0 adds two seqnos, V2.1 a time, V2.2 two more seqnos.
    assert sizes == {"V1": (20, 0), "V2.0": (1, 36), "V2.1": (1, 44), "V2.2": (1, 52)}
    assert [other["dialect"] for other in answer["other_dialects"]] == ["upr"]
    assert answer["other_dialects"][0]["differences"]


def test_json_of_everything_can_be_written() -> None:
    for thing in things():
        for result in lookup(f"{thing.category} {thing.name}".split()):
            told = json.loads(json.dumps(as_data.result_facts(result), allow_nan=False))
            assert any(thing.name in json.dumps(answer) for answer in told["answers"])


def test_json_of_a_number_of_many_meanings(capsys: pytest.CaptureFixture[str]) -> None:
    ((result,)) = _asked(capsys, "0x50")
    assert [answer["kind"] for answer in result["answers"]] == ["opcode", "opcode", "status"]
    ((result,)) = _asked(capsys, "0x04")
    assert result["answers"][0]["kind"] == "list"
    assert {"kind": "flag", "name": "to_latest"}.items() <= {
        **next(entry for entry in result["also"] if entry["name"] == "to_latest")
    }.items()


def test_json_without_a_question_counts(capsys: pytest.CaptureFixture[str]) -> None:
    told = {entry["kind"]: entry["count"] for entry in _asked(capsys)}
    assert told["erratum"] == len(registry.ERRATUM_BY_ID)
    assert told["opcode"] == len(registry.MESSAGES)
