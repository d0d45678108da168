"""From captured packets to TCP segments: link layers, IP, tunnels and fragments.

A block of packets goes in, a block of TCP segments comes out, both as columns; whatever does not become a segment is
counted under a reason. ``reference`` decodes one packet at a time with dpkt's header layouts and is the oracle;
``columnar`` gives the same result for the usual packets at a hundredth of the cost. Nothing here knows how TCP segments
become streams, nor what a UPR message is.
"""
