"""The rules that are simple, said again in plain Python over conversations: what a fault breaks, and what it does not.

Knows nothing of the faults and their finders. It believes what the scenarios do (one producer per connection, every
connection captured from its beginning), so it is no checker: the analyzer has to earn its findings from packets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from dissector.generate.conversation import Conversation, Emission
from dissector.spec.model import Dialect

SECOND = 1_000_000_000
CAPTURE_BEGIN_NS = 1_700_000_000 * SECOND
DATA = {"mutation", "deletion", "expiration", "prepare", "commit", "abort", "seqno_advanced", "system_event"}
MUTATIONS = {"mutation", "deletion", "expiration", "prepare", "commit", "abort"}
DOCUMENTS = {"mutation", "deletion", "expiration"}
ANSWERED = {"hello", "select_bucket", "open", "control", "add_stream", "stream_request", "get_failover_log"}
ANSWERED |= {"noop", "close_stream", "set_vbucket_state"}

Finding = tuple[str, Emission]


def broken_rules(conversations: list[Conversation]) -> set[str]:
    return {rule for rule, _ in findings(conversations)}


def findings(conversations: list[Conversation]) -> Iterator[Finding]:
    versions: dict[tuple[int, int], Emission] = {}
    for talk in conversations:
        assert_heard_grows(talk)
        yield from flow(talk)
        yield from replies(talk)
        yield from noops(talk)
        yield from histories(talk)
        yield from takeovers(talk)
        for stream in streams(talk):
            yield from _draft(stream) if stream[0].frame.dialect is Dialect.DRAFT else _stream(talk, stream)
            yield from _sync(talk, stream)
        for each in talk:
            frame = each.frame
            if frame.name in MUTATIONS and not frame.response:
                same = versions.setdefault((frame.vbucket, frame.seqno), each).frame
                if (same.key, same.fields.get("rev_seqno"), same.cas) != (
                    frame.key,
                    frame.fields.get("rev_seqno"),
                    frame.cas,
                ):
                    yield "XCN-01", each


def assert_heard_grows(talk: Conversation) -> None:
    sent, heard = [0, 0], [0, 0]
    for each in talk:
        known = sent[1 - each.side] - each.unheard
        assert known >= heard[each.side], "what was heard once cannot be unheard"
        assert each.pause_ns > 0
        heard[each.side] = known
        sent[each.side] += 1


def streams(talk: Conversation) -> Iterator[list[Emission]]:
    """Each granted stream: its request, then everything that is about it until another one is granted."""
    asked: dict[bytes, Emission] = {}
    live: dict[tuple[int, int | None], list[Emission]] = {}
    made = []
    for each in talk:
        frame = each.frame
        if frame.name == "stream_request" and not frame.response:
            asked[frame.opaque] = each
        elif frame.name == "stream_ok" or (frame.name == "stream_request" and not frame.status):
            request = asked[frame.opaque]
            live[request.frame.vbucket, request.frame.stream_id] = [request]
            made.append(live[request.frame.vbucket, request.frame.stream_id])
        elif not frame.response and (frame.vbucket, frame.stream_id) in live:
            live[frame.vbucket, frame.stream_id].append(each)
        elif frame.response and frame.name == "snapshot_marker":
            for messages in live.values():
                if messages[0].frame.opaque == frame.opaque:
                    messages.append(each)
    return iter(made)


def _stream(talk: Conversation, messages: list[Emission]) -> Iterator[Finding]:
    asked = messages[0].frame.fields
    early = messages[0].frame.dialect is Dialect.UPR
    modern = any(each.frame.name == "hello" for each in talk)
    changes = any(each.frame.key == b"change_streams" for each in talk)
    marker: dict[str, int] | None = None
    last, first, over = None, True, False
    items: list[Emission] = []
    oso = after_oso = False
    loose: list[Emission] = []
    history: dict[bytes, list[Emission]] = defaultdict(list)
    dense = False
    for each in messages[1:]:
        frame = each.frame
        if frame.response:
            continue
        if over and frame.name in {*DATA, "snapshot_marker", "oso_snapshot", "stream_end"}:
            yield "OPQ-06", each
        if frame.name == "snapshot_marker" and early:
            yield from _unique(loose)
            loose = []
        elif frame.name == "snapshot_marker":
            start, end, flags = (frame.fields[name] for name in ("snap_start_seqno", "snap_end_seqno", "snapshot_type"))
            if oso:
                yield "SNP-11", each
            if start > end:
                yield "SNP-03", each
            if first and start != asked["snap_start_seqno"]:
                yield "SNP-07", each
            if start > asked["end_seqno"]:
                yield "SEQ-03", each
            if flags & 3 not in (1, 2) or flags & 0x30 == 0x20 or (flags & 0x08 and not asked["stream_flags"] & 1):
                yield "SNP-08", each
            if flags & 0x30 and not changes:
                yield "CON-05", each
                yield "SNP-08", each
            for name in ("max_visible_seqno", "high_prepared_seqno", "purge_seqno"):
                if frame.fields.get(name, 0) > end:
                    yield "SNP-09", each
            if marker is not None:
                repeats = flags & 0x30 and marker["snap_end_seqno"] == end
                if start <= marker["snap_end_seqno"] and not repeats and not after_oso:
                    yield "SNP-04", each
                if not items and not after_oso:
                    yield "SNP-12", each
                if last != marker["snap_end_seqno"] and not repeats:
                    yield "SNP-06", each
                if modern and marker["snapshot_type"] & 3 != flags & 3 and not flags & 0x04:
                    yield "SNP-13", each
                yield from _unique(items, marker["snapshot_type"])
                dense = dense or _dense(marker, items)
            marker, first, items, after_oso = frame.fields, False, [], False
        elif frame.name == "oso_snapshot":
            if oso == (frame.fields["oso_flags"] == 1):
                yield "SNP-11", each
            oso = frame.fields["oso_flags"] == 1
            if not oso:
                yield from _unique(items)
                after_oso, items, first = True, [], True
        elif frame.name in DATA:
            seqno = frame.seqno or 0
            items.append(each)
            loose.append(each)
            if marker is None and not oso and not early:
                yield "SNP-01", each
            if marker and not oso and not marker["snap_start_seqno"] <= seqno <= marker["snap_end_seqno"]:
                yield "SNP-02", each
            if not oso and last is not None and seqno <= last:
                yield "SEQ-01", each
            if last is None and seqno <= asked["start_seqno"]:
                yield "SEQ-02", each
            if not 0 < seqno < 1 << 48:
                yield "SEQ-07", each
            if frame.name == "mutation" and modern:
                ahead = (frame.cas & ~0xFFFF) > CAPTURE_BEGIN_NS + 86_400 * SECOND
                if frame.cas in (0, (1 << 64) - 1) or ahead:
                    yield "SEQ-06", each
            if frame.name == "mutation" and modern and not frame.cas:
                yield "FRM-07", each
            if frame.name in DOCUMENTS:
                history[frame.key].append(each)
            before = items[-2].frame if len(items) > 1 else None
            if before is not None and before.name == "seqno_advanced":
                yield "SEQ-11", each
            past = marker is not None and seqno > marker["snap_end_seqno"]
            if frame.name == "seqno_advanced" and (past or (last is not None and seqno <= last)):
                yield "SEQ-11", each
            last = seqno
        elif frame.name == "stream_end":
            over = True
            if oso:
                yield "SNP-11", each
            if loose and early:
                yield "SNP-01", each
            if frame.fields["end_reason"] == 0 and marker:
                if last != marker["snap_end_seqno"]:
                    yield "SNP-06", each
                if max(last or 0, marker["snap_end_seqno"]) < asked["end_seqno"] and not asked["stream_flags"] & 1:
                    yield "SEQ-03", each
        elif frame.name == "close_stream" and loose and early:
            yield "SNP-01", each
    if marker:
        yield from _unique(items, marker["snapshot_type"])
        span = marker["snap_end_seqno"] - marker["snap_start_seqno"] + 1
        if dense and span >= 100 and len(items) < span / 10 and marker["snapshot_type"] & 1:
            yield "SEQ-12", items[-1]
    for versions in history.values():
        versions.sort(key=lambda each: each.frame.seqno or 0)
        for older, newer in pairwise(versions):
            if newer.frame.fields["rev_seqno"] <= older.frame.fields["rev_seqno"]:
                yield "SEQ-04", newer
            if newer.frame.cas <= older.frame.cas:
                yield "SEQ-05", newer


def _dense(marker: dict[str, int], items: list[Emission]) -> bool:
    span = marker["snap_end_seqno"] - marker["snap_start_seqno"] + 1
    return span >= 20 and len(items) >= span / 2


def _unique(items: Iterable[Emission], flags: int = 0) -> Iterator[Finding]:
    seen = set()
    for each in items:
        place = each.frame.key, each.frame.name == "prepare"
        if each.frame.name in MUTATIONS and place in seen and not flags & 0x20:
            yield "SNP-05", each
        seen.add(place)


def _draft(messages: list[Emission]) -> Iterator[Finding]:
    inside, started, start = False, False, messages[0].frame.fields["start_seqno"]
    last: int | None = None
    items: list[Emission] = []
    for each in messages[1:]:
        frame = each.frame
        if frame.name in ("snapshot_start", "snapshot_end"):
            if inside == (frame.name == "snapshot_start"):
                yield "SNP-14", each
            yield from _unique(items)
            inside, started, items = frame.name == "snapshot_start", True, []
        elif frame.name in DATA:
            items.append(each)
            if not inside:
                yield "SNP-14", each
                if not started:
                    yield "SNP-01", each
            if (frame.seqno or 0) <= (start if last is None else last):
                yield "SEQ-02" if last is None else "SEQ-01", each
            last = frame.seqno or 0


def _sync(talk: Conversation, messages: list[Emission]) -> Iterator[Finding]:
    """Prepares and completions, replicas' acknowledgements, confirmations, states."""
    prepares: dict[int, bytes] = {}
    outstanding: dict[bytes, int] = {}
    done: set[int] = set()
    known = acked = completed = 0
    flags = end = last = 0
    due: list[int] = []
    for each in messages[1:]:
        frame = each.frame
        if frame.name == "snapshot_marker" and frame.response:
            if messages[0].frame.dialect is Dialect.UPR:
                continue
            if not due or last < due[0]:
                yield "SNP-10", each
            due = due[1:]
        elif frame.name == "snapshot_marker" and frame.fields:
            flags, end = frame.fields["snapshot_type"], frame.fields["snap_end_seqno"]
            if flags & 0x08:
                due.append(end)
            if flags & 0x02 and any(each.frame.key == b"enable_sync_writes" for each in talk):
                here = frame.fields.get("high_completed_seqno")
                if here is None or here < completed:
                    yield "SNP-09", each
                completed = here or 0
        elif frame.name == "prepare":
            known = max(known, frame.seqno or 0)
            prepares[frame.seqno or 0] = frame.key
            if frame.key in outstanding and flags & 0x01:
                yield "SEQ-09", each
            outstanding[frame.key] = frame.seqno or 0
        elif frame.name in ("commit", "abort"):
            prepared = frame.fields["prepared_seqno"]
            wrong = prepared >= (frame.seqno or 0) or prepared in done
            if wrong or (flags & 0x01 and prepares.get(prepared) != frame.key):
                yield "SEQ-08", each
            done.add(prepared)
            outstanding.pop(prepares.get(prepared, b""), None)
        elif frame.name == "seqno_acknowledged":
            if not acked <= frame.fields["prepared_seqno"] <= max(known, end):
                yield "SEQ-10", each
            acked = frame.fields["prepared_seqno"]
        if frame.name in DATA and not frame.response:
            last = frame.seqno or 0
    if due:
        yield "SNP-10", messages[-1]


