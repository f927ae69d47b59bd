"""A certificate signing request cannot be used to act as another user."""

from __future__ import annotations

import base64

import pytest
from tests.support.servers.signing import new_request

from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.apiserver.admission.chain import build
from podfit.apiserver.auth.authorize import Authorization
from podfit.apiserver.auth.certs.certificates import new_key
from podfit.apiserver.auth.roles.rbac import Rbac
from podfit.apiserver.request import ADMIN, User

CSR = kind_named("CertificateSigningRequest")
JANE = User("jane", ("system:authenticated",), "u1")


@pytest.fixture
def rbac() -> Rbac:
    return Rbac()


@pytest.fixture
def chain(cluster, rbac):
    return build(cluster, authorization=Authorization([rbac]))


def request(name: str = "jane", *groups: str, **spec):
    pem = base64.b64encode(new_request(name, list(groups), new_key())).decode()
    signer = "kubernetes.io/kube-apiserver-client"
    return {"metadata": {"name": "r"}, "spec": {"request": pem, "signerName": signer, **spec}}


async def test_the_requesting_user_is_taken_from_the_connection_not_the_body(chain, write):
    attrs = write(request(username="admin", groups=["system:masters"]), kind=CSR, user=JANE)
    await chain.admit(attrs)
    assert attrs.object["spec"]["username"] == "jane" and attrs.object["spec"]["uid"] == "u1"
    assert attrs.object["spec"]["groups"] == ["system:authenticated"]


@pytest.mark.parametrize(("subresource", "verb"), [("approval", "approve"), ("status", "sign")])
async def test_approving_and_signing_need_the_verb_on_the_signer(cluster, write, subresource, verb):
    rbac = Rbac()
    chain = build(cluster, authorization=Authorization([rbac]))
    old = request()
    new = {**old, "status": {"certificate": "x", "conditions": [{"type": "Approved"}]}}
    attrs = write(new, old=old, kind=CSR, subresource=subresource, user=JANE)
    with pytest.raises(ApiError) as caught:
        await chain.validate(attrs)
    assert caught.value.message == (
        f'certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to {verb} requests '
        'with signerName "kubernetes.io/kube-apiserver-client"'
    )
    rule = {"verbs": [verb], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"]}
    rule["resourceNames"] = ["kubernetes.io/*"]
    rbac.changed("ClusterRole", None, {"metadata": {"name": "s"}, "rules": [rule]})
    binding = {"roleRef": {"kind": "ClusterRole", "name": "s"}, "subjects": [{"kind": "User", "name": "jane"}]}
    rbac.changed("ClusterRoleBinding", None, {"metadata": {"name": "b"}, **binding})
    chain = build(cluster, authorization=Authorization([rbac]))
    await chain.validate(attrs)


async def test_a_request_for_the_masters_group_is_rejected(chain, write):
    with pytest.raises(ApiError, match="signer with system:masters group is not allowed"):
        await chain.validate(write(request("eve", "system:masters"), kind=CSR, user=ADMIN))
