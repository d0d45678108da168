"""The neighbours: memcached commands that share a connection or a capture with UPR.

Commands that matter for reading a capture have their layouts; the others are known by name and not judged.
"""

from __future__ import annotations

from dissector.spec import enums, fields
from dissector.spec.model import (
    HEADER_ONLY,
    Body,
    Dialect,
    Field,
    KeyRole,
    Layout,
    Message,
    Party,
    Presence,
    Release,
    Shape,
    UInt,
)

_MUST, _MAY = Presence.MUST, Presence.MAY
_ANY = Shape(layouts=(), key=_MAY, value=_MAY)


def _command(
    opcode: int,
    name: str,
    doc: str,
    request: Shape = _ANY,
    success: Shape = _ANY,
    *,
    more: tuple[tuple[int, Shape], ...] = (),
    constant: str = "",
    server_push: bool = False,
    since: Release | None = None,
    until: Release | None = None,
) -> Message:
    return Message(
        Dialect.MEMCACHED,
        opcode,
        name,
        constant or name.upper(),
        Party.SERVER if server_push else Party.CLIENT,
        Party.CLIENT if server_push else Party.SERVER,
        doc,
        "memcached",
        request=request,
        responses=((enums.SUCCESS, success), *more),
        server_push=server_push,
        since=since,
        until=until,
    )


_KEYED = Shape(layouts=(), key=_MUST, value=_MAY, key_role=KeyRole.DOCUMENT)
_MUTATION_TOKEN = (
    fields.uuid("vbucket_uuid", "history branch of the change"),
    fields.seqno("seqno", "seqno of the change"),
)
_STORED = Shape(layouts=(HEADER_ONLY, Layout("with mutation seqno", extras=_MUTATION_TOKEN)), value=_MAY)
_FOUND = Shape(
    layouts=(Layout("found", extras=(fields.ITEM_FLAGS,)),),
    key=_MAY,
    value=_MAY,
    body=Body.DOCUMENT,
    key_role=KeyRole.DOCUMENT,
)
_STORE = Shape(
    layouts=(Layout("store", extras=(fields.ITEM_FLAGS, fields.EXPIRATION)),),
    key=_MUST,
    value=_MAY,
    body=Body.DOCUMENT,
    key_role=KeyRole.DOCUMENT,
)
_COUNT = Shape(
    layouts=(
        Layout(
            "arithmetic",
            extras=(
                Field("delta", UInt.U64, "how much to add"),
                Field("initial", UInt.U64, "where to start a new counter"),
                fields.EXPIRATION,
            ),
        ),
    ),
    key=_MUST,
    key_role=KeyRole.DOCUMENT,
)
_BY_KEY = Shape(key=_MUST, key_role=KeyRole.DOCUMENT)
_SASL = Shape(key=_MAY, value=_MAY, body=Body.SECRET)
_SASL_MORE = ((enums.AUTH_CONTINUE, _SASL),)
#: Known by name, and withheld whole: keys, passwords and tokens are members of a JSON object or of a text that nothing
#: here looks into, so what is harmless in it cannot be told from what is not.
_SECRET = Shape(layouts=(), key=_MAY, value=_MAY, body=Body.SECRET)
_FEATURE_LIST = Shape(value=_MAY, body=Body.FEATURES)
_STATE = Field("vbucket_state", UInt.U8, "the state to take", enums.VBUCKET_STATES)
_STATE_WORD = Field("vbucket_state", UInt.U32, "the state to take", enums.VBUCKET_STATES)

