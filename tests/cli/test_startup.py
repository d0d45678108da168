"""What a plain capture does not need is not loaded: it would take longer than the capture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import CAPTURES
from tests.support.tcp_by_hand import CLIENT, Conversation, Ends, noop, pcap

_READ = """
import sys
from dissector.capture import expand
from dissector.frames.reader import FrameReader
print(sum(batch.num_rows for batch in FrameReader(expand([sys.argv[1]]))))
print(sorted({"dpkt", "pyarrow.compute", "numpy.ma"} & set(sys.modules)))
"""

_CHECK = """
import sys
from uprscope.cli import main
status = main(["check", sys.argv[1], "--format", "json", "-o", sys.argv[2]])
print(status, sorted({"dpkt", "pyarrow.compute", "numpy.ma"} & set(sys.modules)))
"""


def test_what_a_plain_capture_loads(tmp_path: Path) -> None:
    conversation = Conversation(Ends())
    conversation.open()
    conversation.send(CLIENT, noop(1), noop(2))
    capture = tmp_path / "plain.pcap"
    capture.write_bytes(pcap(conversation.packets))
    done = subprocess.run([sys.executable, "-c", _READ, str(capture)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2", "[]"]


def test_what_a_check_loads(tmp_path: Path) -> None:
    capture = CAPTURES / "clean" / "basic.pcapng"
    words = [sys.executable, "-c", _CHECK, str(capture), str(tmp_path / "findings.json")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "0 []\n"
