"""What a command line or a configuration asks for and nobody can give."""

from __future__ import annotations


class BadSetting(ValueError):
    """A setting that cannot work; the message says what would."""

    exit_code = 2
