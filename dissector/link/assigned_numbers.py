"""Assigned numbers: link types, EtherTypes, IP protocols and tunnel ports that lead to a TCP segment.

Both decoders take the numbers from here, so that they unwrap the same protocols. Layouts are in the decoders.
"""

# https://www.tcpdump.org/linktypes.html
LINKTYPE_NULL = 0
LINKTYPE_ETHERNET = 1
LINKTYPE_PPP = 9
LINKTYPE_PPP_HDLC = 50
LINKTYPE_C_HDLC = 104
LINKTYPE_LOOP = 108
LINKTYPE_LINUX_SLL = 113
LINKTYPE_IPV4 = 228
LINKTYPE_IPV6 = 229
LINKTYPE_NFLOG = 239
LINKTYPE_PKTAP = 258
LINKTYPE_LINUX_SLL2 = 276
# 101 is the number in files; 12 and 14 are DLT_RAW of some systems, written by tools that did not map it.
RAW_LINKTYPES = frozenset({12, 14, 101})
# Names of those that are not read, for people.
UNREAD_LINKTYPES = {
    6: "Token Ring",
    10: "FDDI",
    105: "802.11",
    107: "Frame Relay",
    119: "802.11 with Prism header",
    127: "802.11 with radiotap header",
    220: "USB",
    252: "exported PDUs",
    253: "netlink",
}

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPE_BRIDGED_ETHERNET = 0x6558
ETHERTYPE_PPPOE_SESSION = 0x8864
ETHERTYPE_LLC = 0x8870  # of frames too large for a length
ETHERTYPE_MACSEC = 0x88E5
ETHERTYPE_ERSPAN = 0x88BE  # types I and II
ETHERTYPE_ERSPAN_III = 0x22EB
VLAN_ETHERTYPES = frozenset({0x8100, 0x88A8, 0x9100})
# Bytes of a tag after its own EtherType; the last two are the next EtherType.
# Cisco's VN-Tag and metadata (security groups), and the E-Tag of IEEE 802.1BR.
TAG_SIZES = dict.fromkeys(VLAN_ETHERTYPES, 4) | {0x8926: 6, 0x8909: 8, 0x893F: 8}
MPLS_ETHERTYPES = frozenset({0x8847, 0x8848})
# What an EtherType other than IP's may still wrap an IP packet in.
WRAPPING_ETHERTYPES = (
    frozenset(TAG_SIZES)
    | MPLS_ETHERTYPES
    | {ETHERTYPE_BRIDGED_ETHERNET, ETHERTYPE_PPPOE_SESSION, ETHERTYPE_LLC, ETHERTYPE_MACSEC}
)
# IEEE 802.3: a number up to this one is no EtherType, but the length of what follows, which begins with LLC.
MAX_802_3_LENGTH = 1500

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

# 8472 is Linux's own default, from before there was an assigned one: overlays of containers use it.
VXLAN_PORTS = frozenset({4789, 8472})
PORT_GENEVE = 6081
PORT_GRE = 4754
PORT_GRE_DTLS = 4755
TUNNEL_PORTS = VXLAN_PORTS | {PORT_GENEVE, PORT_GRE, PORT_GRE_DTLS}

# Bounds on what one packet may make a decoder do. Real traffic stays far below each of them.
MAX_DEPTH = 8  # IP or Ethernet headers inside one another
MAX_TAGS = 4
MAX_MPLS_LABELS = 16
MAX_EXTENSION_HEADERS = 16
MAX_NFLOG_ATTRIBUTES = 64
