"""Standard input that is needed twice: kept in a temporary file for as long as the command runs."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.capture import Input

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def spooled(each: Input) -> Iterator[Input]:
    """Copy what can be read once only, and give out an input of the same name that can be read again."""
    with tempfile.NamedTemporaryFile(prefix="uprscope-", suffix=".capture") as copy:
        with each.open() as stream:
            shutil.copyfileobj(stream, copy)
        copy.flush()
        yield Input(each.name, Path(copy.name))
