"""What the numbers of columns are called: names of the protocol from its spec, and the context's own."""

from __future__ import annotations

from datetime import UTC, datetime

from analysis.context.codes import Pairing, UnknownReason
from analysis.context.defects import NUMBER as DEFECT_NUMBER
from analysis.context.feature_uses import FEATURE_USES
from analysis.context.flow_control.rows import DRIFTS
from analysis.context.kinds import MessageKind
from analysis.context.odd_fields import FLAG_FIELDS, NUMBER_FIELDS
from analysis.context.requests.rollback_point import RollbackVerdict
from analysis.context.requests.state import AGREEMENTS, bit
from analysis.context.schema.model import Vocabulary, flags, members, named
from analysis.context.settled_dialects import DCP, NOT_SETTLED, UPR
from dissector.frames.schema import NO_END
from dissector.spec import enums, registry
from dissector.spec.model import Dialect
from dissector.spec.registry import HEADER_SIZE

_SECOND_NS = 10**9


def _date(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // _SECOND_NS, UTC).date().isoformat()


def _release(number: int) -> str:
    return f"{number // 100}.{number % 100}"


NUMBER = Vocabulary()  #: nothing but a number
OPCODE = Vocabulary({each.opcode: each.name for each in registry.MESSAGES if each.dialect is Dialect.DCP})
MAGIC = Vocabulary({magic.value: magic.name for magic in enums.MAGICS})
STATUS = named(enums.STATUSES)
END_REASON = named(enums.END_REASONS)
VBUCKET_STATE = named(enums.VBUCKET_STATES)
OSO_MARKER = named(enums.OSO_MARKERS)
STREAM_FLAGS = flags(enums.STREAM_FLAGS)
MARKER_FLAGS = flags(enums.MARKER_FLAGS)
AGREED = Vocabulary(flags={bit(name): name for name in AGREEMENTS})
KIND, UNKNOWN, PAIRING = members(MessageKind), members(UnknownReason), members(Pairing)
ROLLBACK_VERDICT = members(RollbackVerdict)
DEFECT = Vocabulary({0: "none", **{number: name for name, number in DEFECT_NUMBER.items()}})
SETTLED = Vocabulary({NOT_SETTLED: "not_settled", UPR: "upr", DCP: "dcp"})
NUMBER_FIELD, FLAG_FIELD = (
    Vocabulary({0: "none", **{number: f"{each.column} in {each.dialect}" for number, each in enumerate(fields, 1)}})
    for fields in (NUMBER_FIELDS, FLAG_FIELDS)
)
FEATURE_USE = Vocabulary({0: "none", **{number: use.name for number, use in enumerate(FEATURE_USES, 1)}})
DRIFT = Vocabulary({0: "none", **{number: name for number, (name, _) in enumerate(DRIFTS, 1)}})
DIFFERENCE = Vocabulary({0: "none"})
SINCE = Vocabulary(unit=_release)
TIME_NS = Vocabulary(unit=_date)
CAS = Vocabulary({-1: "all_ones"}, unit=_date)  #: as a hybrid clock
DURATION_NS = Vocabulary(unit=lambda number: f"{number // _SECOND_NS} s")
DURATION_S = Vocabulary(unit=lambda number: f"{number} s")
END_SEQNO = Vocabulary(unit=lambda number: "no_end" if number == NO_END else str(number))
BYTES = Vocabulary(unit=lambda number: "header_size" if number == HEADER_SIZE else str(number))
