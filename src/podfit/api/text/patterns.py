"""Regular expressions supplied by clients: RE2, as in Go. Matching takes time proportional to the text, whatever the
expression; features that Go lacks (look-ahead, back-references) are rejected with its error.
"""

from __future__ import annotations

from typing import Any

from podfit.api.text.remember import remembered

_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "unexpected error": "regexp/syntax: internal error",
    "pattern too large - compile failed": "expression too large",
}
_MEMORY = 8 << 20


class BadPattern(ValueError):
    """The expression cannot be compiled; the message is Go's."""


@remembered(512)
def compile_pattern(text: str) -> Any:
    """An object with `search` and `finditer`, as in `re`. Raises BadPattern."""
    # Few clusters have custom resources with patterns, and the library takes a moment to load.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise BadPattern(_in_go(error.args[0], text)) from None


def _in_go(message: bytes | str, text: str) -> str:
    words = message.decode("utf-8", "replace") if isinstance(message, bytes) else message
    code, _, place = words.partition(": ")
    # If several errors are possible, RE2 reports the same one as Go, except for an expression that is too large.
    shown = text if code.startswith("pattern too large") else place
    return f"error parsing regexp: {_GO_WORDS.get(code, code)}: `{shown}`"
