"""The error for an impossible command line or configuration."""

from __future__ import annotations


class BadSetting(ValueError):
    """A setting that cannot work; the message says what would."""

    exit_code = 2
