"""The Wireshark plugin against Wireshark's own couchbase dissector: CPU time in one run, as ratios.

``python bench/lua.py`` makes 300,000 mutations on 20 connections, checks that both read all of them, and then times
tshark with each, turn by turn; the least of the turns counts, less what tshark takes to start. Results are ratios:
seconds mean nothing on a machine that has other things to do. The ratio of the medians stands beside: where the two
differ much, the machine was too busy to say. ``--tshark`` names another one, or a version that the tests have laid out
(``python -m tests.support.wiresharks``), such as 4.6.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import Cost, run

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "lua" / "upr.lua"
LUA = ("-X", f"lua_script:{PLUGIN}")
#: Name, arguments, whether the plugin is in use, and the most that the ratio should be.
CONTENDERS: tuple[tuple[str, tuple[str, ...], str, float], ...] = (
    ("plain, built-in", (), "plain", 1.0),
    ("plain, checks off", (*LUA, "-o", "upr.checks:FALSE"), "plain", 2.5),
    ("plain, checks on", LUA, "plain", 2.5),
    (
        "-T fields, built-in",
        ("-T", "fields", "-e", "frame.number", "-e", "couchbase.extras.by_seqno", "-e", "couchbase.opcode"),
        "fields",
        1.0,
    ),
    (
        "-T fields, plugin",
        (*LUA, "-T", "fields", "-e", "frame.number", "-e", "upr.by_seqno", "-e", "upr.opcode"),
        "fields",
        4.0,
    ),
)
#: How much memory it may take, against the built-in dissector.
MEMORY = 2.0


def command_of(chosen: str) -> list[str]:
    """Return how to run a tshark without anybody's settings or plugins; a laid-out one is named by its version.

    Since 4.2, Wireshark reads no Lua script for root: then it runs as nobody.
    """
    sys.path.insert(0, str(ROOT))
    from tests.support.wiresharks import NOBODY, Wireshark, all_of_them  # noqa: PLC0415 - the tests' own

    found = all_of_them().get(chosen) or Wireshark(chosen, (chosen,))
    settings = {"HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", **found.environment}
    other_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    return ["env", *(f"{name}={value}" for name, value in settings.items()), *other_user, *found.command]


def cost_of(tshark: list[str], *arguments: str) -> Cost:
    """Run tshark, and return what it took."""
    done = run([*tshark, *arguments], keep_output=False)
    if done.status:
        raise SystemExit(f"tshark {' '.join(arguments)}: exit status {done.status}: {done.complaint}")
    return done.cost


def count(tshark: list[str], capture: Path, field: str, *arguments: str) -> int:
    """Return how many mutations a dissector finds."""
    command = [*tshark, *arguments, "-r", str(capture), "-T", "fields", "-e", field]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(line.split(",").count("0x57") for line in text.splitlines())


def main() -> int:
    """Make the capture, check the results, take turns, print ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=300_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tshark", metavar="PATH", default="tshark", help="a program, or one of the tests': 4.4, 4.6")
    args = parser.parse_args()
    tshark = command_of(args.tshark)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        capture = Path(folder) / "bulk.pcapng"
        made = ["-m", "uprscope", "generate", "bulk", "--frames", str(args.frames), "--connections", "20"]
        subprocess.run([sys.executable, *made, "-o", str(capture)], check=True, cwd=ROOT)
        found = count(tshark, capture, "upr.opcode", *LUA), count(tshark, capture, "couchbase.opcode")
        if found[0] != found[1]:
            print(f"the plugin finds {found[0]} mutations, the built-in dissector {found[1]}", file=sys.stderr)
            return 1
        start = min(cost_of(tshark, "-v").cpu_s for _ in range(3))
        taken: dict[str, list[Cost]] = {name: [] for name, *_ in CONTENDERS}
        for _ in range(args.turns):
            for name, arguments, _kind, _goal in CONTENDERS:
                taken[name].append(cost_of(tshark, *arguments, "-r", str(capture)))
    version = subprocess.run([*tshark, "--version"], capture_output=True, text=True, check=True).stdout.partition("\n")[
        0
    ]
    print(f"{version} {found[0]} mutations, {args.turns} turns")
    base, base_memory = [1.0], 1.0
    for name, _arguments, _kind, goal in CONTENDERS:
        times = [cost.cpu_s - start for cost in taken[name]]
        memory = max(cost.peak_rss_mb for cost in taken[name])
        if goal == 1.0:
            base, base_memory = times, memory
        ratio = min(times) / min(base)
        middle = statistics.median(times) / statistics.median(base)
        verdict = "ok" if ratio <= goal and memory <= MEMORY * base_memory else "missed"
        print(
            f"{name:24} {ratio:5.2f}x  goal {goal:.1f}x  {verdict:6}  medians {middle:5.2f}x  peak {memory:5,.0f} MB,"
            f" {memory / base_memory:.2f}x"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
