"""Handles DELETE of one object or of a collection."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import forbidden, not_found
from podfit.apiserver.admission.base import DELETE, Attributes
from podfit.apiserver.calls import Call, success
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.selection import chosen
from podfit.apiserver.request import Response
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.verbs.list import prefix_of, visible
from podfit.apiserver.writing import deletes
from podfit.apiserver.writing.bodies import json_body
from podfit.apiserver.writing.options import delete_options, list_options
from podfit.apiserver.writing.writes import RETRIES
from podfit.store.backend import Mismatch, Record


async def delete(call: Call) -> Response:
    accepted = call.accepted()
    form = call.form(accepted)
    options = await call.offload(lambda: delete_options(call.request.query, json_body(call)))
    call.warnings += deletes.warnings(call.kind, options)
    if why := strategy_for(call.kind).kept_for(call.route.name):
        raise forbidden(call.kind.plural, call.route.name, why, call.kind.group)
    obj, gone = await remove(call, call.kind, call.namespace, call.route.name, options)
    if gone and (call.kind.group, call.kind.plural) not in deletes.RETURNS_OBJECT:
        return call.answer_value(success(0, _details(call.kind, obj)))
    return call.answer(accepted, form, obj)


def _details(kind: Kind, obj: Object) -> Object:
    details: Object = {"name": obj["metadata"]["name"]}
    if kind.group:
        details["group"] = kind.group
    return {**details, "kind": kind.plural, "uid": obj["metadata"].get("uid", "")}


async def remove(call: Call, kind: Kind, namespace: str, name: str, options: Object) -> tuple[Object, bool]:
    """Deletes an object or marks it for deletion. Returns the object, and whether it has been removed."""
    objects = call.objects
    for _ in range(RETRIES):
        record = objects.required(kind, namespace, name)
        if kind.custom:
            record = (await objects.shown(kind, (record,)))[0]
        obj = objects.served(kind, record)
        old = objects.served(kind, record) if kind.custom else objects.decoded(record)
        deletes.check_preconditions(kind, obj, options)
        dry_run = bool(options.get("dryRun"))
        attrs = Attributes(DELETE, kind, "", namespace, name, None, old, call.request.user, dry_run, options)
        await call.parts.writer.chain.admit(attrs)
        await call.parts.writer.chain.validate(attrs)
        verdict = deletes.decide(kind, obj, options, objects.clock.now())
        if dry_run:
            return obj, verdict.remove
        try:
            return await _carry_out(call, kind, record, obj, verdict)
        except Mismatch as lost:
            if lost.current is None:
                raise not_found(kind.plural, name, kind.group) from None
    raise objects.modified(kind, name)


async def _carry_out(
    call: Call, kind: Kind, record: Record, obj: Object, verdict: deletes.DeleteOutcome
) -> tuple[Object, bool]:
    store, expect = call.objects.store, record.modified
    if verdict.write:
        expect = (await call.objects.put(kind, record.key, obj, expect)).modified
    if not verdict.remove:
        return obj, False
    change = await store.delete(record.key, expect)
    # The written object is shared and must not be modified.
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(change.revision)}}, True


async def delete_collection(call: Call) -> Response:
    accepted = call.accepted()
    form = call.form(accepted)
    options = await call.offload(lambda: delete_options(call.request.query, json_body(call)))
    call.warnings += deletes.warnings(call.kind, options)
    wanted = list_options(call.request.query, False)
    selection = chosen(call.objects, call.kind, wanted.label_selector, wanted.field_selector)
    revision = call.objects.store.revision
    records = call.objects.store.scan(prefix_of(call.kind, call.namespace))
    if selection is not None:
        taken: list[Record] = []
        candidates = await visible(call, records, selection)
        await call.parts.long_responses.run(call.request, selection.filter(candidates, taken))
        chosen_keys = {record.key for record in taken}
        records = [record for record in records if record.key in chosen_keys]
    shown = await call.objects.shown(call.kind, records)
    for record in records:
        meta = wire.object_of(record)["metadata"]
        try:
            await remove(call, call.kind, meta.get("namespace", ""), meta["name"], dict(options))
        except Exception as error:
            if getattr(error, "code", 0) != 404:
                raise
    return await call.reply_list(accepted, form, shown, revision, None)
