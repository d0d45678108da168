"""Assigned numbers: link types, EtherTypes, IP protocols and tunnel ports that lead to a TCP segment.

Both decoders take the numbers from here, so that they unwrap the same protocols. Layouts are in the decoders.
"""

# https://www.tcpdump.org/linktypes.html
LINKTYPE_NULL = 0
LINKTYPE_ETHERNET = 1
LINKTYPE_PPP = 9
LINKTYPE_PPP_HDLC = 50
LINKTYPE_LOOP = 108
LINKTYPE_LINUX_SLL = 113
LINKTYPE_IPV4 = 228
LINKTYPE_IPV6 = 229
LINKTYPE_LINUX_SLL2 = 276
# 101 is the number in files; 12 and 14 are DLT_RAW of some systems, written by tools that did not map it.
RAW_LINKTYPES = frozenset({12, 14, 101})

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPE_BRIDGED_ETHERNET = 0x6558
ETHERTYPE_PPPOE_SESSION = 0x8864
VLAN_ETHERTYPES = frozenset({0x8100, 0x88A8, 0x9100})
MPLS_ETHERTYPES = frozenset({0x8847, 0x8848})
# What an EtherType other than IP's may still wrap an IP packet in.
WRAPPING_ETHERTYPES = VLAN_ETHERTYPES | MPLS_ETHERTYPES | {ETHERTYPE_BRIDGED_ETHERNET, ETHERTYPE_PPPOE_SESSION}

PPP_IPV4 = 0x0021
PPP_IPV6 = 0x0057

# AF_INET is 2 everywhere; AF_INET6 is 24 on NetBSD, OpenBSD and Npcap, 28 on FreeBSD, 30 on macOS, 10 on Linux.
LOOPBACK_IPV4_FAMILIES = frozenset({2})
LOOPBACK_IPV6_FAMILIES = frozenset({10, 24, 28, 30})

PROTOCOL_HOP_BY_HOP = 0
PROTOCOL_IPV4 = 4
PROTOCOL_TCP = 6
PROTOCOL_UDP = 17
PROTOCOL_IPV6 = 41
PROTOCOL_ROUTING = 43
PROTOCOL_FRAGMENT = 44
PROTOCOL_GRE = 47
PROTOCOL_ESP = 50
PROTOCOL_AH = 51
PROTOCOL_DESTINATION_OPTIONS = 60
# IPv6 extension headers of the common layout: next header, length in 8-byte units beyond the first.
OPTION_HEADERS = frozenset({PROTOCOL_HOP_BY_HOP, PROTOCOL_ROUTING, PROTOCOL_DESTINATION_OPTIONS})
TUNNEL_PROTOCOLS = frozenset({PROTOCOL_IPV4, PROTOCOL_IPV6, PROTOCOL_GRE})

PORT_VXLAN = 4789
PORT_GENEVE = 6081
TUNNEL_PORTS = frozenset({PORT_VXLAN, PORT_GENEVE})

# Bounds on what one packet may make a decoder do. Real traffic stays far below each of them.
MAX_DEPTH = 8  # IP or Ethernet headers inside one another
MAX_VLAN_TAGS = 4
MAX_MPLS_LABELS = 16
MAX_EXTENSION_HEADERS = 16
