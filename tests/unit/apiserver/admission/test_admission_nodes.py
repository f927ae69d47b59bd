"""Restrictions of a node's identity: it cannot change its owners, read objects by reference, or act as another node."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.support.servers.signing import new_request

from podfit.api.registry.kinds import NODE, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.admission.base import UPDATE
from podfit.apiserver.admission.nodes.node_restriction import NodeRestriction
from podfit.apiserver.auth.certs.certificates import new_key
from podfit.apiserver.request import User

NODE1 = User("system:node:node1", ("system:nodes", "system:authenticated"))
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "u"}
CSR = kind_named("CertificateSigningRequest")


def node(**meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "node1", **meta}, "spec": {}}


@pytest.mark.parametrize(("old", "new"), [([], [OWNER]), ([OWNER], []), ([OWNER], [{**OWNER, "uid": "v"}])])
async def test_a_node_cannot_change_its_owners(cluster, write, old, new):
    attrs = write(node(ownerReferences=new), kind=NODE, old=node(ownerReferences=old), user=NODE1, operation=UPDATE)
    with pytest.raises(ApiError, match='node "node1" is not allowed to modify ownerReferences'):
        await NodeRestriction(cluster).admit(attrs)


async def test_a_node_may_update_itself_with_the_owners_it_has(cluster, write):
    old = node(ownerReferences=[OWNER])
    await NodeRestriction(cluster).admit(write(dict(old), kind=NODE, old=old, user=NODE1, operation=UPDATE))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"serviceAccountName": "a"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "s"}]}, "secrets"),
        ({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}]}, "configmaps"),
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "r"}]}, "resourceclaims"),
        ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "csidrivers \\(via CSI volumes\\)"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentvolumeclaims$"),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, "persistentvolumeclaims \\(via ephemeral volumes\\)"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "serviceaccounts \\(via projected volumes\\)",
        ),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"podCertificate": {}}]}}]}, "podcertificates"),
    ],
)
async def test_a_mirror_pod_refers_to_nothing_else(cluster, write, pod, spec, words):
    uid = cluster.put(NODE, node())["metadata"]["uid"]
    mirror = pod(nodeName="node1", **spec)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": uid, "controller": True}
    mirror["metadata"]["ownerReferences"] = [owner]
    with pytest.raises(ApiError, match=f'node "node1" can not create pods that reference {words}'):
        await NodeRestriction(cluster).admit(write(mirror, user=NODE1))


async def test_a_mirror_pod_with_files_of_its_node_is_allowed(cluster, write, pod):
    uid = cluster.put(NODE, node())["metadata"]["uid"]
    mirror = pod(nodeName="node1", volumes=[{"name": "v", "hostPath": {"path": "/etc"}}])
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": uid, "controller": True}
    mirror["metadata"]["ownerReferences"] = [owner]
    await NodeRestriction(cluster).admit(write(mirror, user=NODE1))


def request(name: str, signer: str) -> dict[str, Any]:
    pem = new_request(name, ("system:nodes",), new_key())
    spec = {"signerName": signer, "request": base64.b64encode(pem).decode(), "usages": ["client auth"]}
    return {"metadata": {"name": "r"}, "spec": spec}


@pytest.mark.parametrize("signer", ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"])
async def test_a_node_requests_certificates_in_its_own_name_only(cluster, write, signer):
    plugin = NodeRestriction(cluster)
    await plugin.admit(write(request("system:node:node1", signer), kind=CSR, user=NODE1))
    with pytest.raises(ApiError, match="can only create a node CSR with CN=system:node:node1"):
        await plugin.admit(write(request("system:node:node2", signer), kind=CSR, user=NODE1))


async def test_a_request_that_cannot_be_read_is_refused(cluster, write):
    body = request("x", "kubernetes.io/kubelet-serving")
    body["spec"]["request"] = base64.b64encode(b"nonsense").decode()
    with pytest.raises(ApiError, match="unable to parse csr"):
        await NodeRestriction(cluster).admit(write(body, kind=CSR, user=NODE1))
