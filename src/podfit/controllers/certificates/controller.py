"""A node that joins asks for its client certificate by a CertificateSigningRequest: approve the ones that may, sign
what is approved, and clear away old requests.

Only node client certificates are approved by themselves: asked for by a bootstrap identity (joining) or by the node
itself (renewing), for exactly the name `system:node:…` in group `system:nodes`, for client use alone.
"""

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.x509.oid import NameOID

from podfit.api.kinds import kind_named
from podfit.api.status import Object
from podfit.controllers.world import World
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.reconcile import DONE, Again, Engine, Result

CSR = kind_named("CertificateSigningRequest")
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
SIGNED = (NODE_CLIENT, "kubernetes.io/kube-apiserver-client", "kubernetes.io/kubelet-serving")
_USAGES = {"digital signature", "key encipherment", "client auth"}
_KEPT_S = {"issued": 3600.0, "denied": 3600.0, "pending": 86400.0}


class CertificatesController:
    name = "certificate-controller"

    def __init__(self, world: World) -> None:
        self._world = world
        self._requests = world.cache(CSR)
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=world.clock)
        self._requests.subscribe(lambda before, after: self._engine.add(after["metadata"]["name"]) if after else None)

    async def run(self) -> None:
        await self._engine.run()

    async def _reconcile(self, name: str) -> Result:
        request = self._requests.get("", name)
        if request is None:
            return DONE
        state = state_of(request)
        if state == "pending" and may_approve(request["spec"]):
            await self._approve(request)
            return DONE
        if state == "approved" and self._world.sign_request and request["spec"].get("signerName") in SIGNED:
            await self._sign(request)
            return DONE
        return await self._expire(request, "pending" if state == "approved" else state)

    async def _approve(self, request: Object) -> None:
        now = rfc3339(self._world.clock.now())
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "AutoApproved",
            "message": "Auto approving kubelet client certificate after SubjectAccessReview.",
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        conditions = [*((request.get("status") or {}).get("conditions") or []), condition]
        body = {**request, "status": {**(request.get("status") or {}), "conditions": conditions}}
        await self._world.client.update(CSR, body, "approval")

    async def _sign(self, request: Object) -> None:
        assert self._world.sign_request is not None
        pem = base64.b64decode(request["spec"]["request"])
        try:
            spec = request["spec"]
            certificate = self._world.sign_request(pem, spec.get("usages") or (), spec.get("expirationSeconds"))
        except ValueError as error:
            self._world.recorder.record(request, "Warning", "SigningFailed", str(error))
            return
        status = {**(request.get("status") or {}), "certificate": base64.b64encode(certificate).decode()}
        await self._world.client.update(CSR, {**request, "status": status}, "status")

    async def _expire(self, request: Object, state: str) -> Result:
        born = parse_rfc3339(request["metadata"]["creationTimestamp"])
        left = born + _KEPT_S[state] - self._world.clock.now()
        if left > 0:
            return Again(left, "old requests are cleared away")
        await self._world.client.delete(CSR, "", request["metadata"]["name"])
        return DONE


def state_of(request: Object) -> str:
    status = request.get("status") or {}
    types = {condition["type"] for condition in status.get("conditions") or []}
    if "Denied" in types or "Failed" in types:
        return "denied"
    if status.get("certificate"):
        return "issued"
    return "approved" if "Approved" in types else "pending"


def may_approve(spec: Object) -> bool:
    """Whether this is a node asking for its own client certificate. Pure."""
    if spec.get("signerName") != NODE_CLIENT or not {"client auth"} <= set(spec.get("usages") or ()) <= _USAGES:
        return False
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    except ValueError:
        return False
    names = [str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if groups != ["system:nodes"] or len(names) != 1 or not names[0].startswith("system:node:"):
        return False
    asker, asked_by = spec.get("username", ""), set(spec.get("groups") or ())
    return asker == names[0] or "system:bootstrappers" in asked_by or "system:masters" in asked_by
