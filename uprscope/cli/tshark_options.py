"""tshark's output options, for fingers that know them: -T, -e and -E say what --format and --fields say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.errors import UsageError

if TYPE_CHECKING:
    import argparse

#: tshark's forms, and ours.
_FORMS = {"text": "text", "fields": "text", "tabs": "text", "json": "json", "ek": "ndjson"}
_LISTED = "uprscope explain columns lists them"
_HEADER = {"header=y": True, "header=n": False}


def add_tshark_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    group = parser.add_argument_group("as in tshark", "-r, -n, -Y, -c, -t, -V and -x are above")
    group.add_argument(
        "-T",
        dest="tshark_form",
        choices=[*_FORMS],
        metavar="FORM",
        help="text; fields: the -e of each frame, with tabs; json; ek: the same as --format ndjson",
    )
    group.add_argument(
        "-e",
        dest="tshark_fields",
        action="append",
        default=[],
        metavar="FIELD",
        help="a column of -T fields, json or ek, by our name or Wireshark's: -e upr.opcode -e key",
    )
    group.add_argument(
        "-E", dest="header", choices=[*_HEADER], metavar="header=y", help="-T fields with the names of columns first"
    )
    group.add_argument(
        "-w",
        dest="write",
        metavar="FILE",
        help="write the packets of the frames, and of their set-up, to a .pcapng or .pcap file, and show nothing",
    )


def apply_tshark_options(args: argparse.Namespace) -> None:
    """Put what they say where --format and --fields say it; raises UsageError if both were given."""
    form, fields = args.tshark_form, args.tshark_fields
    if form is None and (fields or args.header):
        raise UsageError(f"{'-e' if fields else '-E'} needs -T fields" + (", json or ek" if fields else ""))
    if form is None:
        return
    if args.format is not None or args.fields is not None:
        raise UsageError(f"-T {form} does not go with {'--fields' if args.fields is not None else '--format'}")
    if (form == "fields") is not bool(fields) and form in ("fields", "text", "tabs"):
        raise UsageError(f"-e does not go with -T {form}" if fields else "-T fields takes names of columns with -e")
    if args.header and form != "fields":
        raise UsageError("-E goes with -T fields")
    args.format = _FORMS[form]
    args.fields = ",".join(fields) if fields else None


def heading_wanted(args: argparse.Namespace) -> bool:
    """Tell whether columns have their names above them; tshark's have only if it is said."""
    return args.tshark_form != "fields" or _HEADER.get(args.header, False)


def own_names(text: str, option: str) -> str:
    """Put the names of our columns for those that Wireshark has; raises UsageError for one that is no column."""
    from dissector.filters import wireshark_names  # noqa: PLC0415 - only where columns are named
    from dissector.filters.names import fields  # noqa: PLC0415

    words = [word.strip() for word in text.split(",")]
    for at, word in enumerate(words):
        if "." not in word:
            continue
        found = wireshark_names.meaning(word, fields())
        if found is None:
            raise UsageError(f"{option}: no column {word!r} ({wireshark_names.why_not(word) or _LISTED})")
        columns = fields()[found.field].columns
        if found.flag or len(columns) > 1:
            raise UsageError(f"{option}: {word} is no column of its own: take {' and '.join(columns)}")
        words[at] = columns[0]
    return ",".join(words)
