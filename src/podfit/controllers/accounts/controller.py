"""Maintains ServiceAccount `default` and ConfigMap `kube-root-ca.crt` in every namespace that is not terminating."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, Kind, kind_named
from podfit.api.status import ApiError, is_namespace_going
from podfit.client import Client
from podfit.controllers.context import ControllerContext
from podfit.reconcile import DONE, Engine, Result

ACCOUNT, CONFIG = kind_named("ServiceAccount"), kind_named("ConfigMap")
ROOT_CA = "kube-root-ca.crt"
_ABOUT = "The certificates that verify the API server from inside the cluster."


class AccountsController:
    name = "serviceaccount-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client, self._publisher = context.client, context.acting("root-ca-cert-publisher").client
        self._ca = context.cluster_ca.decode()
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=context.clock)
        self._namespaces, self._accounts, self._configs = (context.cache(kind) for kind in (NAMESPACE, ACCOUNT, CONFIG))
        self._namespaces.subscribe(lambda before, after: self._engine.add(after["metadata"]["name"]) if after else None)
        self._accounts.subscribe(lambda before, after: self._on_deleted(before, after, "default"))
        self._configs.subscribe(lambda before, after: self._on_deleted(before, after, ROOT_CA))

    async def run(self) -> None:
        await self._engine.run()

    def _on_deleted(self, before: Object | None, after: Object | None, name: str) -> None:
        obj = after or before
        if obj is not None and before is not None and obj["metadata"]["name"] == name:
            self._engine.add(obj["metadata"]["namespace"])

    async def _reconcile(self, name: str) -> Result:
        namespace = self._namespaces.get("", name)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return DONE
        if self._accounts.get(name, "default") is None:
            await _create(self._client, ACCOUNT, {"metadata": {"name": "default", "namespace": name}})
        wanted = {"ca.crt": self._ca}
        config = self._configs.get(name, ROOT_CA)
        if config is None:
            meta = {"name": ROOT_CA, "namespace": name, "annotations": {"kubernetes.io/description": _ABOUT}}
            await _create(self._publisher, CONFIG, {"metadata": meta, "data": wanted})
        elif config.get("data") != wanted:
            await self._publish(config, wanted)
        return DONE

    async def _publish(self, config: Object, wanted: Object) -> None:
        try:
            await self._publisher.update(CONFIG, {**config, "data": wanted})
        except ApiError as error:
            # Changed or deleted meanwhile: the cache delivers that, and triggers another pass.
            if error.code not in (404, 409):
                raise


async def _create(client: Client, kind: Kind, obj: Object) -> None:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
    try:
        await client.create(kind, body)
    except ApiError as error:
        if error.code != 409 and not is_namespace_going(error):
            raise
