"""Custom resources: registers the kinds of stored definitions, and maintains the status of the definitions.

A definition is accepted if its names are free, then established and served. When it is deleted, its objects are deleted
first. The registry follows the stored definitions, regardless of which server wrote them.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import ALL, Kind, Registry, Subresource, kind_named
from podfit.api.schema import type_of
from podfit.api.schema.custom.structural import custom_struct
from podfit.api.schema.decoding.decode import convert
from podfit.api.schema.types import Struct
from podfit.api.status import ApiError
from podfit.apiserver.admission.webhooks.call import WebhookCaller
from podfit.apiserver.apis.discovery import Discovery, version_rank
from podfit.apiserver.representation import wire
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.storage.usable import warn
from podfit.apiserver.subresources.scale import ScaleHandlers, ScalePaths
from podfit.apiserver.tables.custom import custom_layout
from podfit.apiserver.tables.form import Tables
from podfit.apiserver.writing import deletes
from podfit.kit.clock import rfc3339
from podfit.kit.concurrency.tasks import Tasks
from podfit.store.backend import Mismatch, Record

log = logging.getLogger(__name__)
DEFINITION = kind_named("CustomResourceDefinition")
TERMINATING = "Terminating"
UNUSABLE = "NonStructuralSchema"
_GPU = ("get", "patch", "update")


class CustomResources:
    def __init__(
        self,
        objects: Objects,
        tables: Tables,
        discovery: Discovery,
        scales: ScaleHandlers,
        caller: WebhookCaller,
        notices: dict[tuple[str, str, str], str],
    ) -> None:
        """`caller` calls conversion webhooks; `notices` gets the warnings for users of deprecated versions."""
        self._objects, self._tables, self._discovery, self._scales = objects, tables, discovery, scales
        self._caller, self._notices = caller, notices
        self._registry: Registry = objects.registry
        self._served: dict[str, list[Kind]] = {}
        self._ending: dict[str, str] = {}
        self._tasks = Tasks("custom resources")

    async def start(self) -> None:
        """Serves the stored definitions, and establishes new ones. Unusable definitions are skipped."""
        for record in self._objects.store.scan(DEFINITION.storage_prefix):
            try:
                await self._settle(record.key)
            except Exception as error:
                warn(DEFINITION, wire.object_of(record), f"{type(error).__name__}: {error}")

    async def resync(self) -> None:
        """Resynchronises with the stored definitions."""
        prefix = DEFINITION.storage_prefix
        stored = {record.key.removeprefix(prefix) for record in self._objects.store.scan(prefix)}
        for name in self._served.keys() - stored:
            self.refresh(name, None)
        await self.start()

    async def stop(self) -> None:
        await self._tasks.stop()

    def changed(self, event: WatchEvent) -> None:
        """Called by the hub for each change."""
        if event.resource == DEFINITION.storage_prefix:
            problem = self.refresh(event.name, event.new)
            if event.new is not None and not _is_settled(event.new, problem):
                self._tasks.start(self._settle(event.change.key), f"settle {event.name}")
        elif event.change.record is None and event.resource in self._ending:
            self._tasks.start(self._settle(self._ending[event.resource]), "clean up")

    # --- rows -----------------------------------------------------------------------------------------------------

    def refresh(self, name: str, definition: Object | None) -> str:
        """Updates the registry to the definition, or removes its kinds if it is None. Returns why it cannot be served,
        "" if it can."""
        plural, _, group = name.partition(".")
        before = self._served.pop(name, [])
        for kind in before:
            self._objects.forget(kind)
        problem = ""
        if definition is not None:
            try:
                self._served[name] = self._served_of(readable(definition))
            except Exception as error:
                problem = str(error) or type(error).__name__
                warn(DEFINITION, {"metadata": {"name": name}}, problem)
        # Old versions are removed last: a version that remains is always registered, even while another thread
        # decodes a body.
        stays = {(kind.api_version, kind.kind, kind.plural) for kind in self._served.get(name, ())}
        for kind in before:
            if (kind.api_version, kind.kind, kind.plural) not in stays:
                self._registry.remove(kind)
        if not stays:
            self._objects.versions.forget(group, plural)
        self._discovery.forget()
        return problem

    def _served_of(self, definition: Object) -> list[Kind]:
        """Serves an established definition. Raises before serving anything if a version is invalid."""
        structs = [(version, _struct(definition, version)) for version in definition["spec"]["versions"]]
        if condition(definition, "Established") != "True":
            return []
        revision = int(definition["metadata"]["resourceVersion"])
        self._objects.versions.learn(definition, revision, self._caller)
        return [self._serve(definition, version, struct) for version, struct in structs if version.get("served")]

    def _serve(self, definition: Object, version: Object, struct: Struct) -> Kind:
        kind = replace(row_of(definition, version), struct=struct)
        self._registry.add(kind)
        self._tables.set(kind, custom_layout(version.get("additionalPrinterColumns")))
        resource = kind.group, kind.version, kind.plural
        fields = [row.get("jsonPath", "").lstrip(".") for row in version.get("selectableFields") or ()]
        self._objects.selectable[resource] = frozenset(fields)
        self._notices.pop(resource, None)
        if version.get("deprecated"):
            self._notices[resource] = version.get("deprecationWarning") or _deprecation(kind, definition)
        scale = (version.get("subresources") or {}).get("scale")
        if scale is not None:
            self._scales.custom[resource] = ScalePaths(
                _path(scale.get("specReplicasPath")),
                _path(scale.get("statusReplicasPath")),
                _path(scale.get("labelSelectorPath")),
            )
        return kind

    # --- the definition's own state -------------------------------------------------------------------------------

    async def _settle(self, key: str) -> None:
        """Establishes a definition, or deletes the objects of one that is being deleted."""
        while (record := self._objects.store.get(key)) is not None:
            definition = wire.object_of(record)
            name = definition["metadata"]["name"]
            if definition["metadata"].get("deletionTimestamp"):
                if not await self._clean_up(definition, record):
                    return
            else:
                problem = self.refresh(name, definition)
                if _is_settled(definition, problem):
                    return
                self._establish(definition, problem)
            if await self._write(definition, record):
                self.refresh(name, self._objects.get(DEFINITION, "", name))
                if not definition["metadata"].get("deletionTimestamp"):
                    return

    async def _write(self, definition: Object, record: Record) -> bool:
        try:
            if deletes.ends_with(DEFINITION, definition, wire.object_of(record)):
                await self._objects.store.delete(record.key, record.modified)
            else:
                await self._objects.put(DEFINITION, record.key, definition, record.modified)
        except Mismatch:
            return False
        return True

    def _establish(self, definition: Object, problem: str) -> None:
        status = definition.setdefault("status", {})
        if not isinstance(status, dict):
            status = definition["status"] = {}
        if problem:
            self._set_condition(status, UNUSABLE, "True", "Violations", problem)
            self._set_condition(status, "Established", "False", "NotServed", "the definition cannot be used")
            return
        if condition(definition, UNUSABLE):
            self._set_condition(status, UNUSABLE, "False", "NoViolations", "no violations found")
        taken = self._conflict(definition)
        if taken:
            rows = [
                ("NamesAccepted", "False", *taken),
                ("Established", "False", "NotAccepted", "not all names are accepted"),
            ]
        else:
            rows = [
                ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
                ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
            ]
            status["acceptedNames"] = definition["spec"]["names"]
        for row in rows:
            self._set_condition(status, *row)
        stored = next(row["name"] for row in definition["spec"]["versions"] if row.get("storage"))
        if stored not in (status.get("storedVersions") or []):
            status["storedVersions"] = [*(status.get("storedVersions") or []), stored]

    def _set_condition(self, status: Object, kind: str, word: str, reason: str, message: str) -> None:
        stored = status.get("conditions")
        rows = [row for row in stored if isinstance(row, dict)] if isinstance(stored, list) else []
        before = next((row for row in rows if row.get("type") == kind), None)
        same = before is not None and before.get("status") == word
        known = before.get("lastTransitionTime") if before and same else None
        since = known or rfc3339(self._objects.clock.now())
        made = {"type": kind, "status": word, "lastTransitionTime": since, "reason": reason, "message": message}
        others = [row for row in rows if row.get("type") != kind]
        at = len(others) if before is None else rows.index(before)
        status["conditions"] = [*others[:at], made, *others[at:]]

    def _conflict(self, definition: Object) -> tuple[str, str] | None:
        """(reason, message) if another kind of the group already has the names."""
        spec, name = definition["spec"], definition["metadata"]["name"]
        mine = {(kind.group, kind.plural) for kind in self._served.get(name, ())}
        for kind in self._registry:
            if kind.group != spec["group"] or (kind.group, kind.plural) in mine:
                continue
            if kind.plural == spec["names"]["plural"]:
                return "PluralConflict", f'"{kind.plural}" is already in use'
            if kind.kind == spec["names"]["kind"]:
                return "KindConflict", f'"{kind.kind}" is already in use'
        return None

    async def _clean_up(self, definition: Object, record: Record) -> bool:
        """Deletes the objects of a definition that is being deleted; True if its status has to be written."""
        spec, name = definition["spec"], definition["metadata"]["name"]
        why = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
        if condition(definition, TERMINATING, "reason") != why[0]:
            self._set_condition(definition.setdefault("status", {}), TERMINATING, "True", *why)
            return True
        prefix = f"/registry/{spec['group']}/{spec['names']['plural']}/"
        kinds = self._served.get(name) or [row_of(definition, version) for version in _served_versions(definition)]
        self._ending[prefix] = record.key
        for found in self._objects.store.scan(prefix):
            try:
                await self._remove(kinds[0], found)
            except (Mismatch, ApiError):
                continue
        if self._objects.store.count(prefix):
            return False
        self._ending.pop(prefix, None)
        finalizers = definition["metadata"].get("finalizers") or []
        if deletes.CLEANUP not in finalizers:
            return False
        definition["metadata"]["finalizers"] = [word for word in finalizers if word != deletes.CLEANUP]
        return True

    async def _remove(self, kind: Kind, record: Record) -> None:
        # Objects are deleted in their stored version, without conversion.
        obj = wire.object_of(record)
        verdict = deletes.decide(kind, obj, {}, self._objects.clock.now())
        if verdict.write:
            await self._objects.store.put(record.key, wire.stored_value(obj), record.modified)
        elif verdict.remove:
            await self._objects.store.delete(record.key, record.modified)


def row_of(definition: Object, version: Object) -> Kind:
    spec, names = definition["spec"], definition["spec"]["names"]
    wanted = version.get("subresources") or {}
    subs: tuple[Subresource, ...] = ()
    if "status" in wanted:
        subs += (Subresource("status", names["kind"], _GPU),)
    if "scale" in wanted:
        subs += (Subresource("scale", "Scale", _GPU, "autoscaling", "v1"),)
    return Kind(
        spec["group"],
        version["name"],
        names["kind"],
        names["plural"],
        spec.get("scope") == "Namespaced",
        tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()),
        subs,
        tuple(verb for verb in ALL if verb != "create" or condition(definition, TERMINATING) != "True"),
        custom=True,
        singular=names.get("singular") or names["kind"].lower(),
    )


def condition(definition: Object, kind: str, field: str = "status") -> str:
    status = definition.get("status")
    rows = status.get("conditions") if isinstance(status, dict) else None
    named = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return next((row.get(field, "") for row in named if row.get("type") == kind), "")


def readable(definition: Object) -> Object:
    """Decodes a stored definition as its type; ValueError if it does not match."""
    struct = type_of(DEFINITION)
    assert struct is not None
    return convert(definition, struct, field_validation="Ignore").obj


def _struct(definition: Object, version: Object) -> Struct:
    body, scale = (version.get("schema") or {}).get("openAPIV3Schema"), (version.get("subresources") or {}).get("scale")
    return custom_struct(row_of(definition, version), body, scale)


def _is_settled(definition: Object, problem: str) -> bool:
    if definition["metadata"].get("deletionTimestamp") or not condition(definition, "Established"):
        return False
    said = condition(definition, UNUSABLE, "message") if condition(definition, UNUSABLE) == "True" else ""
    if problem or said:
        return problem == said
    accepted = (definition.get("status") or {}).get("acceptedNames")
    return condition(definition, "NamesAccepted") != "True" or accepted == definition["spec"]["names"]


def _served_versions(definition: Object) -> list[Object]:
    return [version for version in definition["spec"]["versions"] if version.get("served")]


def _path(text: Any) -> tuple[str, ...]:
    return tuple(part for part in (text or "").split(".") if part)


def _deprecation(kind: Kind, definition: Object) -> str:
    """The warning about a deprecated version: it names the newest later version that is not deprecated."""
    rank = version_rank(kind.version)
    current = [row["name"] for row in definition["spec"]["versions"] if row.get("served") and not row.get("deprecated")]
    newer = sorted((name for name in current if version_rank(name) < rank), key=version_rank)
    better = f"; use {kind.group}/{newer[0]} {kind.kind}" if newer else ""
    return f"{kind.api_version} {kind.kind} is deprecated{better}"
