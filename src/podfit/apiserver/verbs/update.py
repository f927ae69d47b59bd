"""Handles PUT of an object, or of a subresource that takes and returns the whole object (status, resize, …)."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import ApiError, not_found
from podfit.apiserver.calls import Call
from podfit.apiserver.request import Response
from podfit.apiserver.storage.revisions import unsigned
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.verbs.translated import translated
from podfit.apiserver.writing import managed
from podfit.apiserver.writing.bodies import check_name, read_object, received
from podfit.apiserver.writing.options import write_options
from podfit.store.backend import Record


async def update(call: Call) -> Response:
    accepted = call.accepted()
    form = call.form(accepted)
    options = write_options(call.request.query, "UpdateOptions")
    write = call.write(options, call.route.subresource)
    dialect = write.dialect
    if dialect is not None:
        obj = await received(call, call.kind, options.validation, dialect.struct(call.kind))
    else:
        obj = await call.offload(lambda: read_object(call, call.kind, options.validation))
    check_name(obj, call.route.name, call.namespace)
    write.track, write.replaces = managed.updates(call, options), True
    if call.objects.record(call.kind, call.namespace, call.route.name) is None:
        if call.route.subresource or not strategy_for(call.kind).create_on_update:
            raise not_found(call.kind.plural, call.route.name, call.kind.group)
        if not options.dry_run:
            obj["metadata"].pop("resourceVersion", None)
        written = await call.parts.writer.create(write, obj)
        return call.written(accepted, form, written, 201)
    revision = (obj.get("metadata") or {}).get("resourceVersion")
    stated = bool(revision)
    if revision and (complaint := unsigned(revision)[1]):
        raise ApiError(500, "", complaint)
    if dialect is not None:
        change = translated(call, write, dialect, lambda shown, struct: obj)
        return call.written(accepted, form, await call.parts.writer.update(write, change, retry=not stated))
    sent = [obj]

    def replace(stored: Object, record: Record) -> Object:
        # The first attempt may use the decoded body itself; a retry after a conflict decodes it again.
        return sent.pop() if sent else read_object(call, call.kind, "Ignore")

    written = await call.parts.writer.update(write, replace, retry=not stated)
    return call.written(accepted, form, written)