def histories(talk: Conversation) -> Iterator[Finding]:
    """Failover logs, what is asked for on a branch, and rollbacks; of the draft there is nothing to say."""
    asked: dict[tuple[str, bytes], Emission] = {}
    logs: dict[int, list[tuple[int, int]]] = {}
    high: dict[int, int] = defaultdict(int)
    told: dict[int, int] = {}
    row: dict[int, int] = defaultdict(int)
    waiting: list[tuple[Emission, Emission, list[tuple[int, int]]]] = []
    resumed: dict[int, int] = {}
    notifier = any(each.frame.fields.get("open_flags", 0) & 2 for each in talk)
    for each in talk:
        frame = each.frame
        if frame.dialect is not Dialect.DCP:
            continue
        if not frame.response and frame.name in ("stream_request", "get_failover_log"):
            asked[frame.name, frame.opaque] = each
        if frame.name == "stream_request" and not frame.response:
            numbers = frame.fields
            if bad_range(numbers) and not notifier:
                yield "FOL-04", each
            if told.pop(frame.vbucket, numbers["start_seqno"]) < numbers["start_seqno"]:
                yield "FOL-07", each
        elif not frame.response and frame.name in (*DATA, "snapshot_marker") and frame.vbucket in resumed:
            seqno = frame.fields["snap_end_seqno"] + 1 if frame.name == "snapshot_marker" else frame.seqno or 0
            if seqno <= resumed[frame.vbucket]:
                yield "FOL-08", each
            if frame.name in DATA:
                del resumed[frame.vbucket]
        if not frame.response and frame.name in DATA:
            high[frame.vbucket] = max(high[frame.vbucket], frame.seqno or 0)
        request = asked.get((frame.name, frame.opaque)) if frame.response else None
        if request is None:
            continue
        vbucket, numbers = request.frame.vbucket, request.frame.fields
        if frame.status == 0:
            log = [
                (int.from_bytes(frame.value[at : at + 8], "big"), int.from_bytes(frame.value[at + 8 : at + 16], "big"))
                for at in range(0, len(frame.value), 16)
            ]
            if not frame.value or len(frame.value) % 16:
                yield "FOL-01", each
            if any(older > newer for (_, newer), (_, older) in pairwise(log)):
                yield "FOL-02", each
            if len({uuid for uuid, _ in log}) < len(log) or any(not uuid for uuid, _ in log):
                yield "FOL-03", each
            for question, rollback, before in waiting:
                if question.frame.vbucket == vbucket and before == log:
                    yield from rolled_back(question.frame.fields, rollback, log)
            waiting = [one for one in waiting if one[0].frame.vbucket != vbucket]
            logs[vbucket] = log
            high[vbucket] = max(high[vbucket], log[0][1] if log else 0)
        if frame.name != "stream_request" or notifier or numbers["stream_flags"] & 0x40:
            continue
        start, uuid = numbers["start_seqno"], numbers["vbucket_uuid"]
        if frame.status in (0, 0x23) and bad_range(numbers):
            yield "FOL-04", each
        if (
            frame.status == 0x22
            and not bad_range(numbers)
            and start <= high[vbucket]
            and not numbers["stream_flags"] & 6
        ):
            yield "FOL-04", each
        if frame.status == 0x23:
            row[vbucket] += 1
            if row[vbucket] > 3:
                yield "FOL-07", request
            told[vbucket] = frame.fields["rollback_seqno"]
            if told[vbucket] >= start > 0 or told[vbucket] > start:
                yield "FOL-05", each
            elif vbucket in logs:
                waiting.append((request, each, logs[vbucket]))
            high[vbucket] = min(high[vbucket], max(told[vbucket], logs.get(vbucket, [(0, 0)])[0][1]))
        elif frame.status == 0:
            resumed.pop(vbucket, None)
            if start and start >= high[vbucket] > 0 and not row[vbucket]:
                resumed[vbucket] = high[vbucket]
            row[vbucket] = 0
            if start and uuid and uuid not in dict(log):
                yield "FOL-06", each
            elif start and dict(log).get(uuid) is not None and due(numbers, log) not in (None, -1):
                yield "FOL-05", each


