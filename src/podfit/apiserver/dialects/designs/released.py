"""The common base of the dialects of Kubernetes 1.31 and 1.32: `status.resize` as a string, and error messages."""

from __future__ import annotations

import re
from dataclasses import replace

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import INVALID, FieldError, go_quote
from podfit.apiserver.dialects import policies
from podfit.apiserver.dialects.base import Dialect
from podfit.apiserver.dialects.types import edit, word

RESIZE = {"PodStatus": edit((), word("resize", "v1.PodResizeStatus"))}
_AMOUNT = re.compile(r".*\.resources\.(?:requests|limits)\[(.*)\]", re.DOTALL)


class Released(Dialect):
    words = policies.RELEASED
    edits = RESIZE

    def worded(self, kind: Kind, errors: list[FieldError], obj: Object) -> list[FieldError]:
        return [_unquoted(error) for error in super().worded(kind, errors, obj)]


def _unquoted(error: FieldError) -> FieldError:
    """Removes the quotes around resource names, which both releases print without them."""
    named = _AMOUNT.fullmatch(error.path) if error.kind == INVALID else None
    return replace(error, value=named[1]) if named is not None and error.value == go_quote(named[1]) else error
