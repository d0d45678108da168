"""User data replaced by stable pseudonyms of the same length, so that captures can be given to others."""

from __future__ import annotations

from dissector.pseudonyms.permutation import Pseudonyms

__all__ = ["Pseudonyms"]