def bad_range(numbers: dict[str, int]) -> bool:
    start, flags = numbers["start_seqno"], numbers["stream_flags"]
    if flags & 0x40:
        return False
    inside = numbers["snap_start_seqno"] <= start <= numbers["snap_end_seqno"]
    return not inside or (start > numbers["end_seqno"] and not flags & 6)


def due(numbers: dict[str, int], log: list[tuple[int, int]]) -> int | None:
    """Where a request on an older branch goes back to; -1: nowhere; None: the branch is the newest."""
    start, first, last = (numbers[name] for name in ("start_seqno", "snap_start_seqno", "snap_end_seqno"))
    place = [uuid for uuid, _ in log].index(numbers["vbucket_uuid"])
    if place == 0:
        return None
    upper = log[place - 1][1]
    if start == last:
        first = start
    elif start == first:
        last = start
    if last <= upper:
        return -1
    return min(first, upper)


def rolled_back(numbers: dict[str, int], rollback: Emission, log: list[tuple[int, int]]) -> Iterator[Finding]:
    """A rollback that was made by a log."""
    value, start = rollback.frame.fields["rollback_seqno"], numbers["start_seqno"]
    if not start or bad_range(numbers):
        return
    if numbers["vbucket_uuid"] not in dict(log):
        if value:
            yield "FOL-05", rollback
        return
    wanted = due(numbers, log)
    if wanted is None:
        return  # the high seqno decides, which nobody tells
    if value and value != wanted:
        yield "FOL-05", rollback
    if not value and wanted:
        yield "FOL-11", rollback


