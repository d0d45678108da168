"""How connections of each era begin: addresses, HELLO, open and the usual parameters.

Knows what clients and servers of an era send before the first stream; must not know what they stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bucket import Bucket
from dissector.generate.conversation import Conversation
from dissector.generate.session import PRODUCER, Session
from dissector.spec import enums
from dissector.spec.model import Dialect, Release

if TYPE_CHECKING:
    import random

XATTR, XERROR, SELECT_BUCKET, SNAPPY, JSON_VALUES, ALT_REQUEST, SYNC_REPLICATION = map(
    enums.FEATURES.number, ("xattr", "xerror", "select_bucket", "snappy", "json", "alt_request", "sync_replication")
)
INCLUDE_XATTRS = enums.OPEN_FLAGS.bit("include_xattrs")
INCLUDE_DELETE_TIMES = enums.OPEN_FLAGS.bit("include_delete_times")
RELEASE_3 = Release(3, 1, 5)
RELEASE_4 = Release(4, 1, 2)
RELEASE_7 = Release(7, 0, 5)
WINDOW = 20_480  #: what servers ask for in tests; clients ask for more
_FIRST_PORT = 40_000
#: A 7.x consumer's parameters, in its own order.
_CONSUMER_CONTROLS = (
    ("enable_noop", "true"),
    ("set_noop_interval", "20"),
    ("set_priority", "high"),
    ("supports_cursor_dropping_vulcan", "true"),
    ("supports_hifi_MFU", "true"),
    ("send_stream_end_on_client_close_stream", "true"),
    ("enable_expiry_opcode", "true"),
)


def new_conversation(number: int = 0, *, begin_ns: int = 0, name: str = "", server: str = "10.0.0.2") -> Conversation:
    """Return a connection of its own client port."""
    notes: dict[str, object] = {"name": name} if name else {}
    return Conversation(client_port=_FIRST_PORT + number, server=server, begin_ns=begin_ns, notes=notes)


def plain(
    chance: random.Random,
    name: str,
    *,
    number: int = 0,
    bucket: Bucket | None = None,
    window: int = WINDOW,
    noop: bool = True,
    era: Release = RELEASE_3,
    begin_ns: int = 0,
) -> Session:
    """Open a connection to a producer of 3.x or 4.x, as a client with flow control and no-ops."""
    session = Session(
        new_conversation(number, begin_ns=begin_ns, name=name), chance, era=era, bucket=bucket or Bucket(), acking=True
    )
    session.open(name.encode())
    if window:
        session.control("connection_buffer_size", str(window))
    if noop:
        session.control("enable_noop", "true")
        session.control("set_noop_interval", "20")
    return session


def modern(
    chance: random.Random,
    name: str,
    *,
    number: int = 0,
    bucket: Bucket | None = None,
    window: int = 100_000,
    collections: bool = True,
    features: tuple[int, ...] = (XATTR, XERROR, SELECT_BUCKET, SNAPPY, JSON_VALUES, ALT_REQUEST),
    flags: int = PRODUCER | INCLUDE_XATTRS | INCLUDE_DELETE_TIMES,
    controls: tuple[tuple[str, str], ...] = (("send_stream_end_on_client_close_stream", "true"),),
    era: Release = RELEASE_7,
    begin_ns: int = 0,
) -> Session:
    """Open a connection to a producer of 7.x, as a client that asks for what clients ask for."""
    session = Session(
        new_conversation(number, begin_ns=begin_ns, name=name),
        chance,
        era=era,
        bucket=bucket or Bucket(),
        acking=True,
        delete_times=bool(flags & INCLUDE_DELETE_TIMES),
    )
    wanted = (*features, enums.COLLECTIONS_FEATURE) if collections else features
    session.hello(wanted, agent=b'{"a":"uprscope","i":"%d"}' % number)
    session.select_bucket()
    session.open(name.encode(), flags)
    session.control("enable_noop", "true")
    session.control("set_noop_interval", "20")
    if window:
        session.control("connection_buffer_size", str(window))
    for key, value in controls:
        session.control(key, value)
    return session


def replica(
    chance: random.Random, name: str, *, number: int = 0, bucket: Bucket | None = None, collections: bool = True
) -> Session:
    """Open a connection to a producer of 7.x as a replica does that takes part in synchronous writes."""
    features = (XATTR, XERROR, SELECT_BUCKET, SNAPPY, JSON_VALUES, ALT_REQUEST, SYNC_REPLICATION)
    controls = (*_CONSUMER_CONTROLS[2:], ("enable_sync_writes", "true"), ("consumer_name", name))
    session = modern(
        chance,
        f"replication:{name}",
        number=number,
        bucket=bucket,
        collections=collections,
        features=features,
        controls=controls,
    )
    session.sync_writes = True
    return session


def early(chance: random.Random, name: str, *, number: int = 0, window: int = 0) -> Session:
    """Open a connection to a producer of May 2014, before the release; its consumer answers every message."""
    session = Session(
        new_conversation(number, name=name), chance, dialect=Dialect.UPR, era=Release(3), acking=True, answering=True
    )
    session.open(name.encode())
    if window:
        session.control("connection_buffer_size", str(window))
    return session


def count(session: Session) -> int:
    """Return how many messages were written."""
    return len(session.conversation.emissions)
