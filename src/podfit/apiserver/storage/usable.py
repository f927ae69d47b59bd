"""Skips stored objects that are unusable, with a warning: another version wrote them, or they were written directly to
the store.

The server runs and restarts without them. They can be read, corrected and deleted like any other object.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.schema import type_of
from podfit.api.schema.decoding.notes import Notes
from podfit.api.schema.decoding.reader import reader
from podfit.api.schema.decoding.scalars import Unreadable

log = logging.getLogger(__name__)


def problem_of(kind: Kind, obj: Object) -> str:
    """The path at which an object of a built-in kind has a value of the wrong type; "" if there is none.

    The contents of strings, such as a certificate, are not checked here.
    """
    struct = type_of(kind)
    if struct is None:
        return ""
    notes = Notes()
    with contextlib.suppress(Unreadable):
        reader(struct)(obj, None, notes)
    return notes.wrong or ""


def usable(kind: Kind, objects: Iterable[Object]) -> list[Object]:
    """The objects that match the type of their kind."""
    found = []
    for obj in objects:
        problem = problem_of(kind, obj)
        if problem:
            warn(kind, obj, problem)
        else:
            found.append(obj)
    return found


def each(kind: Kind, objects: Iterable[Object], use: Callable[[Object], None]) -> None:
    """Processes the objects one by one, and skips unusable ones."""
    for obj in objects:
        try:
            use(obj)
        except Exception as error:
            warn(kind, obj, f"{type(error).__name__}: {error}")


def converted(kind: Kind, obj: Object, convert: Callable[[Object], Object]) -> Object:
    """The object in another form, or in its stored form if it cannot be converted, so that one such object does not
    make a list unreadable."""
    try:
        return convert(obj)
    except Exception as error:
        log.warning("%s is stored but cannot be converted: %s: %s", _name(kind, obj), type(error).__name__, error)
        return obj


def warn(kind: Kind, obj: Object, problem: str) -> None:
    log.warning("%s is stored but cannot be used, and is skipped: %s", _name(kind, obj), problem)


def _name(kind: Kind, obj: Object) -> str:
    meta = obj.get("metadata") or {}
    return f"{kind.kind} {'/'.join(str(part) for part in (meta.get('namespace'), meta.get('name')) if part)}"
