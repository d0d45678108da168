"""From captured packets to TCP segments: link layers, IP, tunnels and fragments.

A block of packets goes in, a block of TCP segments comes out, both as columns; a packet without a segment is counted
under a reason. ``reference`` decodes one packet at a time with dpkt's header layouts and is the oracle; ``columnar``
gives the same result for the usual packets at a hundredth of the cost. Streams are the business of ``tcp``.
"""