def replies(talk: Conversation) -> Iterator[Finding]:
    waiting: dict[tuple[str, bytes], list[int]] = defaultdict(list)
    clock = 0
    for each in talk:
        clock += each.pause_ns
        frame = each.frame
        asking = frame.fields.get("snapshot_type", 0) & 0x08 or frame.dialect is Dialect.UPR
        if not frame.response and (frame.name in ANSWERED or asking) and frame.dialect is not Dialect.DRAFT:
            waiting[frame.name, frame.opaque].append(clock)
        elif frame.response:
            if not waiting[frame.name, frame.opaque]:
                yield "OPQ-01", each
            elif clock - waiting[frame.name, frame.opaque].pop(0) > 60 * SECOND:
                yield "OPQ-02", each
    if any(waiting.values()):
        yield "OPQ-02", talk.emissions[-1]


def takeovers(talk: Conversation) -> Iterator[Finding]:
    """Vbucket states, as their sender could know what was answered."""
    hello = any(each.frame.name == "hello" for each in talk)
    served = any(each.frame.name == "open" and each.frame.fields.get("open_flags", 0) & 1 for each in talk)
    place = [0, 0]
    asked: dict[bytes, Emission] = {}
    live: dict[tuple[int, int | None], tuple[int, list[int]]] = {}  # flags of the request, and states so far
    counts: dict[tuple[str, bytes], int] = defaultdict(int)
    answered: dict[tuple[str, bytes], list[int]] = defaultdict(list)
    for each in talk:
        frame, heard = each.frame, place[1 - each.side] - each.unheard
        place[each.side] += 1
        what, stream = (frame.name, frame.opaque), (frame.vbucket, frame.stream_id)
        state = ("set_vbucket_state", frame.opaque)
        waiting = {
            one: counts[one, frame.opaque] - sum(at < heard for at in answered[one, frame.opaque])
            for one in ("set_vbucket_state", "snapshot_marker")
        }
        if frame.name == "stream_request" and not frame.response:
            asked[frame.opaque] = each
        elif frame.name == "stream_request" and not frame.status and frame.opaque in asked:
            request = asked[frame.opaque].frame
            live[request.vbucket, request.stream_id] = request.fields.get("stream_flags", 0), []
        elif frame.response:
            answered[what].append(place[each.side] - 1)
        elif stream not in live or frame.dialect is not Dialect.DCP:
            continue
        elif frame.name == "set_vbucket_state":
            flags, states = live[stream]
            number = frame.fields["vbucket_state"]
            if not flags & 1:
                yield "TKO-05", each
                continue
            states.append(number)
            if states not in ([2], [3], [2, 1], [3, 1]):
                yield "TKO-01", each
            if waiting["set_vbucket_state"] > 0:
                yield "TKO-03", each
            if waiting["snapshot_marker"] > 0:
                yield "TKO-04", each
            if states == [2] and hello and served:
                yield "TKO-07", each
            counts[state] += 1
        elif frame.name == "snapshot_marker" and frame.fields.get("snapshot_type", 0) & 0x08:
            counts[what] += 1
        elif frame.name in MUTATIONS and 1 in live[stream][1]:
            yield "TKO-02", each
        elif frame.name == "stream_end" and live[stream][0] & 1:
            ok = frame.fields["end_reason"] == 0
            if ok and waiting["set_vbucket_state"] > 0:
                yield "TKO-03", each
            closed = any(one.frame.name == "close_stream" and one.frame.vbucket == frame.vbucket for one in talk)
            if (ok and 1 not in live[stream][1]) or (not ok and 1 in live[stream][1] and not closed):
                yield "TKO-06", each


