"""Capture files to columnar packet blocks: pcap and pcapng, plain or compressed, from files or pipes.

Knows containers and compression; must not know link layers, TCP or UPR. Start at ``CaptureReader``.
"""

from dissector.capture.block import SLACK_BYTES, Damage, DamageReason, PacketBlock
from dissector.capture.inputs import Expansion, expand, order_by_time, survey
from dissector.capture.reader import DEFAULT_CHUNK_BYTES, CaptureReader, open_capture
from dissector.capture.source import Input

__all__ = [
    "DEFAULT_CHUNK_BYTES",
    "SLACK_BYTES",
    "CaptureReader",
    "Damage",
    "DamageReason",
    "Expansion",
    "Input",
    "PacketBlock",
    "expand",
    "open_capture",
    "order_by_time",
    "survey",
]
