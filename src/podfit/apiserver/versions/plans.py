"""Converts objects of a custom resource from the stored version to a client's, and back.

A record that is already in the requested form, which is detected without decoding, is used unchanged. Any other record
is decoded, defaulted, pruned of fields that its schema no longer has (the definition may have changed), and converted
to a record of its own, which is cached until the object changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry import vpa_versions
from podfit.api.registry.kinds import Kind
from podfit.api.schema.custom.structural import CustomSchema
from podfit.apiserver.admission.webhooks.call import WebhookCaller
from podfit.apiserver.representation import wire
from podfit.apiserver.versions.webhook import ConversionWebhook
from podfit.store.backend import Record

_NATIVE = (vpa_versions.V1, vpa_versions.V1ALPHA1)
_REMEMBERED = 4096
_LARGE = 64 * 1024
"""The size above which a conversion is not cached."""


class VersionPlan:
    """The conversions between the versions of one definition."""

    def __init__(self, definition: Object, revision: int, caller: WebhookCaller) -> None:
        self.spec: Object = definition["spec"]
        spec = self.spec
        group, kind = spec["group"], spec["names"]["kind"]
        schemas: dict[str, Any] = {
            f"{group}/{row['name']}": (row.get("schema") or {}).get("openAPIV3Schema") for row in spec["versions"]
        }
        self.schemas = {name: CustomSchema(schema) for name, schema in schemas.items()}
        self.storage = next(f"{group}/{row['name']}" for row in spec["versions"] if row.get("storage"))
        self.heads = {name: wire.head_of(kind, name) for name in schemas}
        conversion = spec.get("conversion") or {}
        self.webhook: ConversionWebhook | None = None
        if conversion.get("strategy") == "Webhook":
            self.webhook = ConversionWebhook(conversion.get("webhook") or {}, caller)
        self.native = group == vpa_versions.GROUP and spec["names"]["plural"] == vpa_versions.PLURAL
        """Whether this server converts the objects itself."""
        first = next(iter(schemas.values()))
        self.converts = len(schemas) > 1 and (
            self.webhook is not None or any(schema != first for schema in schemas.values())
        )
        """Whether two versions of an object differ in more than apiVersion."""
        changed = definition["metadata"].get("generation", 1) > 1
        self.since = revision if changed else 0
        """The revision of the definition: earlier records may have been written under another schema."""

    def fits(self, record: Record, head: bytes) -> bool:
        return record.modified > self.since and (not self.converts or record.value.startswith(head))

    def renewed(self, record: Record) -> Object:
        """The object, defaulted and pruned by the current schema of its own version."""
        obj = wire.object_of(record)
        schema = self.schemas.get(obj["apiVersion"])
        if schema is not None and record.modified <= self.since:
            obj, _ = schema.prune(obj)
            schema.default(obj)
        return obj

    async def convert(self, objects: list[Object], api_version: str) -> list[Object]:
        """Converts objects to the given version."""
        if self.webhook is not None:
            objects = await self.webhook.convert(objects, api_version)
        elif self.native and all(obj["apiVersion"] in _NATIVE and api_version in _NATIVE for obj in objects):
            objects = [vpa_versions.convert(obj, api_version) for obj in objects]
        else:
            objects = [{**obj, "apiVersion": api_version} for obj in objects]
        schema = self.schemas.get(api_version)
        return objects if schema is None else [schema.prune(obj)[0] for obj in objects]


class Versions:
    """The plans of all existing definitions. Kinds without a plan are served in their stored form."""

    def __init__(self) -> None:
        self._plans: dict[tuple[str, str], VersionPlan] = {}
        self._shown: dict[tuple[str, str], tuple[int, VersionPlan, Record]] = {}

    def learn(self, definition: Object, revision: int, caller: WebhookCaller) -> None:
        spec = definition["spec"]
        resource = spec["group"], spec["names"]["plural"]
        known = self._plans.get(resource)
        if known is None or known.spec != spec:
            self._plans[resource] = VersionPlan(definition, revision, caller)

    def forget(self, group: str, plural: str) -> None:
        self._plans.pop((group, plural), None)

    def converts(self, kind: Kind) -> bool:
        plan = self._plans.get((kind.group, kind.plural))
        return plan is not None and plan.converts

    async def served(self, kind: Kind, records: Sequence[Record]) -> Sequence[Record]:
        """The records converted for clients of `kind`; the same sequence if none needs conversion."""
        plan = self._plans.get((kind.group, kind.plural))
        wanted = kind.api_version
        head = plan.heads.get(wanted, b"") if plan is not None else b""
        if plan is None or all(plan.fits(record, head) for record in records):
            return records
        shown = [self._cached(plan, record, wanted) for record in records]
        missing = [at for at, record in enumerate(shown) if record is None]
        for at, obj in zip(missing, await self._converted(plan, [records[at] for at in missing], wanted), strict=True):
            record = records[at]
            shown[at] = made = Record(record.key, wire.stored_value(obj), record.created, record.modified)
            self._cache(plan, made, wanted)
        return [record for record in shown if record is not None]

    async def _converted(self, plan: VersionPlan, records: list[Record], wanted: str) -> list[Object]:
        objects = [plan.renewed(record) for record in records]
        others = [at for at, obj in enumerate(objects) if obj["apiVersion"] != wanted]
        if others:
            converted = await plan.convert([objects[at] for at in others], wanted)
            for at, obj in zip(others, converted, strict=True):
                objects[at] = obj
        return objects

    def _cached(self, plan: VersionPlan, record: Record, wanted: str) -> Record | None:
        if plan.fits(record, plan.heads.get(wanted, b"")):
            return record
        known = self._shown.get((record.key, wanted))
        if known is not None and known[0] == record.modified and known[1] is plan:
            return known[2]
        return None

    def _cache(self, plan: VersionPlan, record: Record, wanted: str) -> None:
        if len(record.value) > _LARGE:
            return
        if len(self._shown) >= _REMEMBERED:
            self._shown.clear()
        self._shown[record.key, wanted] = (record.modified, plan, record)

    async def convert(self, obj: Object, kind: Kind, other: Kind) -> Object:
        """Converts an object to another version; `obj` itself is not modified."""
        plan = self._plans.get((kind.group, kind.plural))
        if plan is None or not plan.converts:
            return {**obj, "apiVersion": other.api_version}
        return (await plan.convert([obj], other.api_version))[0]

    async def stored(self, kind: Kind, obj: Object) -> Object:
        """An object of `kind` in its stored form; `obj` itself is not modified."""
        plan = self._plans.get((kind.group, kind.plural))
        if plan is None or plan.storage == kind.api_version:
            return obj
        if not plan.converts:
            return {**obj, "apiVersion": plan.storage}
        return (await plan.convert([obj], plan.storage))[0]
