"""Captures to frames: containers, TCP streams, and the UPR/DCP protocol as data.

The stages in the order that bytes pass them; each package imports only those above it::

    spec        the protocol as data: messages, layouts, names, defects
    capture     files to packets: pcap and pcapng, plain or compressed
    link        packets to TCP segments: link layers, IP, tunnels, fragments
    codec       the bytes of a frame to a message and back
    tcp         TCP segments to the bytes of frames: connections, reassembly, framing
    frames      frames to rows: record batches of one schema, and their writers
    filters     rows chosen by --filter, --follow and --vbucket
    summary     rows to connections and streams
    display     rows as text: list, tree, table
    explain, generate, codegen      the spec as answers, as traffic, and as plugin and documents

``dissector.frames.reader.FrameReader`` runs them all. Rules over several frames, Spark and plots are in ``analysis``,
which imports this package and never the reverse.
"""

__version__ = "0.1.0"
