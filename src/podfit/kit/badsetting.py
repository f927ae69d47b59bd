"""The error for an invalid command line or configuration, raised by commands before a component starts."""

from __future__ import annotations


class BadSetting(ValueError):
    """A setting that cannot work; the message says which values would."""

    exit_code = 2
