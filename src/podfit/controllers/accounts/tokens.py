"""Fills Secrets of type `kubernetes.io/service-account-token`, and deletes them with their ServiceAccount.

The token is bound to its Secret and valid as long as it exists; it practically never expires.
"""

from __future__ import annotations

import base64

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.controllers.context import ControllerContext
from podfit.reconcile import DONE, Engine, Result

ACCOUNT, SECRET = kind_named("ServiceAccount"), kind_named("Secret")
TOKEN = "kubernetes.io/service-account-token"
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_LONGEST_S = 1 << 32
"""The maximum lifetime of a token."""
Key = tuple[str, str]


class TokensController:
    name = "serviceaccount-token-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, clock=context.clock)
        self._accounts, self._secrets = context.cache(ACCOUNT), context.cache(SECRET)
        self._secrets.subscribe(lambda before, after: self._check(after) if after else None)
        self._accounts.subscribe(self._account_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _check(self, secret: Object) -> None:
        if secret.get("type") == TOKEN:
            self._engine.add((secret["metadata"]["namespace"], secret["metadata"]["name"]))

    def _account_changed(self, before: Object | None, after: Object | None) -> None:
        meta = (after or before or {})["metadata"]
        if before is None or after is None or before["metadata"]["uid"] != after["metadata"]["uid"]:
            for secret in self._secrets.by("namespace", meta["namespace"]):
                if _account_of(secret) == meta["name"]:
                    self._check(secret)

    async def _reconcile(self, key: Key) -> Result:
        secret = self._secrets.get(*key)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            return DONE
        name, meta = _account_of(secret), secret["metadata"]
        account = self._accounts.get(key[0], name) or await self._context.client.find(ACCOUNT, key[0], name)
        wanted = (meta.get("annotations") or {}).get(UID)
        try:
            if account is None or (wanted and wanted != account["metadata"]["uid"]):
                await self._context.client.delete(SECRET, *key, {"preconditions": {"uid": meta["uid"]}})
            else:
                await self._fill(secret, account)
        except ApiError as error:
            # Gone, or changed meanwhile: that triggers another pass.
            if error.code not in (404, 409):
                raise
        return DONE

    async def _fill(self, secret: Object, account: Object) -> None:
        meta, data = secret["metadata"], secret.get("data") or {}
        wanted = {"ca.crt": _coded(self._context.cluster_ca), "namespace": _coded(meta["namespace"].encode())}
        if not data.get("token"):
            wanted["token"] = _coded((await self._token(secret, account)).encode())
        annotations = {NAME: account["metadata"]["name"], UID: account["metadata"]["uid"]}
        if {**data, **wanted} == data and {**(meta.get("annotations") or {}), **annotations} == meta.get("annotations"):
            return
        noted = {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}
        await self._context.client.update(SECRET, {**secret, "metadata": noted, "data": {**data, **wanted}})

    async def _token(self, secret: Object, account: Object) -> str:
        meta = secret["metadata"]
        bound = {"apiVersion": "v1", "kind": "Secret", "name": meta["name"], "uid": meta["uid"]}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _LONGEST_S, "boundObjectRef": bound},
        }
        name = account["metadata"]["name"]
        answer = await self._context.client.create(ACCOUNT, body, meta["namespace"], name, "token")
        return str(answer["status"]["token"])


def _account_of(secret: Object) -> str:
    return str((secret["metadata"].get("annotations") or {}).get(NAME, ""))


def _coded(text: bytes) -> str:
    return base64.b64encode(text).decode()
