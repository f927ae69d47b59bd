"""The Node authorizer's graph, and impersonation."""

from __future__ import annotations

import msgspec
import pytest

from podfit.api.status import ApiError
from podfit.apiserver.auth.authorize import Action
from podfit.apiserver.auth.impersonate import ImpersonatedUsers, impersonate, wanted_of
from podfit.apiserver.request import ADMIN, User

N1 = User("system:node:n1", ("system:nodes", "system:authenticated"))
JANE = User("jane", ("system:authenticated",))
LIST = Action("list", "", "pods", namespace="ns")


def pod(name: str, node: str = "", **spec):
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"containers": [], "nodeName": node, **spec}}


def secret(name: str) -> Action:
    return Action("get", "", "secrets", namespace="ns", name=name)


def test_a_node_reads_objects_that_its_current_pods_reference(access):
    one = pod("a", volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    access.graph.pod_changed(None, one)
    assert not access.chain.decide(N1, secret("s")).allowed
    bound = pod("a", "n1", volumes=one["spec"]["volumes"], serviceAccountName="robot")
    access.graph.pod_changed(one, bound)
    other = pod("b", "n1", imagePullSecrets=[{"name": "s"}])
    access.graph.pod_changed(None, other)
    assert access.chain.decide(N1, secret("s")).allowed
    token = Action("create", "", "serviceaccounts", "token", "ns", "robot")
    assert access.chain.decide(N1, token).allowed
    access.graph.pod_changed(bound, None)
    assert access.chain.decide(N1, secret("s")).allowed, "the other pod still names it"
    assert not access.chain.decide(N1, token).allowed
    access.graph.pod_changed(other, None)
    assert not access.chain.decide(N1, secret("s")).allowed


def test_node_reads_volumes_of_the_claims_its_pods_mount(access):
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    access.graph.pod_changed(None, pod("a", "n1", volumes=[volume]))
    action = Action("get", "", "persistentvolumes", name="pv1")
    assert not access.chain.decide(N1, action).allowed
    claim = {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"volumeName": "pv1"}}
    access.graph.claim_changed(None, claim)
    assert access.chain.decide(N1, action).allowed
    access.graph.claim_changed(claim, None)
    assert not access.chain.decide(N1, action).allowed


def test_mirror_pod_gives_its_node_no_rights(access):
    mirror = pod("a", "n1", volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    access.graph.pod_changed(None, mirror)
    assert not access.chain.decide(N1, secret("s")).allowed


def test_node_may_not_read_secrets_at_large_nor_write_them(access):
    access.graph.pod_changed(None, pod("a", "n1"))
    assert access.chain.decide(N1, Action("list", "", "secrets", namespace="ns")).reason == "No Object name found"
    assert access.chain.decide(N1, Action("update", "", "secrets", namespace="ns", name="s")).reason == (
        "can only read resources of this type"
    )
    one = Action("watch", "", "secrets", namespace="ns", field_selector="metadata.name=s")
    assert access.chain.decide(N1, one).reason == "no relationship found between node 'n1' and this object"


def test_node_reads_its_own_storage_node_and_single_endpoints(access):
    own = Action("get", "storage.k8s.io", "csinodes", name="n1")
    assert access.chain.decide(N1, own).allowed
    other = Action("get", "storage.k8s.io", "csinodes", name="n2")
    assert access.chain.decide(N1, other).reason == "can only access CSINode with the same name as the requesting node"
    assert access.chain.decide(N1, Action("get", "", "endpoints", namespace="ns", name="e")).allowed
    assert not access.chain.decide(N1, Action("list", "", "endpoints", namespace="ns")).allowed


def test_node_lists_pods_by_its_own_name_in_either_spelling(access):
    for selector in ("spec.nodeName=n1", "spec.nodeName==n1", "status.phase!=Failed,spec.nodeName=n1"):
        assert access.chain.decide(N1, Action("list", "", "pods", field_selector=selector)).allowed
    assert not access.chain.decide(N1, Action("list", "", "pods", field_selector="spec.nodeName!=n1")).allowed


def test_headers_without_a_user_are_a_bad_request():
    with pytest.raises(ApiError) as caught:
        wanted_of([("Impersonate-Group", "x"), ("Impersonate-Uid", "7")])
    assert caught.value.code == 400
    assert caught.value.message == (
        'requested &user.DefaultInfo{Name:"", UID:"7", Groups:[]string{"x"}, Extra:map[string][]string(nil)} '
        "without impersonating a user name"
    )


def test_headers_are_read_with_groups_and_extra():
    pairs = [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-Example.com%2Fscope", "view"),
    ]
    assert wanted_of(pairs) == ImpersonatedUsers("jane", "", ("a", "b"), {"example.com/scope": ("view",)})
    assert wanted_of([("accept", "x")]) is None


def test_administrator_becomes_anybody_and_accounts_get_their_groups(access):
    user = impersonate(access.chain, ADMIN, ImpersonatedUsers("system:serviceaccount:ns:robot"), LIST)
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert impersonate(access.chain, ADMIN, ImpersonatedUsers("system:anonymous"), LIST).groups == (
        "system:unauthenticated",
    )


def test_plain_impersonation_needs_the_verb_on_user_and_groups(access):
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}
    access.rbac.changed("ClusterRole", None, {"metadata": {"name": "i"}, "rules": [rule]})
    access.bind("i", "jane")
    assert impersonate(access.chain, JANE, ImpersonatedUsers("bob"), LIST).name == "bob"
    with pytest.raises(ApiError, match="cannot impersonate-on:user-info:list resource"):
        impersonate(access.chain, JANE, ImpersonatedUsers("bob", groups=("system:masters",)), LIST)
    with pytest.raises(ApiError, match="cannot impersonate-on:serviceaccount:list"):
        impersonate(access.chain, JANE, ImpersonatedUsers("system:serviceaccount:ns:x"), LIST)


def test_constrained_impersonation_needs_the_action_and_the_user(access):
    on = {"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["pods"]}
    who = {"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users"]}
    access.rbac.changed("ClusterRole", None, {"metadata": {"name": "c"}, "rules": [on, who]})
    access.bind("c", "jane")
    assert impersonate(access.chain, JANE, ImpersonatedUsers("bob"), LIST).name == "bob"
    with pytest.raises(ApiError):
        impersonate(access.chain, JANE, ImpersonatedUsers("bob"), msgspec.structs.replace(LIST, verb="delete"))