def noops(talk: Conversation) -> Iterator[Finding]:
    """No-ops by the interval that was accepted last; answers count when they were heard."""
    modern = any(each.frame.name == "hello" for each in talk)
    served = any(each.frame.name == "open" and each.frame.fields.get("open_flags", 0) & 1 for each in talk)
    controls: dict[bytes, Emission] = {}
    on, streamed, interval = False, False, 180.0
    clock, due, place = 0, None, [0, 0]
    number: int | None = None
    waiting: dict[bytes, tuple[Emission, int]] = {}
    wrong: set[bytes] = set()
    last: tuple[bytes, int] | None = None  # opaque of the last no-op, and where its answer is
    producer, produced = -1, 0
    for each in talk:
        frame, heard = each.frame, place[1 - each.side] - each.unheard
        clock += each.pause_ns
        place[each.side] += 1
        produced = clock if each.side == producer else produced
        if on and streamed and each.pause_ns > 390 * SECOND:
            yield "NOP-06", each
        if frame.name == "control":
            asked = controls.setdefault(frame.opaque, each).frame
            if frame.response and not frame.status:
                producer = each.side
                on = asked.value == b"true" if asked.key == b"enable_noop" else on
                interval = float(asked.value) if asked.key == b"set_noop_interval" else interval
        elif frame.name == "stream_request" and frame.response and not frame.status and on and not streamed:
            streamed, due = True, clock
        elif frame.name == "noop" and not frame.response:
            if due is not None and clock - due > (2 * interval + 30) * SECOND:
                yield "NOP-03", each
            if last is not None and last[0] not in wrong and not last[1] < heard:
                yield "NOP-04", each
            here = int.from_bytes(frame.opaque, "little")
            if served and (here != number + 1 if number is not None else here not in (1_000_001, 10_000_001)):
                yield "NOP-05", each
            number, due, last = here, None, (frame.opaque, 1 << 60)
            waiting[frame.opaque] = each, clock
        elif frame.name == "noop":
            if frame.opaque not in waiting:
                wrong |= waiting.keys()
                if waiting:
                    yield "NOP-01", each
                waiting.clear()
                continue
            for opaque in [*waiting][: [*waiting].index(frame.opaque)]:
                yield "NOP-01", waiting[opaque][0]
            _, sent = waiting.pop(frame.opaque)
            if clock - sent > ((360 if modern else interval) + 1) * SECOND:
                yield "NOP-02", each
            if last is not None and last[0] == frame.opaque:
                last, due = (frame.opaque, place[each.side] - 1), clock
    if on and due is not None and produced - due > (2 * interval + 30) * SECOND:
        yield "NOP-03", talk.emissions[-1]
    for asked, sent in waiting.values():
        if produced - sent > (360 if modern else interval) * SECOND:
            yield "NOP-02", asked


