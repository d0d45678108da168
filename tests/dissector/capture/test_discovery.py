"""What arguments stand for, and what is said about those that stand for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dissector.capture import Input, expand, find_captures, order_by_time
from dissector.errors import InputError
from tests.dissector.capture.test_build import BASE_NS, Packet, pcap_file, pcapng_file
from tests.dissector.capture.test_compression import SQUEEZE

CAPTURE = pcap_file([Packet(BASE_NS, b"x", 1)])
not_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


def put(path: Path, data: bytes = CAPTURE) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def names(args: list[str]) -> list[str]:
    return [each.name for each in expand(args)]


def test_files_keep_their_order(tmp_path: Path) -> None:
    args = [put(tmp_path / name) for name in ("c.pcap", "a", "b.txt")]
    assert names(args) == args


def test_a_directory_gives_its_captures_in_order_of_their_names(tmp_path: Path) -> None:
    wanted = [put(tmp_path / name) for name in ("a.pcap", "b/c.pcap", "b/d/e", "z.pcapng")]
    wanted.append(put(tmp_path / "zz.gz", SQUEEZE["gzip"](pcapng_file([]))))
    put(tmp_path / "notes.txt", b"not a capture")
    put(tmp_path / "empty.pcap", b"")
    put(tmp_path / "b" / "archive.tar.gz", SQUEEZE["gzip"](b"some tar file"))
    os.mkfifo(tmp_path / "pipe")
    found = find_captures([str(tmp_path)])
    assert sorted(each.name for each in found.inputs) == sorted(wanted)
    assert found.skipped == 4
    assert names([str(tmp_path)]) == [wanted[0], wanted[3], wanted[4], wanted[1], wanted[2]]


def test_patterns_the_shell_left_alone(tmp_path: Path) -> None:
    one, two, _ = put(tmp_path / "r1.pcap"), put(tmp_path / "r2.pcap"), put(tmp_path / "s.pcap")
    deep = put(tmp_path / "x" / "y" / "r3.pcap")
    assert names([str(tmp_path / "r*.pcap")]) == [one, two]
    assert names([str(tmp_path / "**" / "r?.pcap")]) == [one, two, deep]
    assert names([str(tmp_path / "[rs]1*")]) == [one]


def test_a_file_that_exists_is_no_pattern(tmp_path: Path) -> None:
    literal, _ = put(tmp_path / "r[12].pcap"), put(tmp_path / "r1.pcap")
    assert names([literal]) == [literal]


def test_relative_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "r1.pcap")
    monkeypatch.chdir(tmp_path)
    assert names(["*.pcap"]) == ["r1.pcap"]


def test_duplicates_are_removed_whatever_their_spelling(tmp_path: Path) -> None:
    one, two = put(tmp_path / "a.pcap"), put(tmp_path / "b.pcap")
    (tmp_path / "link").symlink_to(one)
    spelled = f"{tmp_path}/../{tmp_path.name}/a.pcap"
    assert names([two, one, spelled, str(tmp_path / "link"), str(tmp_path), one]) == [two, one]


def test_standard_input_once(tmp_path: Path) -> None:
    one = put(tmp_path / "a.pcap")
    assert [(each.name, each.path) for each in expand(["-", one])] == [("standard input", None), (one, Path(one))]
    with pytest.raises(InputError, match="only once"):
        expand(["-", one, "-"])


def test_a_dash_in_a_directory_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "-")
    monkeypatch.chdir(tmp_path)
    (found,) = expand(["./-"])
    assert found.path == Path("-")


def test_a_pipe_by_name_is_taken_unseen(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (found,) = expand([str(tmp_path / "pipe")])
    assert found.once


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"bad: is empty$"),
        (b"PK\x03\x04 zip", r"bad: not a capture \(pcap or pcapng\): starts with the bytes 50 4b 03 04"),
        (b"hello, world", r"starts with 'hello, w'$"),
        (b"\xd4\xc3", r"not a capture"),
        (b"\n\r\r\n" + bytes(20), r"not a capture"),
        (SQUEEZE["zstd"](b"hello, world"), r"not a capture .*starts with 'hello, w'$"),
        (SQUEEZE["xz"](CAPTURE)[:20], r"nothing can be read: the xz data ends early"),
        (SQUEEZE["lz4"](b""), r"bad: is empty$"),
    ],
)
def test_a_file_that_is_no_capture(tmp_path: Path, content: bytes, message: str) -> None:
    bad = put(tmp_path / "bad", content)
    with pytest.raises(InputError, match=message) as caught:
        expand([bad])
    assert "\n" not in str(caught.value)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.pcap: no such file or directory$"):
        expand([str(tmp_path / "gone.pcap")])
    with pytest.raises(InputError, match=r"\*\.pcap: no file matches this pattern$"):
        expand([str(tmp_path / "*.pcap")])
    with pytest.raises(InputError, match="empty name"):
        expand([""])
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=r"dangling: no such file"):
        expand([str(tmp_path / "dangling")])


def test_a_directory_without_captures(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no captures in this directory$"):
        expand([str(tmp_path)])
    put(tmp_path / "notes.txt", b"text")
    with pytest.raises(InputError, match=r"no captures in this directory \(1 other file\)$"):
        expand([str(tmp_path)])


def test_a_dangling_link_in_a_directory_is_no_capture(tmp_path: Path) -> None:
    good = put(tmp_path / "a.pcap")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = find_captures([str(tmp_path)])
    assert [each.name for each in found.inputs] == [good]
    assert found.skipped == 1


@not_root
def test_what_may_not_be_read(tmp_path: Path) -> None:
    secret = Path(put(tmp_path / "d" / "secret.pcap"))
    secret.chmod(0)
    for arg in (secret, secret.parent):
        with pytest.raises(InputError, match=r"secret\.pcap: permission denied$"):
            expand([str(arg)])


def test_a_refusal_of_the_system_is_an_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Path(put(tmp_path / "d" / "secret.pcap"))

    def refuse(*_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", str(secret))

    monkeypatch.setattr(Path, "open", refuse)
    for arg in (secret, secret.parent):
        with pytest.raises(InputError, match=r"secret\.pcap: permission denied$"):
            expand([str(arg)])


def test_rotated_files_are_ordered_by_their_first_packet(tmp_path: Path) -> None:
    def at(name: str, *seconds: int) -> Input:
        return Input.of(put(tmp_path / name, pcap_file([Packet(s * 10**9, b"x", 1) for s in seconds])))

    late, early, empty, same = at("a", 300, 1), at("b", 100), at("c"), at("d", 300)
    squeezed = Input.of(put(tmp_path / "e", SQUEEZE["zstd"](pcapng_file([Packet(200 * 10**9, b"x", 1)]))))
    stdin = Input.of("-")
    ordered = order_by_time([late, stdin, empty, early, squeezed, same])
    assert ordered == [early, stdin, squeezed, late, same, empty]
    assert order_by_time([]) == []
