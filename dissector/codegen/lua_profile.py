"""A Wireshark profile for the plugin: colors for what matters, and buttons for the filters that are asked for most.

Knows Wireshark's file formats and the plugin's field names; must not know where profiles are kept.
"""

from __future__ import annotations

#: Name, filter, background and foreground as Wireshark's 16-bit colors; the first match wins.
COLORS: tuple[tuple[str, str, str, str], ...] = (
    ("UPR violation", "upr && _ws.expert.severity >= 0x800000", "[64250,55000,55000]", "[30000,0,0]"),
    ("UPR warning", "upr && _ws.expert.severity >= 0x600000", "[65535,62000,50000]", "[20000,12000,0]"),
    ("UPR skipped bytes", "upr.unsynced", "[58000,58000,58000]", "[20000,20000,20000]"),
    ("UPR refusal", "upr.status > 0", "[65535,62000,50000]", "[0,0,0]"),
    (
        "UPR stream begins or ends",
        'upr.name in {"stream_request", "stream_end", "close_stream"}',
        "[55000,62000,65535]",
        "[0,0,0]",
    ),
    ("UPR flow control", 'upr.name in {"buffer_ack", "control"}', "[60000,65535,60000]", "[0,0,0]"),
    ("UPR", "upr", "[63000,63000,65535]", "[0,0,0]"),
)
#: Label and filter.
BUTTONS: tuple[tuple[str, str], ...] = (
    ("Violations", "upr && _ws.expert.severity >= 0x600000"),
    ("Streams", 'upr.name in {"stream_request", "stream_end", "close_stream", "add_stream"}'),
    ("Refusals", "upr.status > 0"),
    ("Slow answers", "upr.response_time > 100"),
    ("Skipped", "upr.unsynced"),
)


def render() -> dict[str, str]:
    """Return the profile's files by name."""
    colors = "".join(f"@{name}@{rule}@{back}{front}\n" for name, rule, back, front in COLORS)
    buttons = "".join(f'"TRUE","{label}","{_quoted(rule)}",""\n' for label, rule in BUTTONS)
    return {
        "colorfilters": f"# Written by uprscope lua --profile\n{colors}",
        "dfilter_buttons": f"# Written by uprscope lua --profile\n{buttons}",
        "preferences": "# Written by uprscope lua --profile\nupr.checks: TRUE\n",
    }


def _quoted(rule: str) -> str:
    """Return a filter as a field of Wireshark's tables, where quotes are written in hexadecimal."""
    return rule.replace('"', "\\x22")
