"""Kubernetes objects in this project: JSON, as dictionaries and lists. Also the mechanism by which they are shared.

`Object` belongs to its holder, who may modify it. `ObjectView` is read-only.

A server and the components in its process share objects: those in the server's cache of the store, in watch events and
in responses to writes. Code that passes an object to others calls `freeze` and passes the result. It must not be
modified from then on. Code that needs a modified one copies the containers above the change (`{**pod, "spec": …}`) and
shares the rest, so that unchanged parts are identical objects. `thaw` copies all of it.

In production `freeze` returns the object itself: reading containers that reject writes takes 2.8 times as long. With
PODFIT_FREEZE=1, which the whole test suite sets, it returns containers that reject writes: code that modifies a shared
object fails its test at the line that does it. ADR 5 has the reasons.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

Object = dict[str, Any]
ObjectView = Mapping[str, Any]

FREEZES = os.environ.get("PODFIT_FREEZE") == "1"
"""Whether `freeze` returns containers that reject writes: a constant of the process."""


def freeze(obj: Object) -> Object:
    """Makes the object shareable: it must not be modified any more. Parts that were already frozen are not copied."""
    if not FREEZES:
        return obj
    try:
        frozen: Object = _frozen(obj)
    except RecursionError:
        return obj  # nested too deeply to recurse; such objects occur only in tests
    return frozen


def thaw(value: Any) -> Any:
    """A deep copy of a JSON value, owned by the caller."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value


def _frozen(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return FrozenDict((key, _frozen(item)) for key, item in value.items())
    if kind is list:
        return FrozenList(map(_frozen, value))
    return value


class SharedObjectChanged(TypeError):
    """A write to a shared object."""


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise SharedObjectChanged("this object is shared with others: copy what is to be changed")


class FrozenDict(dict[str, Any]):
    __slots__ = ()
    __class__ = dict  # type: ignore[assignment]
    """Code that checks the class of a value takes the same path as in production."""
    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse  # type: ignore[assignment]

    def __copy__(self) -> Object:
        return dict(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return thaw(self)


class FrozenList(list[Any]):
    __slots__ = ()
    __class__ = list  # type: ignore[assignment]
    __setitem__ = __delitem__ = append = extend = insert = pop = remove = clear = sort = reverse = _refuse  # type: ignore[assignment]
    __iadd__ = __imul__ = _refuse  # type: ignore[assignment]

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return thaw(self)
