"""Capture files to columnar packet blocks: pcap and pcapng, plain or compressed, from files or pipes.

Knows containers and compression; packets are bytes here. Start at ``CaptureReader``.
"""

from dissector.capture.discovery import Expansion, expand, find_captures, order_by_time
from dissector.capture.input import Input
from dissector.capture.packet_block import SLACK_BYTES, Damage, DamageReason, PacketBlock
from dissector.capture.reader import CaptureReader, open_capture

__all__ = [
    "SLACK_BYTES",
    "CaptureReader",
    "Damage",
    "DamageReason",
    "Expansion",
    "Input",
    "PacketBlock",
    "expand",
    "find_captures",
    "open_capture",
    "order_by_time",
]
