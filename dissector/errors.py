"""Exceptions for mistakes that the user can put right: one family.

Damaged *data* is never an exception: it is a value in the output (a gap, a defect, a finding).
"""


class UprscopeError(Exception):
    """A mistake of the user: ends as one clear line on stderr and exit status 2."""


class InputError(UprscopeError):
    """An input that cannot be used at all: missing, unreadable, or no capture."""


class UsageError(UprscopeError):
    """A command or option that makes no sense."""
