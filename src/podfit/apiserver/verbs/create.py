"""Handles POST to a collection."""

from __future__ import annotations

from podfit.apiserver.calls import Call
from podfit.apiserver.request import Response
from podfit.apiserver.verbs.translated import created
from podfit.apiserver.writing import managed
from podfit.apiserver.writing.bodies import read_object, received
from podfit.apiserver.writing.options import write_options


async def create(call: Call) -> Response:
    accepted = call.accepted()
    form = call.form(accepted)
    options = write_options(call.request.query, "CreateOptions")
    write = call.write(options)
    if (dialect := write.dialect) is not None:
        obj = created(
            call, write, dialect, await received(call, call.kind, options.validation, dialect.struct(call.kind))
        )
    else:
        obj = await call.offload(lambda: read_object(call, call.kind, options.validation))
    write.track = managed.updates(call, options)
    written = await call.parts.writer.create(write, obj)
    return call.written(accepted, form, written, 201)
