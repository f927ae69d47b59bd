"""Handles PATCH of an object, or of a subresource that returns the whole object: JSON, merge and strategic patches,
apply."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.patches import APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC, patch_object
from podfit.api.schema import type_of
from podfit.api.schema.types import Struct
from podfit.api.status import ApiError, invalid, unprocessable
from podfit.apiserver.calls import Call
from podfit.apiserver.request import Response
from podfit.apiserver.storage.revisions import unsigned
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.verbs import apply
from podfit.apiserver.verbs.translated import Edit, translated
from podfit.apiserver.writing import custom_schema, managed
from podfit.apiserver.writing.bodies import check_name
from podfit.apiserver.writing.options import WriteOptions, media_type, write_options
from podfit.store.backend import Record

_TYPES = frozenset((JSON_PATCH, MERGE_PATCH, STRATEGIC, APPLY))


def patch_type(call: Call) -> str:
    media = media_type(call.request.headers.get("content-type", ""))
    if media not in _TYPES:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if media == STRATEGIC and call.kind.custom and call.route.subresource != "scale":
        known = ", ".join((JSON_PATCH, MERGE_PATCH, APPLY))
        why = f"the body of the request was in an unknown format - accepted media types include: {known}"
        raise ApiError(415, "UnsupportedMediaType", why)
    return media


async def patch(call: Call) -> Response:
    accepted = call.accepted()
    form = call.form(accepted)
    kind = patch_type(call)
    options = write_options(call.request.query, "PatchOptions", kind)
    if kind == APPLY:
        return await apply.apply(call, accepted, form, options)
    write = call.write(options, call.route.subresource)
    write.track = managed.updates(call, options)
    strategy = strategy_for(call.kind)
    struct = type_of(call.kind)
    assert struct is not None
    if (dialect := write.dialect) is not None:
        written = await call.parts.writer.update(
            write, translated(call, write, dialect, _patching(call, kind, options))
        )
        return call.written(accepted, form, written)
    write.shares = call.route.subresource in strategy.shared_subresources

    def change(stored: Object, record: Record) -> Object:
        obj = patched(call, stored, kind, struct, options)
        if not write.shares:
            custom_schema.default(call.kind, obj)
        elif strategy.own_changes(obj, stored):
            strategy.default(obj)
        return obj

    written = await call.parts.writer.update(write, change)
    return call.written(accepted, form, written)


def _patching(call: Call, kind: str, options: WriteOptions) -> Edit:
    def edit(shown: Object, struct: Struct) -> Object:
        return patched(call, shown, kind, struct, options)

    return edit


def patched(call: Call, stored: Object, kind: str, struct: Struct, options: WriteOptions) -> Object:
    body = call.request.sent if kind == STRATEGIC else call.request.body
    made = patch_object(stored, body, kind, struct, field_validation=options.validation, kind=call.kind)
    call.warnings += made.warnings
    obj = made.obj
    if call.kind.custom and obj.get("kind", call.kind.kind) != call.kind.kind:
        refusal = invalid("kind", obj["kind"], f"must be {call.kind.kind}")
        raise unprocessable(call.kind.kind, call.route.name, [refusal], call.kind.group)
    if obj.get("kind") != call.kind.kind or obj.get("apiVersion") != call.kind.api_version:
        obj["kind"], obj["apiVersion"] = call.kind.kind, call.kind.api_version
    if obj.get("metadata") is stored["metadata"]:
        return obj  # The object already has the name under which it is stored.
    meta = obj.setdefault("metadata", {})
    revision = meta.get("resourceVersion")
    if revision and (complaint := unsigned(revision)[1]):
        raise ApiError(500, "", complaint)
    check_name(obj, call.route.name, call.namespace)
    return obj
