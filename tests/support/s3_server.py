"""A stand-in for S3 on the loopback interface: enough of its protocol for a reader, and not a byte more.

Serves a folder whose first level are buckets: HEAD and GET of objects (with ranges), HEAD of buckets, and lists
(version 2). Whoever signs a request is believed. It counts what it served, so that a test can tell how a file was read.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@dataclass
class Served:
    """An S3 server that runs."""

    port: int
    largest: int = 0  #: bytes of the largest single answer
    requests: list[str] = field(default_factory=list)
    refuses: str = ""  #: whatever has this in its name may not be read

    @property
    def query(self) -> str:
        """Return the query that makes an address be looked up here."""
        return f"?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"


@contextmanager
def s3_server(folder: Path) -> Iterator[Served]:
    """Serve the buckets of a folder until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._serve()

        def do_GET(self) -> None:
            self._serve()

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            served.requests.append(f"{self.command} {self.path}")
            if served.refuses and served.refuses in self.path:
                self._answer(403, _error("AccessDenied"))
                return
            bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
            target = folder / bucket / key
            if not key:
                self._list(bucket, parse_qs(parts.query))
            elif target.is_file():
                self._object(target)
            else:
                self._answer(404, _error("NoSuchKey"))

        def _object(self, target: Path) -> None:
            size = target.stat().st_size
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
            first, last = (int(asked[1]), min(int(asked[2] or size), size - 1)) if asked else (0, size - 1)
            with target.open("rb") as file:
                file.seek(first)
                data = file.read(last - first + 1) if self.command == "GET" else b""
            served.largest = max(served.largest, len(data))
            headers = {"Content-Type": "application/octet-stream", "ETag": '"0"', "Accept-Ranges": "bytes"}
            headers["Last-Modified"] = formatdate(int(target.stat().st_mtime), usegmt=True)
            if asked:
                headers["Content-Range"] = f"bytes {first}-{last}/{size}"
            self._answer(206 if asked else 200, data, headers, length=last - first + 1)

        def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
            root = folder / bucket
            if not root.is_dir():
                self._answer(404, _error("NoSuchBucket"))
                return
            prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
            keys = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
            rows, folders = [], set()
            for key in keys:
                rest = key[len(prefix) :]
                if not key.startswith(prefix):
                    continue
                if delimiter and delimiter in rest:
                    folders.add(prefix + rest[: rest.index(delimiter) + 1])
                else:
                    status = (root / key).stat()
                    # To the millisecond, as some servers do it: a single object's answer is to the second.
                    changed = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="milliseconds")
                    head = f"<Key>{escape(key)}</Key><LastModified>{changed[:-6]}Z</LastModified><ETag>0</ETag>"
                    size = f"<Size>{status.st_size}</Size>"
                    rows.append(f"<Contents>{head}{size}<StorageClass>STANDARD</StorageClass></Contents>")
            rows += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)]
            head = f"<Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(rows)}</KeyCount>"
            body = f"{head}<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{''.join(rows)}"
            text = f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>{body}</ListBucketResult>'
            self._answer(200, text.encode(), {"Content-Type": "application/xml"})

        def _answer(
            self, status: int, data: bytes, headers: dict[str, str] | None = None, length: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data) if length is None else length))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = Served(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _error(code: str) -> bytes:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'.encode()
