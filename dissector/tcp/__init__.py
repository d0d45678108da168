"""TCP segments to the bytes of frames: connections, reassembly, framing; one segment at a time, or a block at once."""
