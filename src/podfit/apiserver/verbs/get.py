"""Handles GET of one object."""

from __future__ import annotations

from podfit.apiserver.calls import Call
from podfit.apiserver.request import Response
from podfit.apiserver.storage.revisions import parse_revision, wait_until
from podfit.apiserver.writing.options import first


async def get(call: Call) -> Response:
    accepted = call.accepted()
    form = call.form(accepted)
    revision = first(call.request.query, "resourceVersion")
    if revision:
        await wait_until(call.objects.store, parse_revision(revision))
    record = call.objects.required(call.kind, call.namespace, call.route.name)
    if call.kind.custom:
        record = (await call.objects.shown(call.kind, (record,)))[0]
    return call.answer(accepted, form, record)
