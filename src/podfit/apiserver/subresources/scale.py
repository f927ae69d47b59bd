"""Handles the scale subresource: the number of replicas, for all kinds that have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object
from podfit.api.patches import APPLY, patch_object
from podfit.api.patches.apply import apply_patch, not_converted, track_update
from podfit.api.patches.apply.scales import narrowed, widened
from podfit.api.registry.kinds import Kind
from podfit.api.schema import type_of
from podfit.api.schema.decoding.decode import DecodeError, convert
from podfit.api.schema.decoding.notes import UNSTRUCTURED
from podfit.api.schema.types import Struct
from podfit.api.status import internal_error, invalid, unprocessable
from podfit.apiserver.calls import Call
from podfit.apiserver.representation.forms import MetadataOnly
from podfit.apiserver.representation.negotiate import TABLE, Accepted
from podfit.apiserver.request import Response
from podfit.apiserver.tables.columns import AGE, NAME, Column, Layout, age, selector_text
from podfit.apiserver.tables.form import TableForm, Tables
from podfit.apiserver.verbs.apply import read_configuration
from podfit.apiserver.verbs.patch import patch_type
from podfit.apiserver.writing import managed
from podfit.apiserver.writing.bodies import check_name, received
from podfit.apiserver.writing.options import WriteOptions, first, write_options
from podfit.apiserver.writing.write import Change, SubresourceView, Track
from podfit.kit.clock import rfc3339
from podfit.store.backend import Record

SCALE = Kind("autoscaling", "v1", "Scale", "scales", True)


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The paths of the replica counts in an object; a custom resource's definition declares its own."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")


class ScaleHandlers:
    def __init__(self) -> None:
        self.custom: dict[tuple[str, str, str], ScalePaths] = {}

    def where(self, kind: Kind) -> ScalePaths:
        return self.custom.get((kind.group, kind.version, kind.plural)) or _BUILT_IN

    async def handle(self, call: Call) -> Response:
        verb, accepted = call.route.verb, call.accepted()
        if verb == "get":
            record = call.objects.required(call.kind, call.namespace, call.route.name)
            record = (await call.objects.shown(call.kind, (record,)))[0]
            obj, path = call.objects.served(call.kind, record), self.where(call.kind).replicas
            if call.kind.custom and _lookup(obj, path) is None:
                raise internal_error(f'the spec replicas field ".{".".join(path)}" does not exist')
            return _answer(call, accepted, self._scale(call.kind, obj))
        written = await (self._put(call) if verb == "update" else self._patch(call))
        return _answer(call, accepted, self._scale(call.kind, written))

    async def _put(self, call: Call) -> Object:
        options = write_options(call.request.query, "UpdateOptions")
        scale = await received(call, SCALE, options.validation)
        check_name(scale, call.route.name, call.namespace)

        def change(stored: Object, record: Record) -> Object:
            return self._scaled(call, stored, scale)

        return await self._write(call, options, change, self._tracking(call, options))

    async def _patch(self, call: Call) -> Object:
        media = patch_type(call)
        options = write_options(call.request.query, "PatchOptions", media)
        struct = _struct()
        if media == APPLY:
            return await self._apply(call, options)

        def change(stored: Object, record: Record) -> Object:
            now = self._scale(call.kind, stored)
            made = patch_object(now, call.request.body, media, struct, field_validation=options.validation)
            call.warnings[:] = made.warnings
            check_name(made.obj, call.route.name, call.namespace)
            return self._scaled(call, stored, made.obj)

        return await self._write(call, options, change, self._tracking(call, options))

    async def _apply(self, call: Call, options: WriteOptions) -> Object:
        call.objects.required(call.kind, call.namespace, call.route.name)
        applied = read_configuration(call, SCALE, options)
        manager, path = managed.manager_of(call, options), self.where(call.kind).replicas

        def change(stored: Object, record: Record) -> Object:
            live, entries = self._scale(call.kind, stored), stored["metadata"].get("managedFields")
            live["metadata"]["managedFields"] = narrowed(entries, path)
            now = rfc3339(call.objects.clock.now())
            made = apply_patch(live, applied, _struct(), manager, options.force, now, "scale")
            try:
                made = convert(made, _struct(), field_validation="Ignore", dialect=UNSTRUCTURED).obj
            except DecodeError as error:
                raise not_converted(applied, str(error)) from None
            check_name(made, call.route.name, call.namespace)
            owners = widened(entries, made["metadata"].get("managedFields"), path, call.kind.api_version)
            stored = self._scaled(call, stored, made)
            return {**stored, "metadata": {**stored["metadata"], "managedFields": owners}}

        return await self._write(call, options, change, None)

    async def _write(self, call: Call, options: WriteOptions, change: Change, track: Track | None) -> Object:
        write = call.write(options)
        write.track, write.subresource_view = track, self._lens(call)
        return (await call.parts.writer.update(write, change)).obj

    def _lens(self, call: Call) -> SubresourceView:
        def put_back(obj: Object, scale: Object) -> Object:
            return self._scaled(call, obj, scale) if scale != self._scale(call.kind, obj) else obj

        return SubresourceView("scale", lambda obj: self._scale(call.kind, obj), put_back)

    def _tracking(self, call: Call, options: WriteOptions) -> Track:
        """Field tracking for writes of a Scale: the writer owns the replicas of the object, and no other field."""
        manager, path = managed.manager_of(call, options), self.where(call.kind).replicas

        def track(new: Object, old: Object | None) -> None:
            assert old is not None
            entries = old["metadata"].get("managedFields")
            before, after = (self._scale(call.kind, obj) for obj in (old, new))
            for scale in (before, after):
                scale["metadata"]["managedFields"] = narrowed(entries, path)
            now = rfc3339(call.objects.clock.now())
            track_update(before, after, _struct(), manager, "Update", now, "scale")
            owners = widened(entries, after["metadata"].get("managedFields"), path, call.kind.api_version)
            if owners:
                new["metadata"]["managedFields"] = owners

        return track

    def _scaled(self, call: Call, stored: Object, scale: Object) -> Object:
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if replicas < 0 and not call.kind.custom:
            # Custom resources are rejected by their own validation.
            error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise unprocessable("Scale", call.route.name, [error], "autoscaling")
        revision = (scale.get("metadata") or {}).get("resourceVersion")
        if revision and revision != stored["metadata"]["resourceVersion"]:
            raise call.objects.modified(call.kind, call.route.name)
        *path, last = self.where(call.kind).replicas
        made = at = dict(stored)
        for part in path:
            at[part] = dict(at.get(part) or {})
            at = at[part]
        at[last] = replicas
        return made

    def _scale(self, kind: Kind, obj: Object) -> Object:
        where, meta = self.where(kind), obj["metadata"]
        shown = {
            name: meta[name]
            for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if name in meta
        }
        replicas = _lookup(obj, where.replicas) or 0
        status: Object = {"replicas": _lookup(obj, where.status_replicas) or 0}
        selector = _selector(_lookup(obj, where.selector))
        if selector:
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": shown,
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }


_BUILT_IN = ScalePaths()
_TABLES = Tables()
_TABLES.set(
    SCALE,
    Layout(
        (
            NAME,
            Column("Desired", "integer", "The number of pods that is wanted."),
            Column("Available", "integer", "The number of pods there are."),
            AGE,
        ),
        lambda scale: [
            scale["metadata"]["name"],
            scale["spec"].get("replicas", 0),
            scale["status"]["replicas"],
            age(scale),
        ],
    ),
)


def _answer(call: Call, accepted: Accepted, scale: Object) -> Response:
    if accepted.shape == TABLE:
        include, now_s = first(call.request.query, "includeObject"), call.objects.clock.now()
        return call.answer(accepted, TableForm(_TABLES, SCALE, accepted.version, include, now_s), scale)
    if accepted.shape:
        return call.answer(accepted, MetadataOnly(accepted.version), scale)
    return call.answer_value(scale, accepted=accepted)


def _struct() -> Struct:
    struct = type_of(SCALE)
    assert struct is not None
    return struct


def _lookup(obj: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return None
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _selector(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or not value:
        return ""
    if {"matchLabels", "matchExpressions"} & value.keys():
        return selector_text(value)
    return selector_text({"matchLabels": value})
