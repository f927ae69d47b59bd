"""GET of one object."""

from __future__ import annotations

from podfit.api.status import ApiError, go_quote
from podfit.apiserver.calls import Call
from podfit.apiserver.options import first
from podfit.apiserver.request import Response
from podfit.apiserver.revisions import wait_until

_INVALID = "resourceVersion: Invalid value: {0}: strconv.ParseUint: parsing {0}: invalid syntax"


async def get(call: Call) -> Response:
    accepted = call.accepted()
    form = call.form(accepted)
    revision = first(call.request.query, "resourceVersion")
    if revision:
        if not revision.isdecimal():
            raise ApiError(500, "", _INVALID.format(go_quote(revision)))
        await wait_until(call.objects.store, int(revision))
    record = call.objects.required(call.kind, call.namespace, call.route.name)
    return call.answer(accepted, form, record)