def flow(talk: Conversation) -> Iterator[Finding]:
    """Flow control as the producer counts it; everything is settled."""
    producer = next((each.side for each in talk if each.frame.flow_bytes), None)
    early = any(each.frame.dialect is Dialect.UPR for each in talk)
    clock = window = returned = noops = prepares = 0
    sent, refunds, arrivals = [0], [0], [(0, 0)]  # sums behind each message of a side; (sum, time)
    wanted: dict[bytes, int] = {}
    full_since: int | None = None
    counted_ns, gap = 0, False  # when the last counted message was sent; ten silent seconds behind it
    produced_ns = 0
    for each in talk:
        clock += each.pause_ns
        frame, own = each.frame, each.side == producer
        if frame.name == "control" and frame.key == b"connection_buffer_size":
            wanted[frame.opaque] = int(frame.value)
        elif frame.name == "control" and frame.response and frame.opaque in wanted:
            window = wanted[frame.opaque]
        if own:
            gap = gap or clock - max(counted_ns, produced_ns) > 10 * SECOND
            produced_ns = clock
            noops += frame.name == "noop"
            prepares += frame.name == "prepare"
            outstanding = sent[-1] - refunds[len(refunds) - 1 - each.unheard]
            if frame.flow_bytes:
                if window and outstanding >= window and not early:
                    yield "FLC-02", each
                counted_ns, gap = clock, False
            sent.append(sent[-1] + frame.flow_bytes)
            arrivals.append((sent[-1], clock))
        else:
            if frame.name == "buffer_ack":
                amount, arrived = frame.fields["buffer_bytes"], sent[len(sent) - 1 - each.unheard]
                assert amount >= 0
                if not window:
                    yield "FLC-06", each
                if not amount:
                    yield "FLC-07", each
                if returned + amount > arrived:
                    yield "FLC-01", each
                    if returned + amount - arrived == 24 * noops > 0:
                        yield "FLC-08", each
                noops = 0
                oldest = next((time for total, time in arrivals if total > returned), clock)
                if amount and clock - oldest > 10 * SECOND:
                    yield "FLC-09", each
                returned = min(returned + amount, sent[-1])
            refunds.append(returned)
        full = window and sent[-1] - returned >= window
        if full_since is not None and clock - full_since > 60 * SECOND:
            yield "FLC-03", each
            full_since = clock
        full_since = (full_since if full_since is not None else clock) if full else None
    left = sent[-1] - returned
    if window and gap and left >= 0.2 * window:
        yield "FLC-04", talk.emissions[-1]
    elif window and gap and left and left == 2 * prepares:
        yield "FLC-05", talk.emissions[-1]
