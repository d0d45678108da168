"""``dissect -w``: the packets of the chosen frames as a capture, as in tshark; ``uprscope slice`` has more choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.errors import UsageError

if TYPE_CHECKING:
    import argparse
    import contextlib
    from collections.abc import Sequence

    import pyarrow as pa

    from dissector.array_types import Longs
    from dissector.capture import Input
    from dissector.options import ReadOptions
    from dissector.tcp.frame_table import FrameTable


def refuse_other_output(args: argparse.Namespace) -> None:
    """Raise UsageError if packets are to be written, and something else as well."""
    others = (
        ("-o", args.output),
        ("--format", args.format),
        ("--fields", args.fields),
        ("-V", args.tree),
        ("-x", args.hex),
        ("--growing", args.growing),
    )
    for name, given in others:
        if given:
            raise UsageError(f"-w writes packets and shows none: it does not go with {name}")


def inputs_of(args: argparse.Namespace, stack: contextlib.ExitStack) -> list[Input]:
    """Return the captures, to be read twice until ``stack`` closes, in the order in which their packets are written."""
    from dissector.capture import order_by_time  # noqa: PLC0415
    from uprscope.cli.annotate import refuse_input  # noqa: PLC0415
    from uprscope.cli.check import found  # noqa: PLC0415

    inputs = found(args.captures, stack, twice=True)
    if args.write != "-":
        refuse_input(args.write, inputs, "-w", "read")
    return inputs if args.separate else order_by_time(inputs)


class PacketOutput:
    """Takes chosen frames of every batch; their packets are written at the end, when the captures are read again."""

    def __init__(self, name: str, inputs: Sequence[Input], options: ReadOptions) -> None:
        from analysis.slice.chosen_frames import ChosenFrames  # noqa: PLC0415 - brings numpy and pyarrow along
        from uprscope.cli.slice import capture_form  # noqa: PLC0415

        self._name, self._inputs, self._options = name, inputs, options
        self._form = capture_form(name)
        self._frames = ChosenFrames(inputs)
        self.frames = 0  #: chosen so far

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns of frames that are needed."""
        from analysis.slice.chosen_frames import COLUMNS  # noqa: PLC0415 - as above

        return COLUMNS

    def write(self, batch: pa.RecordBatch, table: FrameTable | None, indexes: Longs) -> None:
        """Note the chosen frames."""
        del table
        self._frames.note(batch, indexes)

    def close(self) -> None:
        """Write the packets; raises UsageError if there are none."""
        from analysis.slice.slicer import write_packets  # noqa: PLC0415
        from dissector.frames.writers import destination  # noqa: PLC0415
        from uprscope.cli.check import watching  # noqa: PLC0415
        from uprscope.cli.slice import tell  # noqa: PLC0415

        if not self.frames:
            raise UsageError("-w: no frame is chosen: there is nothing to write")
        choice = self._frames.choice("the frames that were asked for, and the set-up")
        with watching() as watch, destination(self._name) as stream:
            made, _ = write_packets(self._inputs, self._options, choice, stream, form=self._form, watch=watch)
        tell(self._name, made)
