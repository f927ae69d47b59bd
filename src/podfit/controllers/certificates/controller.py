"""Certificate signing requests: approves those of nodes, signs approved ones, and deletes old ones.

Only client certificates of nodes are approved automatically, and only for requesters with permission: a bootstrap
identity that joins (`nodeclient`), or the node itself that renews (`selfnodeclient`).
"""

from __future__ import annotations

import base64
import logging

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.controllers.certificates.signers import NODE_CLIENT, SIGNERS, SigningRequest, objection, read_request
from podfit.controllers.context import ControllerContext
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

log = logging.getLogger(__name__)

CSR = kind_named("CertificateSigningRequest")
_ACCESS_REVIEW = kind_named("SubjectAccessReview")
_KEPT_S = {"issued": 3600.0, "denied": 3600.0, "pending": 86400.0}
_APPROVED = {
    "selfnodeclient": "Auto approving self kubelet client certificate after SubjectAccessReview.",
    "nodeclient": "Auto approving kubelet client certificate after SubjectAccessReview.",
}
"""By the permission of the requester, in the order of checking."""
NO_SIGNER = (
    "certificate signing request %s is approved, but this process has no key to sign it with: "
    "start controllers with --cluster-signing-cert-file and --cluster-signing-key-file"
)


class CertificatesController:
    name = "certificate-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._requests = context.cache(CSR)
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=context.clock)
        self._requests.subscribe(lambda before, after: self._engine.add(after["metadata"]["name"]) if after else None)

    async def run(self) -> None:
        await self._engine.run()

    async def _reconcile(self, name: str) -> Result:
        request = self._requests.get("", name)
        if request is None:
            return DONE
        state = state_of(request)
        if state == "pending" and (message := await self._may_approve(request["spec"])):
            await self._approve(request, message)
            return DONE
        if state == "approved" and request["spec"].get("signerName") in SIGNERS:
            if self._context.sign_request is not None:
                await self._sign(request)
                return DONE
            log.warning(NO_SIGNER, name)
        return await self._expire(request, "pending" if state == "approved" else state)

    async def _may_approve(self, spec: Object) -> str:
        """The message of the approval; "" if this controller must not approve it."""
        for right in rights_to_ask(spec):
            if await self._has_right(spec, right):
                return _APPROVED[right]
        return ""

    async def _has_right(self, spec: Object, subresource: str) -> bool:
        request: Object = {
            "user": spec.get("username", ""),
            "groups": spec.get("groups") or [],
            "uid": spec.get("uid") or "",
            "extra": spec.get("extra") or {},
            "resourceAttributes": {
                "group": CSR.group,
                "version": "*",
                "resource": CSR.plural,
                "subresource": subresource,
                "verb": "create",
            },
        }
        review = {"apiVersion": _ACCESS_REVIEW.api_version, "kind": _ACCESS_REVIEW.kind, "spec": request}
        answer = await self._context.client.create(_ACCESS_REVIEW, review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _approve(self, request: Object, message: str) -> None:
        approved = self._condition("Approved", "AutoApproved", message)
        await self._context.client.update(CSR, _with_condition(request, approved), "approval")

    async def _sign(self, request: Object) -> None:
        assert self._context.sign_request is not None
        spec = request["spec"]
        pem, usages = base64.b64decode(spec["request"]), spec.get("usages") or ()
        try:
            if refused := objection(spec["signerName"], read_request(pem), usages):
                failed = self._condition("Failed", "SignerValidationFailure", refused)
                await self._context.client.update(CSR, _with_condition(request, failed), "status")
                return
            certificate = self._context.sign_request(pem, usages, spec.get("expirationSeconds"))
        except ValueError as error:
            log.warning("certificate signing request %s cannot be signed: %s", request["metadata"]["name"], error)
            self._context.recorder.record(request, "Warning", "SigningFailed", str(error))
            return
        status = {**(request.get("status") or {}), "certificate": base64.b64encode(certificate).decode()}
        await self._context.client.update(CSR, {**request, "status": status}, "status")

    def _condition(self, type: str, reason: str, message: str) -> Object:
        now = rfc3339(self._context.clock.now())
        times = {"lastUpdateTime": now, "lastTransitionTime": now}
        return {"type": type, "status": "True", "reason": reason, "message": message, **times}

    async def _expire(self, request: Object, state: str) -> Result:
        born = parse_rfc3339(request["metadata"]["creationTimestamp"])
        left = born + _KEPT_S[state] - self._context.clock.now()
        if left > 0:
            return Requeue(left, "old requests are deleted")
        await self._context.client.delete(CSR, "", request["metadata"]["name"])
        return DONE


def _with_condition(request: Object, condition: Object) -> Object:
    status = request.get("status") or {}
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or []), condition]}}


def state_of(request: Object) -> str:
    status = request.get("status") or {}
    types = {condition["type"] for condition in status.get("conditions") or []}
    if "Denied" in types or "Failed" in types:
        return "denied"
    if status.get("certificate"):
        return "issued"
    return "approved" if "Approved" in types else "pending"


def rights_to_ask(spec: Object) -> tuple[str, ...]:
    """The permissions that would allow automatic approval; empty for anything but a node's client certificate."""
    if spec.get("signerName") != NODE_CLIENT:
        return ()
    try:
        request: SigningRequest = read_request(base64.b64decode(spec["request"]))
    except ValueError:
        return ()
    if objection(NODE_CLIENT, request, spec.get("usages") or ()):
        return ()
    return tuple(_APPROVED) if spec.get("username") == request.common_name else ("nodeclient",)
