"""All kinds of violations: importing this enters them."""

from tests.support.power import (
    mutations_answers,
    mutations_connections,
    mutations_drafts,
    mutations_failover,
    mutations_fields,
    mutations_flow,
    mutations_framing,
    mutations_markers,
    mutations_noops,
    mutations_seqnos,
    mutations_snapshots,
    mutations_streams,
    mutations_sync,
    mutations_takeovers,
)

ALL = (
    mutations_framing,
    mutations_fields,
    mutations_connections,
    mutations_answers,
    mutations_streams,
    mutations_snapshots,
    mutations_markers,
    mutations_drafts,
    mutations_seqnos,
    mutations_sync,
    mutations_flow,
    mutations_failover,
    mutations_takeovers,
    mutations_noops,
)
