"""Serves ComponentStatuses, which are not stored but generated from the health of the store on each request.

Kubernetes has one for each control-plane component on the API server's machine. Components of podfit report their
health at their own /healthz and in metrics, so only the store is listed, under the name that etcd has in Kubernetes.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import not_found
from podfit.apiserver.calls import Call
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.selection import chosen
from podfit.apiserver.request import Response
from podfit.apiserver.writing.options import list_options
from podfit.store.backend import Record, Store

_STORE = "etcd-0"


class ComponentStatuses:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def answer(self, call: Call) -> Response:
        accepted = call.accepted()
        form = call.form(accepted)
        record = self._record(call.kind)
        if call.route.verb == "list":
            options = list_options(call.request.query, False)
            selection = chosen(call.objects, call.kind, options.label_selector, options.field_selector)
            rows = (record,) if selection is None or selection.takes(record) else ()
            return await call.reply_list(accepted, form, rows, 0, None)
        if call.route.name != _STORE:
            raise not_found(call.kind.plural, call.route.name)
        return call.answer(accepted, form, wire.object_of(record))

    def _record(self, kind: Kind) -> Record:
        problem = self._store.problem
        condition: Object = {"type": "Healthy", "status": "False" if problem else "True", "message": problem or "ok"}
        obj = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": {"name": _STORE},
            "conditions": [condition],
        }
        return Record(kind.key("", _STORE), wire.encode(obj), 0, 0)
