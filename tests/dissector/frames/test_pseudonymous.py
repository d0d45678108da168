"""Frames that need no decoder become the same bytes as through it."""

from __future__ import annotations

import pytest

from dissector.capture import Input
from dissector.frames import pseudonymous
from dissector.frames.reader import FrameReader
from dissector.options import ReadOptions
from dissector.pseudonyms import Pseudonyms
from dissector.pseudonyms.frames import replaced
from dissector.pseudonyms.permutation import secret_of
from tests.support.paths import ROOT

#: Snappy, xattrs, collections, markers of all versions, extended metadata, the draft, and what is malformed in them.
CAPTURES = [
    "11_ext_metadata.pcap",
    "04_rollback_errors.pcap",
    *(f"clean/{name}.pcapng" for name in ("collections", "with-meta", "draft", "deletion-values")),
    *(f"broken/{name}.pcapng" for name in ("FRM-10-json", "FRM-10-xattr-pair", "FRM-11-version", "FRM-09-canonical")),
]


@pytest.mark.parametrize("level", ["documents", "names"])
def test_both_ways_give_the_same(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    known = pseudonymous._sound

    def both(pseudonyms: Pseudonyms, dialect: object, data: bytes, *, collections: bool) -> bytes | None:
        nonlocal compared
        made = known(pseudonyms, dialect, data, collections=collections)  # type: ignore[arg-type]
        if made is not None:
            compared += 1
            assert made == replaced(pseudonyms, dialect, data, collections=collections)  # type: ignore[arg-type]
        return made

    monkeypatch.setattr(pseudonymous, "_sound", both)
    pseudonyms = Pseudonyms(secret_of(b"a secret for tests"), names=level == "names")
    frames = 0
    for capture in CAPTURES:
        options = ReadOptions(pseudonyms=pseudonyms, columns=frozenset(("frame",)))
        frames += sum(batch.num_rows for batch in FrameReader([Input.of(str(ROOT / "captures" / capture))], options))
    assert frames / 3 < compared < frames
