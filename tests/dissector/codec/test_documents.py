"""Documents that are looked into while rows are made: both paths find the same, and only on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dissector.capture import expand
from dissector.options import ReadOptions
from tests.support.tcp_by_hand import READERS, ReaderClass

BROKEN = {
    "FRM-10-snappy.pcapng": "snappy-invalid",
    "FRM-10-xattr.pcapng": "xattr-invalid",
    "FRM-10-xattr-pair.pcapng": "xattr-invalid",
    "FRM-10-json.pcapng": "json-invalid",
}


def rows_of(path: Path, reader_class: ReaderClass, *, inspect: bool) -> list[dict[str, Any]]:
    reader = reader_class(expand([str(path)]), ReadOptions(inspect=inspect))
    return [row for batch in reader for row in batch.to_pylist()]


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("reader_class", READERS)
def test_a_document_that_is_not_what_it_says(name: str, reader_class: ReaderClass, repo_root: Path) -> None:
    path = repo_root / "captures" / "broken" / name
    found = [row["defects"] for row in rows_of(path, reader_class, inspect=True) if row["defects"]]
    assert found == [[BROKEN[name]]]
    assert not any(row["defects"] for row in rows_of(path, reader_class, inspect=False))


@pytest.mark.parametrize(
    "name", ["clean/modern.pcapng", "clean/kept-datatype.pcapng", "clean/ext-metadata.pcapng", "22_novalue_v705.pcap"]
)
def test_both_paths_agree(name: str, repo_root: Path) -> None:
    path = repo_root / "captures" / name
    first, second = (rows_of(path, reader_class, inspect=True) for reader_class in READERS)
    assert first == second
    assert any(row["datatype"] for row in first)
