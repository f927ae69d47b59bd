"""`metadata.managedFields`: the owners of fields, read and written.

A manager is identified by name, operation and subresource; for updates also by the version used.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from podfit.api.patches.apply import fieldset
from podfit.api.patches.apply.fieldset import FieldSet, union
from podfit.api.text.remember import remembered

APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "before-first-apply"
ANCIENT_CHANGES = "ancient-changes"
MOST_UPDATERS = 10
LONGEST_NAME = 128


class Identity(msgspec.Struct, frozen=True, gc=False):
    name: str
    operation: str
    version: str
    """Empty for appliers: they keep their identity across versions."""
    subresource: str = ""

    def __str__(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.version}" if self.operation == UPDATE else text


class Owner(msgspec.Struct):
    fields: FieldSet
    """Sorted: adding fields sorts them, and removing some preserves the order."""
    version: str
    time: str | None = None


Owners = dict[Identity, Owner]


def identity(name: str, operation: str, version: str, subresource: str = "") -> Identity:
    return Identity(name or "unknown", operation, "" if operation == APPLY else version, subresource)


def manager_name(field_manager: str | None, user_agent: str | None) -> str:
    """The manager of a request: the given name, otherwise the user agent up to the first slash."""
    return field_manager or _of_agent(user_agent or "")


@remembered(1024)
def _of_agent(user_agent: str) -> str:
    prefix = user_agent.partition("/")[0]
    printable = "".join(letter for letter in prefix if letter.isprintable())
    return printable.encode()[:LONGEST_NAME].decode("utf-8", "ignore")


def read(entries: Any) -> Owners:
    """The owners of an object's fields; if an entry is malformed, the object counts as having no owners."""
    owners: Owners = {}
    for entry in entries or ():
        if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
            return {}
        if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            return {}
        version = entry.get("apiVersion", "")
        who = identity(entry.get("manager", ""), entry["operation"], version, entry.get("subresource", ""))
        owners[who] = Owner(entry.get("fieldsV1") or {}, version, entry.get("time"))
    return owners


def makes_sense(entries: Any) -> bool:
    """Whether owners sent by a client are usable; stored ones always are."""
    if not isinstance(entries, list):
        return False
    return all(isinstance(entry, dict) and fieldset.is_valid(entry.get("fieldsV1") or {}) for entry in entries)


def in_order(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries sent by a client, with their sets in order."""
    return [{**entry, "fieldsV1": fieldset.in_order(entry.get("fieldsV1") or {})} for entry in entries]


def is_reset(entries: Any) -> bool:
    """Whether a client resets ownership, by sending an empty list or a list with one empty entry."""
    return isinstance(entries, list) and len(entries) < 2 and not any(any((entry or {}).values()) for entry in entries)


def write(owners: Owners) -> list[dict[str, Any]]:
    entries = [_entry(who, owner) for who, owner in owners.items() if owner.fields]
    if len(entries) > 1:
        entries.sort(key=_place)
    return entries


def _place(entry: dict[str, Any]) -> tuple[str, ...]:
    """The sort key of entries."""
    time, below = entry.get("time", ""), entry.get("subresource", "")
    return (entry["operation"], time, entry["manager"], entry["apiVersion"], below)


def _entry(who: Identity, owner: Owner) -> dict[str, Any]:
    entry: dict[str, Any] = {"manager": who.name, "operation": who.operation, "apiVersion": owner.version}
    if owner.time:
        entry["time"] = owner.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = owner.fields
    if who.subresource:
        entry["subresource"] = who.subresource
    return entry


def renewed(entries: list[dict[str, Any]], who: Identity, touched: FieldSet, time: str) -> list[dict[str, Any]] | None:
    """The entries after a manager changed only fields that it alone already owned: at most its time differs.

    None if more differs, or if reading and writing would not reproduce exactly the same entries.
    """
    if len(entries) > MOST_UPDATERS:
        return None
    mine = None
    for index, entry in enumerate(entries):
        if not _as_written(entry):
            return None
        fields = entry["fieldsV1"]
        if _is_of(entry, who):
            if mine is not None or not fieldset.covers(fields, touched):
                return None
            mine = index
        elif fieldset.overlaps(fields, touched):
            return None
    if not touched:
        return entries
    if mine is None:
        return None
    if entries[mine].get("time") == time:
        return entries
    made = list(entries)
    made[mine] = {**entries[mine], "time": time}
    made.sort(key=_place)
    return made


def _as_written(entry: Any) -> bool:
    """Whether an entry has the form that `write` produces: all required fields, nothing empty, nothing else."""
    return (
        isinstance(entry, dict)
        and entry.get("operation") in (APPLY, UPDATE)
        and entry.get("fieldsType") == "FieldsV1"
        and bool(entry.get("manager") and entry.get("fieldsV1"))
        and "apiVersion" in entry
        and len(entry) == 5 + bool(entry.get("time")) + bool(entry.get("subresource"))
    )


def _is_of(entry: dict[str, Any], who: Identity) -> bool:
    return (
        entry["manager"] == who.name
        and entry["operation"] == who.operation
        and entry.get("subresource", "") == who.subresource
        and (who.operation == APPLY or entry["apiVersion"] == who.version)
    )


def cap(owners: Owners) -> None:
    """Merges the oldest updaters into one bucket per version while there are too many of them."""
    updaters = sorted(
        (who for who in owners if who.operation == UPDATE), key=lambda who: (owners[who].time or "", who.name)
    )
    first: dict[str, Identity] = {}
    count = len(updaters)
    for who in updaters:
        if count <= MOST_UPDATERS:
            return
        owner = owners[who]
        bucket = identity(ANCIENT_CHANGES, UPDATE, owner.version)
        if owner.version not in first:
            first[owner.version] = who
            continue
        if bucket not in owners:
            owners[bucket] = owners.pop(first[owner.version])
        if who != bucket:
            del owners[who]
        both = fieldset.in_order(union(owner.fields, owners[bucket].fields))
        owners[bucket] = Owner(both, owner.version, owner.time)
        count -= 1


def stamp(now: datetime | str) -> str:
    return now if isinstance(now, str) else f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
