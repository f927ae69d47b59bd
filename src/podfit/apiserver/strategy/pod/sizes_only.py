"""Detects resizes that change nothing but sizes, for which most of the processing can be skipped.

Nearly every resize is a patch of amounts alone. Its result shares all other parts with the stored pod (ADR 5), so
comparing the parts that are not shared takes only microseconds. Such a resize needs no defaults, has no changes to
revert, and is validated only where it differs: the rest was valid when it was stored. All other resizes, and every PUT,
take the general path, which has the same result (`tests/property/test_sizes_only.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from podfit.api.objects import Object

RESIZABLE = ("cpu", "memory")
LISTS = ("containers", "initContainers")
_CHANGEABLE = frozenset(("resources", "resizePolicy"))


def differs_in_sizes_only(new: Object, old: Object) -> bool:
    """Whether two specs, of pods or of containers, differ at most in resources and resize policies. Parts that both
    share are not compared."""
    if new.keys() != old.keys() and not new.keys() ^ old.keys() <= _CHANGEABLE:
        return False
    for key, mine in new.items():
        stored = old.get(key)
        if mine is stored or key in _CHANGEABLE:
            continue
        if key == "virtualMachine":
            if not mine or not stored or not differs_in_sizes_only(mine, stored):
                return False
        elif key not in LISTS:
            if mine != stored:
                return False
        elif not mine or not stored or len(mine) != len(stored) or not all(map(_same_but_sizes, mine, stored)):
            return False
    return True


def _same_but_sizes(new: Object, old: Object) -> bool:
    return new is old or differs_in_sizes_only(new, old)


def has_its_defaults(new: Object, old: Object) -> bool:
    """Whether a spec that differs from a stored one in sizes only needs no defaults: it was decoded as typed, so that
    amounts are in their canonical form, and each limit has a request."""
    if new.get("resources") or new.get("virtualMachine") is not old.get("virtualMachine"):
        return False
    return all(mine is kept or _has_requests(mine) for key in LISTS for mine, kept in pairs(new, old, key))


def pairs(new: Object, old: Object, key: str) -> Iterator[tuple[Object, Object]]:
    return zip(new.get(key) or (), old.get(key) or (), strict=True)


def _has_requests(container: Object) -> bool:
    resources = container.get("resources")
    if resources is None:
        return False
    limits = resources.get("limits")
    return not limits or limits.keys() <= (resources.get("requests") or {}).keys()


def differs_in_amounts_only(new: Object, old: Object) -> bool:
    """Whether containers that differ only in sizes differ only in amounts of cpu and memory, which a regular container
    may always change."""
    if new is old:
        return not (old.get("resources") or {}).get("claims")
    mine, stored = new.get("resources") or {}, old.get("resources") or {}
    if mine.keys() != stored.keys() or "claims" in stored or new.get("resizePolicy") != old.get("resizePolicy"):
        return False
    for kind, amounts in mine.items():
        before = stored[kind]
        if amounts is before:
            continue
        if amounts.keys() != before.keys():
            return False
        if any(name not in RESIZABLE and text != before[name] for name, text in amounts.items()):
            return False
    return True
