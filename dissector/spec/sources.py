"""Where the facts come from: the keys that messages and documents cite."""

SOURCES: dict[str, str] = {
    "draft": "UPR Protocol, draft of August 2013 (couchbaselabs/dcp-documentation, before 0b7e560)",
    "upr-proto": "couchbase/memcached, September to October 2013 (001dd25d to e7e6249a), never released",
    "transport-spec": "transport-spec.md of 2014-01-03 (couchbaselabs/dcp-documentation a4a50b7)",
    "stream-request": "commands/stream-request.md, proposal of 2014-03-31 (couchbaselabs/dcp-documentation e747fcb)",
    "flow-control": "commands/flow-control.md of 2014-06-05 (couchbaselabs/dcp-documentation 3dc6d09)",
    "set-vbucket-state": "commands/set-vbucket-state.md of 2014-08-21 (couchbaselabs/dcp-documentation 20d4164)",
    "kv_engine": "couchbase/memcached and couchbase/ep-engine 3.0.0 to 4.6.5, couchbase/kv_engine from 5.0.0 on",
    "memcached": "the memcached binary protocol and couchbase/kv_engine docs/BinaryProtocol.md",
}
