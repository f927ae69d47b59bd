"""Admission of certificate signing requests: records the requester, and checks permission to approve and to sign.

Four plugins: one that cannot be disabled sets the requester to the authenticated user; CertificateApproval,
CertificateSigning and CertificateSubjectRestriction are those of Kubernetes. A client that could choose the user name
in a request, or approve a request for any signer, could impersonate any user.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from podfit.apiserver.admission.base import CREATE, UPDATE, Attributes, Plugin, spec_of
from podfit.apiserver.auth.authorize import MASTERS, Action, Authorization
from podfit.apiserver.auth.certs.certificates import BadRequestPem, subject_of_request
from podfit.apiserver.auth.reviews import user_info

_RESOURCE = ("certificates.k8s.io", "certificatesigningrequests")
_CLIENT = "kubernetes.io/kube-apiserver-client"


class CertificateRequests(Plugin):
    """Sets the requester at creation. Later writes cannot change it: the strategy of the kind preserves it."""

    name = "CertificateRequests"

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == _RESOURCE and attrs.operation == CREATE

    async def admit(self, attrs: Attributes) -> None:
        assert attrs.object is not None
        requested = {k: v for k, v in spec_of(attrs.object).items() if k not in ("username", "uid", "groups", "extra")}
        attrs.object["spec"] = {**requested, **user_info(attrs.user)}


class _SignerPlugin(Plugin):
    subresource, verb = "", ""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == _RESOURCE and attrs.operation == UPDATE and attrs.subresource == self.subresource

    def _check(self, attrs: Attributes) -> None:
        signer = str(spec_of(attrs.old).get("signerName") or "")
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            action = Action(self.verb, _RESOURCE[0], "signers", name=name)
            if self._authorization.decide(attrs.user, action).allowed:
                return
        raise attrs.forbid(f'user not permitted to {self.verb} requests with signerName "{signer}"')


class CertificateApproval(_SignerPlugin):
    name = "CertificateApproval"
    subresource, verb = "approval", "approve"

    async def validate(self, attrs: Attributes) -> None:
        self._check(attrs)


class CertificateSigning(_SignerPlugin):
    name = "CertificateSigning"
    subresource, verb = "status", "sign"

    async def validate(self, attrs: Attributes) -> None:
        if _answer(attrs.old) != _answer(attrs.object):
            self._check(attrs)


def _answer(request: dict[str, Any] | None) -> tuple[Any, Any]:
    status = (request or {}).get("status") or {}
    return status.get("certificate"), status.get("conditions") or []


class CertificateSubjectRestriction(Plugin):
    name = "CertificateSubjectRestriction"

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == _RESOURCE and attrs.operation == CREATE and not attrs.subresource

    async def validate(self, attrs: Attributes) -> None:
        spec = spec_of(attrs.object)
        if spec.get("signerName") != _CLIENT:
            return
        try:
            _, groups = subject_of_request(base64.b64decode(spec.get("request") or ""))
        except (BadRequestPem, binascii.Error):
            return  # validation reports its own errors for an invalid request
        if MASTERS in groups:
            raise attrs.forbid(f"use of {_CLIENT} signer with {MASTERS} group is not allowed")