MESSAGES: tuple[Message, ...] = (
    _command(0x00, "get", "Reads a document.", _BY_KEY, _FOUND),
    _command(0x01, "set", "Writes a document.", _STORE, _STORED),
    _command(0x02, "add", "Writes a document that is not there yet.", _STORE, _STORED),
    _command(0x03, "replace", "Writes a document that is there already.", _STORE, _STORED),
    _command(0x04, "delete", "Deletes a document.", _BY_KEY, _STORED),
    _command(0x05, "increment", "Adds to a counter.", _COUNT, _STORED),
    _command(0x06, "decrement", "Subtracts from a counter.", _COUNT, _STORED),
    _command(0x07, "quit", "Closes the connection."),
    _command(0x08, "kv_flush", "Empties the bucket.", constant="FLUSH"),
    _command(0x09, "getq", "Reads a document, silent on a miss.", _BY_KEY, _FOUND),
    _command(0x0A, "kv_noop", "Does nothing, and says so.", Shape(), Shape(), constant="NOOP"),
    _command(0x0B, "version", "Asks for the server's version.", Shape(), Shape(value=_MUST, body=Body.TEXT)),
    _command(0x0C, "getk", "Reads a document; the answer repeats the key.", request=_BY_KEY, success=_FOUND),
    _command(
        0x0D,
        "getkq",
        "Reads a document, silent on a miss; the answer repeats the key.",
        request=_BY_KEY,
        success=_FOUND,
    ),
    _command(0x0E, "append", "Adds bytes to the end of a document.", request=_KEYED, success=_STORED),
    _command(0x0F, "prepend", "Adds bytes to the start of a document.", request=_KEYED, success=_STORED),
    _command(
        0x10,
        "stat",
        "Asks for counters, one answer each. Around UPR: dcp, dcp-vbtakeover with vbucket and name, vbucket-seqno, "
        "failovers.",
        Shape(layouts=(), key=_MAY, value=_MAY),
        Shape(key=_MAY, value=_MAY, body=Body.TEXT),
    ),
    _command(0x11, "setq", "Writes a document, silent on success.", request=_STORE, success=_STORED),
    _command(
        0x12, "addq", "Writes a document that is not there yet, silent on success.", request=_STORE, success=_STORED
    ),
    _command(
        0x13, "replaceq", "Writes a document that is there already, silent on success.", request=_STORE, success=_STORED
    ),
    _command(0x14, "deleteq", "Deletes a document, silent on success.", request=_BY_KEY, success=_STORED),
    _command(0x15, "incrementq", "Adds to a counter, silent on success.", request=_COUNT, success=_STORED),
    _command(0x16, "decrementq", "Subtracts from a counter, silent on success.", request=_COUNT, success=_STORED),
    _command(0x17, "quitq", "Closes the connection without an answer."),
    _command(0x18, "flushq", "Empties the bucket, silent on success."),
    _command(
        0x19, "appendq", "Adds bytes to the end of a document, silent on success.", request=_KEYED, success=_STORED
    ),
    _command(
        0x1A, "prependq", "Adds bytes to the start of a document, silent on success.", request=_KEYED, success=_STORED
    ),
    _command(0x1B, "verbosity", "Sets how much the server logs."),
    _command(0x1C, "touch", "Sets the expiry of a document."),
    _command(0x1D, "gat", "Reads a document and sets its expiry."),
    _command(0x1E, "gatq", "Reads a document and sets its expiry, silent on a miss."),
    _command(
        0x1F,
        "hello",
        "Negotiates features: the key is the agent's name, the value the features asked for; the answer lists those "
        "granted.",
        Shape(key=_MAY, value=_MAY, body=Body.FEATURES),
        _FEATURE_LIST,
    ),
    _command(0x20, "sasl_list_mechs", "Asks for the SASL mechanisms.", Shape(), Shape(value=_MAY, body=Body.TEXT)),
    _command(
        0x21,
        "sasl_auth",
        "Starts a log-in; the key is the mechanism. auth_continue asks for another step.",
        _SASL,
        _SASL,
        more=_SASL_MORE,
    ),
    _command(0x22, "sasl_step", "Goes on with a log-in.", _SASL, _SASL, more=_SASL_MORE),
    _command(0x23, "ioctl_get", "Reads a control of the server process."),
    _command(0x24, "ioctl_set", "Sets a control of the server process."),
    _command(0x25, "config_validate", "Checks a configuration of the server process."),
    _command(0x26, "config_reload", "Reads the configuration of the server process again."),
    _command(0x27, "audit_put", "Adds an event to the audit log."),
    _command(0x28, "audit_config_reload", "Reads the configuration of the audit log again."),
    _command(0x29, "shutdown", "Stops the server process."),
    _command(
        0x2A, "set_bucket_throttle_properties", "Sets what a bucket may use of the node's units of work per second."
    ),
    _command(0x2B, "set_bucket_data_limit_exceeded", "Tells that a bucket holds more data than it may, or no longer."),
    _command(0x2C, "set_node_throttle_properties", "Sets how many units of work per second a node does."),
    # The value holds the keys themselves, in base64.
    _command(
        0x2D,
        "set_active_encryption_keys",
        "Gives the server the keys for data at rest; the key names what they encrypt.",
        _SECRET,
        _SECRET,
    ),
    _command(0x2E, "prune_encryption_keys", "Gives up keys for data at rest; the value lists their ids."),
    # Range operations of the binary protocol of old: the numbers are taken, and no Couchbase server carries them out.
    _command(0x30, "rget", "Reads a range of keys."),
    _command(0x31, "rset", "Writes a range of keys."),
    _command(0x32, "rsetq", "Writes a range of keys, silent on success."),
    _command(0x33, "rappend", "Adds bytes to the ends of a range of keys."),
    _command(0x34, "rappendq", "Adds bytes to the ends of a range of keys, silent on success."),
    _command(0x35, "rprepend", "Adds bytes to the starts of a range of keys."),
    _command(0x36, "rprependq", "Adds bytes to the starts of a range of keys, silent on success."),
    _command(0x37, "rdelete", "Deletes a range of keys."),
    _command(0x38, "rdeleteq", "Deletes a range of keys, silent on success."),
    _command(0x39, "rincr", "Adds to a range of counters."),
    _command(0x3A, "rincrq", "Adds to a range of counters, silent on success."),
    _command(0x3B, "rdecr", "Subtracts from a range of counters."),
    _command(0x3C, "rdecrq", "Subtracts from a range of counters, silent on success."),
    _command(
        0x3D,
        "set_vbucket",
        "Sets a vbucket's state, in the extras or in the value; since 6.5 a JSON topology may follow. A state that "
        "changes ends the vbucket's streams.",
        Shape(
            layouts=(
                Layout("state byte", extras=(_STATE,)),
                Layout("state word", extras=(_STATE_WORD,)),
                Layout("state as value"),
            ),
            value=_MAY,
        ),
        Shape(),
    ),
    _command(0x3E, "get_vbucket", "Asks for a vbucket's state."),
    _command(0x3F, "del_vbucket", "Deletes a vbucket, which ends its streams."),
    _command(
        0x40, "tap_connect", "TAP, the predecessor of UPR: starts a stream.", since=Release(3), until=Release(4, 6)
    ),
    _command(
        0x41,
        "tap_mutation",
        "TAP, the predecessor of UPR: a document was changed.",
        since=Release(3),
        until=Release(4, 6),
    ),
    _command(
        0x42,
        "tap_delete",
        "TAP, the predecessor of UPR: a document was deleted.",
        since=Release(3),
        until=Release(4, 6),
    ),
    _command(
        0x43, "tap_flush", "TAP, the predecessor of UPR: the bucket was emptied.", since=Release(3), until=Release(4, 6)
    ),
    _command(
        0x44, "tap_opaque", "TAP, the predecessor of UPR: a control message.", since=Release(3), until=Release(4, 6)
    ),
    _command(
        0x45,
        "tap_vbucket_set",
        "TAP, the predecessor of UPR: a vbucket changes its state.",
        since=Release(3),
        until=Release(4, 6),
    ),
    _command(
        0x46,
        "tap_checkpoint_start",
        "TAP, the predecessor of UPR: a checkpoint starts.",
        since=Release(3),
        until=Release(4, 6),
    ),
    _command(
        0x47,
        "tap_checkpoint_end",
        "TAP, the predecessor of UPR: a checkpoint ends.",
        since=Release(3),
        until=Release(4, 6),
    ),
    _command(
        0x48,
        "get_all_vb_seqnos",
        "Asks for the high seqnos of all vbuckets, or of those in a state, or of one collection in them; listed by "
        "ascending vbucket.",
        Shape(
            layouts=(
                HEADER_ONLY,
                Layout("by state", extras=(fields.STATE_FILTER,)),
                Layout(
                    "by state and collection",
                    extras=(
                        fields.STATE_FILTER,
                        fields.COLLECTION_ID,
                    ),
                ),
            ),
        ),
        Shape(value=_MAY, body=Body.VBUCKET_SEQNOS),
    ),
    _command(0x49, "get_ex", "Reads a document together with its xattrs."),
    _command(0x4A, "get_ex_replica", "Reads a document together with its xattrs from a replica vbucket."),
    # Fusion keeps the data of Magma in a log store. Where a value names its metadata store, the token that opens it
    # stands beside.
    _command(
        0x70,
        "get_fusion_storage_snapshot",
        "Asks for a snapshot of vbuckets in Fusion's log store, and keeps it for a time.",
        _SECRET,
        _SECRET,
    ),
    _command(
        0x71,
        "release_fusion_storage_snapshot",
        "Gives up a snapshot of vbuckets in Fusion's log store.",
        _SECRET,
        _SECRET,
    ),
    _command(
        0x72,
        "mount_fusion_vbucket",
        "Mounts a vbucket from volumes of Fusion; the answer has the ids of the keys that encrypt it.",
    ),
    _command(0x73, "unmount_fusion_vbucket", "Undoes the mount of a vbucket from volumes of Fusion."),
    _command(0x74, "sync_fusion_logstore", "Brings a vbucket's data to Fusion's log store."),
    _command(0x75, "start_fusion_uploader", "Starts a vbucket's uploads to Fusion's log store, in a term."),
    _command(0x76, "stop_fusion_uploader", "Stops a vbucket's uploads to Fusion's log store."),
    _command(
        0x77, "delete_fusion_namespace", "Deletes a namespace from Fusion's stores.", request=_SECRET, success=_SECRET
    ),
    _command(
        0x78, "get_fusion_namespaces", "Asks for the namespaces in Fusion's stores.", request=_SECRET, success=_SECRET
    ),
    _command(0x80, "stop_persistence", "Stops writing to disk."),
    _command(0x81, "start_persistence", "Goes on writing to disk."),
    _command(0x82, "set_param", "Sets a server parameter."),
    _command(0x83, "get_replica", "Reads a document from a replica vbucket."),
    _command(0x84, "set_chronicle_auth_token", "Gives the server the token of Fusion.", _SECRET, _SECRET),
    # The value is the bucket's configuration, in which newer servers find keys for data at rest and Fusion's token.
    _command(0x85, "create_bucket", "Creates a bucket.", request=_SECRET, success=_SECRET),
    _command(0x86, "delete_bucket", "Deletes a bucket."),
    _command(0x87, "list_buckets", "Asks for the names of the buckets."),
    _command(0x88, "expand_bucket", "Makes a bucket larger."),
    _command(0x89, "select_bucket", "Chooses the bucket; the key is its name.", Shape(key=_MUST), Shape()),
    _command(0x8A, "pause_bucket", "Makes a bucket take no commands for a while."),
    _command(0x8B, "resume_bucket", "Lets a paused bucket take commands again."),
    _command(0x8C, "validate_bucket_config", "Checks a bucket's configuration.", _SECRET, _SECRET),
    _command(0x90, "start_replication", "Starts the replication."),
    _command(0x91, "observe_seqno", "Asks how far a vbucket has come in memory and on disk."),
    _command(0x92, "observe", "Asks where keys are stored."),
    _command(0x93, "evict_key", "Takes a document's value out of memory."),
    _command(0x94, "get_locked", "Reads and locks a document."),
    _command(0x95, "unlock_key", "Unlocks a document."),
    _command(
        0x96,
        "kv_get_failover_log",
        "The failover log outside UPR; same body as 0x54.",
        Shape(),
        Shape(value=_MUST, body=Body.FAILOVER_LOG),
        constant="GET_FAILOVER_LOG",
    ),
    _command(0x97, "last_closed_checkpoint", "Asks for the last closed checkpoint of a vbucket."),
    _command(0x98, "restore_file", "Reads an incremental backup back in; the key is the file."),
    _command(0x99, "restore_abort", "Gives a restore up."),
    _command(0x9A, "restore_complete", "Ends the restore mode: everything is back."),
    _command(0x9B, "online_update_start", "Holds changes back from the disk while the server is updated."),
    _command(0x9C, "online_update_complete", "Ends an online update and writes what it held back."),
    _command(0x9D, "online_update_revert", "Ends an online update and drops what it held back."),
    _command(0x9E, "deregister_tap_client", "Forgets a TAP client and its cursors."),
    _command(0x9F, "reset_replication_chain", "Resets the replicas that a node feeds, and theirs."),
    _command(0xA0, "get_meta", "Reads a document's metadata."),
    _command(0xA1, "getq_meta", "Reads a document's metadata, silent on a miss."),
    _command(0xA2, "set_with_meta", "Writes a document with metadata from another cluster."),
    _command(0xA3, "setq_with_meta", "Writes a document with metadata from another cluster, silent on success."),
    _command(0xA4, "add_with_meta", "Writes a document that is not there yet, with metadata from another cluster."),
    _command(
        0xA5,
        "addq_with_meta",
        "Writes a document that is not there yet, with metadata from another cluster, silent on success.",
    ),
    _command(0xA6, "snapshot_vb_states", "Takes a snapshot of the vbuckets' states."),
    _command(0xA7, "vbucket_batch_count", "Passes a counter of vbucket batches to the storage."),
    _command(0xA8, "del_with_meta", "Deletes a document with metadata from another cluster."),
    _command(0xA9, "delq_with_meta", "Deletes a document with metadata from another cluster, silent on success."),
    _command(0xAA, "create_checkpoint", "Starts a new checkpoint in a vbucket."),
    _command(0xAC, "notify_vbucket_update", "Asks to be told when a vbucket has changed."),
    _command(0xAD, "enable_traffic", "Lets the bucket take commands after its warm-up."),
    _command(0xAE, "disable_traffic", "Makes the bucket refuse commands."),
    # With the key tls the value holds the password of the private key.
    _command(0xAF, "ifconfig", "Defines, deletes or lists ports, or sets up TLS, as the key says.", _SECRET, _SECRET),
    _command(0xB0, "change_vb_filter", "Sets which vbuckets a TAP producer sends."),
    _command(0xB1, "checkpoint_persistence", "Waits until a checkpoint is on disk."),
    _command(0xB2, "return_meta", "Writes or deletes a document and asks for its new metadata."),
    _command(0xB3, "compact_db", "Compacts the file of a vbucket."),
    _command(0xB4, "set_cluster_config", "Gives the server a cluster map."),
    _command(0xB5, "get_cluster_config", "Asks for the cluster map."),
    _command(0xB6, "get_random_key", "Reads any document."),
    _command(
        0xB7,
        "seqno_persistence",
        "Waits until a seqno is on disk.",
        Shape(layouts=(Layout("seqno", extras=(fields.seqno("seqno", "seqno to wait for"),)),)),
        Shape(),
    ),
    _command(0xB8, "get_keys", "Asks for keys, starting at one."),
    _command(0xB9, "set_collections_manifest", "Gives the server a collections manifest."),
    _command(0xBA, "get_collections_manifest", "Asks for the collections manifest."),
    _command(0xBB, "get_collection_id", "Asks for the id of a collection."),
    _command(0xBC, "get_scope_id", "Asks for the id of a scope."),
    _command(0xC1, "set_drift_counter_state", "Sets how far a vbucket's clock is off, for XDCR."),
    _command(0xC2, "get_adjusted_time", "Asks for a vbucket's corrected time, for XDCR."),
    _command(0xC5, "subdoc_get", "Reads a part of a document."),
    _command(0xC6, "subdoc_exists", "Asks whether a part of a document is there."),
    _command(0xC7, "subdoc_dict_add", "Adds a part to a document."),
    _command(0xC8, "subdoc_dict_upsert", "Writes a part of a document."),
    _command(0xC9, "subdoc_delete", "Removes a part of a document."),
    _command(0xCA, "subdoc_replace", "Replaces a part of a document."),
    _command(0xCB, "subdoc_array_push_last", "Adds to the end of an array in a document."),
    _command(0xCC, "subdoc_array_push_first", "Adds to the start of an array in a document."),
    _command(0xCD, "subdoc_array_insert", "Inserts into an array in a document."),
    _command(0xCE, "subdoc_array_add_unique", "Adds to an array in a document what it does not hold yet."),
    _command(0xCF, "subdoc_counter", "Adds to a number in a document."),
    _command(0xD0, "subdoc_multi_lookup", "Reads several parts of a document."),
    _command(0xD1, "subdoc_multi_mutation", "Changes several parts of a document."),
    _command(0xD2, "subdoc_get_count", "Asks how many members a part of a document has."),
    _command(0xD3, "subdoc_replace_body_with_xattr", "Replaces the body of a document by one of its xattrs."),
    _command(0xDA, "range_scan_create", "Starts a scan over a range of keys; the answer has its id."),
    _command(0xDB, "range_scan_continue", "Asks for the next part of a range scan."),
    _command(0xDC, "range_scan_cancel", "Gives a range scan up."),
    _command(0xE0, "prepare_snapshot", "Makes a snapshot of a vbucket's files; the answer lists them."),
    _command(0xE1, "release_snapshot", "Gives up a snapshot of a vbucket's files."),
    # The value says where to log in, as whom and with which password, and how to open the private key.
    _command(0xE2, "download_snapshot", "Makes a node fetch a vbucket's files from another.", _SECRET, _SECRET),
    _command(0xE3, "get_file_fragment", "Reads a part of a file of a snapshot."),
    _command(0xF0, "scrub", "Cleans expired documents up."),
    _command(0xF1, "isasl_refresh", "Reads the password file again."),
    _command(0xF2, "ssl_certs_refresh", "Reads the TLS certificates again."),
    _command(0xF3, "get_cmd_timer", "Asks how long commands took."),
    _command(0xF4, "set_ctrl_token", "Sets the token of the cluster manager."),
    _command(0xF5, "get_ctrl_token", "Asks for the token of the cluster manager."),
    _command(0xF6, "update_external_user_permissions", "Sets the rights of a user whom a provider knows."),
    _command(0xF7, "rbac_refresh", "Reads the users' rights again."),
    _command(0xF8, "auth_provider", "Offers to check log-ins for the server."),
    _command(0xFB, "drop_privilege", "Gives up a privilege of the connection, for tests."),
    _command(0xFC, "adjust_timeofday", "Moves the server's clock, for tests."),
    _command(0xFD, "ewouldblock_ctl", "Steers the engine that fails on purpose, for tests."),
    _command(0xFE, "get_error_map", "Asks what the server's statuses mean."),
    _command(
        0x01, "cluster_map_change", "The cluster map has changed.", constant="CLUSTERMAP_CHANGE", server_push=True
    ),
    _command(
        0x02,
        "authenticate",
        "Asks an external provider to check a log-in.",
        _SECRET,
        _SECRET,
        server_push=True,
    ),
    _command(0x03, "active_external_users", "Tells a provider who is logged in.", server_push=True),
    _command(0x04, "get_authorization", "Asks a provider for a user's rights.", server_push=True),
)
