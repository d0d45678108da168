"""uprscope as a library: a capture to Arrow record batches in memory. Prints what was found as JSON.

    python bench/rows.py capture.pcap [--all] [--tally] [--reader dissector.frames.reader:FrameReader]

Without ``--tally`` it iterates over all batches and counts their rows, which is what is timed. Without ``--all`` it
asks for the columns that most questions are about, packet, time, header, seqnos, snapshot, key; with it for every
column of the schema, the hash of every value among them.
"""

from __future__ import annotations

import argparse
import importlib
import json
from typing import Any

import pyarrow as pa
from contenders import MAIN, READER
from truth import MUTATION, Tally, client

from dissector.capture import expand
from dissector.options import ReadOptions

ENDS = ("src", "sport", "dst", "dport")  #: what a tally tells connections apart by


def add(tally: Tally, batch: pa.RecordBatch) -> None:
    """Add a batch to the tally."""
    import pyarrow.compute as pc  # noqa: PLC0415 - takes a while to load, and what is timed does not need it

    for count in pc.value_counts(batch["opcode"]).to_pylist():
        tally.by_opcode[count["values"]] += count["counts"]
    ends = [*ENDS]
    groups = pa.Table.from_batches([batch.select(ends)]).group_by(ends)
    for row in groups.aggregate([([], "count_all")]).to_pylist():
        tally.by_connection[client(*(row[name] for name in ends))] += row["count_all"]
    mutations = batch.filter(pc.equal(batch["opcode"], MUTATION))
    tally.add(*(mutations[name].to_pylist() for name in ("key", "by_seqno", "vbucket")))


def main() -> None:
    """Read a capture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture")
    parser.add_argument("--all", action="store_true", help="every column")
    parser.add_argument("--tally", action="store_true", help="add everything up, to be compared with the truth")
    parser.add_argument("--reader", default=READER, metavar="MODULE:CLASS")
    args = parser.parse_args()
    module, _, name = args.reader.partition(":")
    columns = None if args.all else MAIN.union(ENDS) if args.tally else MAIN
    reader: Any = getattr(importlib.import_module(module), name)(expand([args.capture]), ReadOptions(columns=columns))
    if args.tally:
        tally = Tally()
        for batch in reader:
            add(tally, batch)
        print(json.dumps(tally.truth()))
    else:
        print(json.dumps({"frames": sum(batch.num_rows for batch in reader)}))


if __name__ == "__main__":
    main()
