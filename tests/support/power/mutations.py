"""All kinds of violations: importing this enters them."""

from tests.support.power import (
    mutations_answers,
    mutations_drafts,
    mutations_fields,
    mutations_flow,
    mutations_framing,
    mutations_markers,
    mutations_seqnos,
    mutations_snapshots,
    mutations_streams,
    mutations_sync,
)

ALL = (
    mutations_framing,
    mutations_fields,
    mutations_answers,
    mutations_streams,
    mutations_snapshots,
    mutations_markers,
    mutations_drafts,
    mutations_seqnos,
    mutations_sync,
    mutations_flow,
)
