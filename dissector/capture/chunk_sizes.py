"""How many bytes of a capture are read at once: one size for each job, with the measurement or the reason for it.

The packets, frames and findings are the same for every size; only time and memory differ.
"""

MIN_CHUNK_BYTES = 64
"""The smallest size that a reader accepts: any record header fits."""

FIRST_CHUNK_BYTES = 128 << 10
"""The first chunk of every file; the next ones double up to the size of the job. What is set up at the start of a
capture is then out of the way before the large chunks come."""

PEEK_CHUNK_BYTES = 1 << 16
"""A look at a file's first packets: whether it is a capture, and when it begins."""

COPY_CHUNK_BYTES = 1 << 20
"""Copying a file block by block gains nothing from more."""

SPLIT_CHUNK_BYTES = 1 << 20
"""The search for record boundaries: what lies after the range is read for nothing."""

PACKET_CHUNK_BYTES = 8 << 20
"""Packets and TCP segments. Measured: larger chunks fall out of the processor's cache in every later step."""

FRAME_CHUNK_BYTES = 12 << 20
"""Frames. Measured: what a chunk costs beside its bytes is little from here on, and 256 MB of memory are enough for
the rest."""

RULE_CHUNK_BYTES = 16 << 20
"""Frames for rules, which cost the same for few rows as for many, up to a point. Measured: more is hardly faster, and
takes more memory."""
