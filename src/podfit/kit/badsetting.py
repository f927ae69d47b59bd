"""A command line or a configuration asks for what is not possible."""

from __future__ import annotations


class BadSetting(ValueError):
    """A setting that cannot work; the message says what would."""

    exit_code = 2
