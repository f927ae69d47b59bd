"""Server-side apply: PATCH with the fields one manager wants; it owns them from then on."""

from __future__ import annotations

from podfit.apiserver.calls import Call
from podfit.apiserver.forms import Form
from podfit.apiserver.negotiate import Accepted
from podfit.apiserver.options import WriteOptions
from podfit.apiserver.request import Response


async def apply(call: Call, accepted: Accepted, form: Form, options: WriteOptions) -> Response:
    raise NotImplementedError
