"""``uprscope plot`` on the command line: files, formats, statuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analysis import plots
from dissector.extras import install_command
from tests.support import drawn_captures
from uprscope import cli

BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def plot(*words: object) -> int:
    return cli.main(["plot", *map(str, words)])


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return drawn_captures.plain(tmp_path / "a.pcap", (1, 4, 3, 5))


@pytest.mark.parametrize("form", list(BEGINNINGS))
def test_formats(tmp_path: Path, capture: Path, form: str) -> None:
    assert plot(capture, "rates", "-o", tmp_path / f"out.{form.upper()}") == 0
    assert (tmp_path / f"out.{form.upper()}").read_bytes().startswith(BEGINNINGS[form])


def test_a_format_by_option(tmp_path: Path, capture: Path) -> None:
    assert plot(capture, "rates", "-o", tmp_path / "out", "--format", "svg") == 0
    assert (tmp_path / "out").read_bytes().startswith(BEGINNINGS["svg"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gaps", "-o", "{tmp}/x.png"], "gaps: nothing to draw: no bytes are missing between frames"),
        (["seqno", "-o", "{tmp}/x.png", "--vbucket", "5"], "no vbucket 5 (vbuckets are "),
        (["seqno", "-o", "{tmp}/x.png", "--connection", "2"], "no connection 2 (the only connection is 1)"),
        (["seqno", "-o", "{tmp}/x.png", "--connection", "nix"], "no connection is called 'nix' (known: 1 "),
        (["seqno", "-o", "{tmp}/x.gif"], "does not say which format"),
        (["seqno", "-o", "{tmp}/x"], "does not say which format"),
        (["seqno", "-o", "-"], "add --format png, svg or pdf"),
        (["nonsense", "-o", "{tmp}/x.png"], "invalid choice"),
        (["seqno"], "required: -o"),
        (["seqno", "-o", "{tmp}/x.png", "--frames", "1-2"], "--frames and --finding are for ladder"),
        (["ladder", "-o", "{tmp}/x.png", "--frames", "9-2"], "the first number is not above the second"),
        (["ladder", "-o", "{tmp}/x.png", "--frames", "x"], "give two numbers of frames"),
        (["ladder", "-o", "{tmp}/x.png", "--frames", "900-901"], "there are no such frames"),
        (["ladder", "-o", "{tmp}/x.png", "--finding", "SEQ-01-00000000"], "not found (there is SEQ-01-"),
        (["ladder", "-o", "{tmp}/x.png", "--finding", "XYZ"], "no rule 'XYZ'"),
        (["flow", "-o", "{tmp}/x.png", "--vbucket", "7"], "--vbucket does not go with flow"),
        (["ladder", "-o", "{tmp}/x.png", "--time", "0-1"], "--time does not go with ladder"),
        (["seqno", "-o", "{tmp}/x.png", "--time", "3-1"], "give two numbers of seconds"),
        (["seqno", "-o", "{tmp}/x.png", "--time", "inf-nan"], "give two numbers of seconds"),
        (["seqno", "-o", "{tmp}/no/x.png"], "cannot be written"),
    ],
)
def test_mistakes(
    tmp_path: Path, capture: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert plot(capture, *(word.replace("{tmp}", str(tmp_path)) for word in words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pcap"]


def test_every_kind_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert plot("--help") == 0
    shown = capsys.readouterr().out
    for name in plots.NAMES:
        assert f"  {name}" in shown


def test_rows_of_frames_give_the_same_picture(tmp_path: Path, capture: Path) -> None:
    assert cli.main(["dissect", str(capture), "--format", "parquet", "-o", str(tmp_path / "frames.parquet")]) == 0
    (tmp_path / "other").mkdir()
    for kind in ("seqno", "latency"):
        assert plot(capture, kind, "-o", tmp_path / f"{kind}.svg") == 0
        (tmp_path / "frames.parquet").rename(tmp_path / "other" / "a.pcap")  # the name is in the picture
        assert plot(tmp_path / "other" / "a.pcap", kind, "-o", tmp_path / f"{kind}-rows.svg") == 0
        (tmp_path / "other" / "a.pcap").rename(tmp_path / "frames.parquet")
        assert (tmp_path / f"{kind}.svg").read_bytes() == (tmp_path / f"{kind}-rows.svg").read_bytes()


def test_rows_that_lack_a_column(tmp_path: Path, capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "few.parquet"
    assert cli.main(["dissect", str(capture), "--format", "parquet", "--fields", "frame,name", "-o", str(rows)]) == 0
    assert plot(rows, "rates", "-o", tmp_path / "x.png") == 2
    assert "has no column" in capsys.readouterr().err
    rows.write_bytes(rows.read_bytes()[:200])
    assert plot(rows, "rates", "-o", tmp_path / "x.png") == 2
    assert "cannot be read" in capsys.readouterr().err
    assert plot(rows, capture, "rates", "-o", tmp_path / "x.png") == 2
    assert "does not go together" in capsys.readouterr().err


def test_a_ladder_from_a_pipe(capture: Path) -> None:
    """It is read twice: the finding has to be known before the frames around it are."""
    check = subprocess.run(
        [sys.executable, "-m", "uprscope", "check", str(capture), "--format", "ndjson"],
        capture_output=True,
        text=True,
        check=False,
    )
    finding = check.stdout.partition('"id":"')[2].partition('"')[0]
    words = ["plot", "-", "ladder", "--finding", finding, "-o", "-", "--format", "svg"]
    done = subprocess.run(
        [sys.executable, "-m", "uprscope", *words], input=capture.read_bytes(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"<?xml")


def test_a_ladder_of_a_connection_begins_with_its_frames(tmp_path: Path, repo_root: Path) -> None:
    """Connection 4 of the recording has three frames, 196 to 198."""
    capture, picture = repo_root / "captures/04_rollback_errors.pcap", tmp_path / "x.svg"
    assert plot(capture, "ladder", "--connection", "4", "-o", picture) == 0
    assert "frames 196 to 198" in picture.read_text()


def test_damage_is_told(tmp_path: Path, capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture.write_bytes(capture.read_bytes()[:-30])
    assert plot(capture, "rates", "-o", tmp_path / "x.png") == 3
    assert (tmp_path / "x.png").exists()
    assert "the file ends" in capsys.readouterr().err


def test_without_matplotlib(tmp_path: Path, capture: Path) -> None:
    for command in (["plot", str(capture), "rates", "-o", "x.svg"], ["report", str(capture), "-o", "x.html"]):
        words = [*command[:-1], str(tmp_path / command[-1])]
        program = (
            f"import sys; sys.modules['matplotlib'] = None; from uprscope.cli import main; sys.exit(main({words!r}))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert (
            done.stderr == f"uprscope: pictures need matplotlib, which is not here: {install_command('matplotlib')}\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["a.pcap"]


def test_matplotlib_is_not_loaded_before_it_is_needed() -> None:
    program = (
        "import sys; from uprscope.cli import main; main(['plot', '--help']); import analysis.plots.figure_set; "
        "import analysis.plots.seqno; print('matplotlib' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"
