"""Handles writes in an older dialect: translates the change that a client made to the dialect's form."""

from __future__ import annotations

from collections.abc import Callable

from podfit.api.objects import Object
from podfit.api.schema.types import Struct
from podfit.api.status import unprocessable
from podfit.apiserver.calls import Call
from podfit.apiserver.dialects import Dialect, policies
from podfit.apiserver.writing import custom_schema
from podfit.apiserver.writing.write import Change, Write
from podfit.kit.clock import rfc3339
from podfit.store.backend import Record

Edit = Callable[[Object, Struct], Object]
"""Creates the client's object from the object that is shown, and its type."""


def translated(call: Call, write: Write, dialect: Dialect, edit: Edit) -> Change:
    """Converts an edit of the shown object to a change of the native object."""
    kind, clock = call.kind, call.objects.clock
    struct = dialect.struct(kind)

    def change(stored: Object, record: Record) -> Object:
        submitted = write.submitted = edit(dialect.show(kind, stored), struct)
        made = dialect.put_back(kind, submitted, stored, rfc3339(clock.now()))
        return native(call, dialect, made)

    return change


def created(call: Call, write: Write, dialect: Dialect, submitted: Object) -> Object:
    """The native form of a new object."""
    write.submitted = submitted
    return native(call, dialect, dialect.created(call.kind, submitted))


def native(call: Call, dialect: Dialect, made: Object) -> Object:
    """Sets defaults, and reports errors in a template that only the dialect can detect."""
    if call.kind.plural in policies.TEMPLATES and (errors := policies.template_errors(made, call.kind, dialect.words)):
        name = (made.get("metadata") or {}).get("name", "")
        raise unprocessable(call.kind.kind, name, errors, call.kind.group)
    custom_schema.default(call.kind, made)
    return made
