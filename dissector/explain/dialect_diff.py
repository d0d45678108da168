"""How one dialect's form of a message differs from another's, in words. Compares declarations, invents nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.spec.model import Presence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dissector.spec.model import Field, Layout, Message, Shape


def listed(items: Sequence[object], last: str = "or") -> str:
    """Write a list in words."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def sizes(numbers: Sequence[int]) -> str:
    """Write sizes in bytes, each once and in order."""
    distinct = sorted(set(numbers))
    return listed(distinct) + (" byte" if distinct == [1] else " bytes")


def differences(base: Message, other: Message) -> list[str]:
    """Say what the other dialect's message has that the first one has not, and the reverse."""
    return list(_differences(base, other))


def _differences(base: Message, other: Message) -> Iterator[str]:
    if other.doc != base.doc:
        yield other.doc
    if (other.sender, other.receiver) != (base.sender, base.receiver):
        yield f"sent by {other.sender} → {other.receiver}"
    if other.push is not None and base.push is None:
        yield "pushed with the response magic"
    if (other.reply, other.reply_doc) != (base.reply, base.reply_doc):
        yield f"answered {other.reply}" + (f": {other.reply_doc}" if other.reply_doc else "")
    mine, theirs = base.request or base.push, other.request or other.push
    if mine is not None and theirs is not None:
        yield from _shape_differences("", str(base.dialect), mine, theirs)
    for status, shape in other.responses:
        answer = base.response(status)
        if answer is not None and answer.layouts and shape.layouts:
            yield from _shape_differences(f"answer 0x{status:02x}: ", str(base.dialect), answer, shape)
    if (other.flow is None) != (base.flow is None):
        yield "not counted by flow control" if other.flow is None else f"counted by flow control: {other.flow.doc}"


def _shape_differences(where: str, dialect: str, base: Shape, other: Shape) -> Iterator[str]:
    if not other.layouts:
        yield f"{where}its layout is not described"
        return
    if [layout.extras_size + layout.value_size for layout in other.layouts] == [0]:
        if any(layout.extras for layout in base.layouts):
            yield f"{where}no extras"
    else:
        yield from _layout_differences(where, base, other)
    for part, mine, theirs in (("key", base.key, other.key), ("value", base.value, other.value)):
        fixed = part == "value" and any(layout.value for layout in (*base.layouts, *other.layouts))
        if mine is not theirs and not fixed:
            yield f"{where}{part}: {_presence(theirs)} ({_presence(mine)} in {dialect})"
    yield from _name_changes(where, dialect, base, other)


def _layout_differences(where: str, base: Shape, other: Shape) -> Iterator[str]:
    known = {_signature(layout) for layout in base.layouts}
    for layout in other.layouts:
        if _signature(layout) not in known:
            about = f" ({layout.doc})" if layout.doc else ""
            yield f"{where}{_size(layout)}{about}{_field_changes(_closest(layout, base.layouts), layout)}"
    there = {(form.extras_size, form.value_size) for form in other.layouts}
    gone = [layout for layout in base.layouts if (layout.extras_size, layout.value_size) not in there]
    if any(layout.value for layout in gone):
        yield f"{where}no layout {listed([layout.name for layout in gone])}"
    elif gone:
        yield f"{where}no form with {sizes([layout.extras_size for layout in gone])} of extras"


def _presence(presence: Presence) -> str:
    return {Presence.MUST: "required", Presence.MUST_NOT: "none", Presence.MAY: "optional"}[presence]


def _signature(layout: Layout) -> tuple[tuple[str, int], ...]:
    return (
        ("extras", layout.extras_size),
        *((field.name, field.size) for field in (*layout.extras, *layout.value)),
    )


def _size(layout: Layout) -> str:
    parts = []
    if layout.extras or not layout.value:
        parts.append(f"{sizes([layout.extras_size])} of extras" if layout.extras else "may have no extras")
    if layout.value:
        parts.append(f"{sizes([layout.value_size])} of value")
    return " and ".join(parts)


def _closest(layout: Layout, candidates: tuple[Layout, ...]) -> Layout | None:
    names = {field.name for field in (*layout.extras, *layout.value)}
    shared = [len(names & {field.name for field in (*one.extras, *one.value)}) for one in candidates]
    if not shared or not max(shared):
        return None
    return candidates[shared.index(max(shared))]


def _field_changes(base: Layout | None, other: Layout) -> str:
    """Say which fields a layout lacks or adds against the one it is most like."""
    if base is None:
        return ""
    here = [field.name for field in (*base.extras, *base.value)]
    there = [field.name for field in (*other.extras, *other.value)]
    lacks = [name for name in here if name not in there]
    adds = [name for name in there if name not in here]
    changes = []
    if lacks:
        changes.append(f"without {listed(lacks, 'and')}")
    if adds:
        changes.append(f"with {listed(adds, 'and')}")
    return f": {', '.join(changes)}" if changes else ""


def _name_changes(where: str, dialect: str, base: Shape, other: Shape) -> Iterator[str]:
    """Say which numbers and flags of a field of the same name mean something else, or nothing."""
    here = _named_fields(base)
    for name, field in _named_fields(other).items():
        known = here.get(name)
        if known is None or known.names is None or field.names is None or known.names is field.names:
            continue
        before = {member.value: member.name for member in known.names.members}
        after = {member.value: member.name for member in field.names.members}
        changed = [
            f"{value} is {after[value]} ({before[value]} in {dialect})"
            for value in after
            if value in before and after[value] != before[value]
        ]
        gone = [before[value] for value in before if value not in after and before[value] not in after.values()]
        if changed:
            yield f"{where}{name}: {listed(changed, 'and')}"
        if gone:
            yield f"{where}{name}: {listed(list(after.values()), 'and')} only"


def _named_fields(shape: Shape) -> dict[str, Field]:
    return {
        field.name: field
        for layout in shape.layouts
        for field in (*layout.extras, *layout.value)
        if field.names is not None
    }
