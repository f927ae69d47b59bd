"""RBAC, its default roles, access reviews, and the check against granting permissions that the user lacks."""

from __future__ import annotations

import msgspec
import pytest

from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.apiserver.admission.base import Attributes
from podfit.apiserver.admission.rbac_escalation import RbacEscalation
from podfit.apiserver.auth.authorize import Action
from podfit.apiserver.auth.reviews import Reviews
from podfit.apiserver.request import ADMIN, ANONYMOUS, User

JANE = User("jane", ("dev", "system:authenticated"))
RESIZE = Action("patch", "", "pods", "resize", "ns", "p")


def allowed(access, user: User, action: Action) -> bool:
    return access.chain.decide(user, action).allowed


def test_masters_may_do_everything(access):
    access.chain.check(ADMIN, Action("delete", "x.example.com", "things"))
    access.chain.check(ADMIN, Action("post", path="/anything"))


def test_anonymous_sees_health_and_version_only(access):
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        access.chain.check(ANONYMOUS, Action("get", path=path))
    for path in ("/api", "/apis", "/metrics", "/openapi/v2"):
        with pytest.raises(ApiError, match=f'forbidden: User "system:anonymous" cannot get path "{path}"'):
            access.chain.check(ANONYMOUS, Action("get", path=path))


def test_authenticated_users_may_discover_and_review_themselves(access):
    access.chain.check(JANE, Action("get", path="/apis/apps/v1"))
    access.chain.check(JANE, Action("create", "authorization.k8s.io", "selfsubjectaccessreviews"))
    assert not allowed(access, JANE, Action("list", "", "pods", namespace="ns"))


def test_edit_and_admin_may_resize_pods_but_view_may_not(access):
    for role, expected in (("view", False), ("edit", True), ("admin", True)):
        binding = access.bind(role, "jane", "ns")
        assert allowed(access, JANE, RESIZE) is expected, role
        assert not allowed(access, JANE, msgspec.structs.replace(RESIZE, namespace="other"))
        access.rbac.changed("RoleBinding", binding, None)
    assert not allowed(access, JANE, RESIZE)


def test_roles_of_groups_and_accounts_apply(access):
    access.bind("view", "dev", "ns", kind="Group")
    assert allowed(access, JANE, Action("list", "", "pods", namespace="ns"))
    access.bind("view", "robot", "ns", kind="ServiceAccount")
    robot = User("system:serviceaccount:ns:robot", ("system:serviceaccounts",))
    decision = access.chain.decide(robot, Action("list", "", "pods", namespace="ns"))
    assert decision.reason.endswith('to ServiceAccount "robot/ns"')


def test_resource_names_and_wildcards_restrict(access):
    rules = [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"]},
        {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"]},
        {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]},
    ]
    access.rbac.changed("ClusterRole", None, {"metadata": {"name": "r"}, "rules": rules})
    access.bind("r", "jane")
    assert allowed(access, JANE, Action("get", "", "configmaps", namespace="ns", name="one"))
    assert not allowed(access, JANE, Action("get", "", "configmaps", namespace="ns", name="two"))
    assert not allowed(access, JANE, Action("list", "", "configmaps", namespace="ns"))
    one = Action("list", "", "configmaps", namespace="ns", field_selector="metadata.name=one")
    assert not allowed(access, JANE, one)
    assert allowed(access, JANE, Action("update", "apps", "deployments", "scale", "ns", "d"))
    assert not allowed(access, JANE, Action("update", "apps", "deployments", "", "ns", "d"))
    assert allowed(access, JANE, Action("get", path="/logs/x/y"))
    assert not allowed(access, JANE, Action("get", path="/log"))


def test_missing_role_is_named_in_the_refusal(access):
    access.bind("gone", "jane", "ns")
    with pytest.raises(ApiError) as caught:
        access.chain.check(JANE, Action("list", "", "pods", namespace="ns"))
    assert caught.value.message == (
        'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "ns": '
        'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    )


def test_remembered_decision_falls_with_a_change_of_its_role(access):
    role = {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}]}
    access.rbac.changed("ClusterRole", None, role)
    access.bind("r", "jane")
    action = Action("get", "", "nodes", name="n")
    assert allowed(access, JANE, action)
    access.rbac.changed("ClusterRole", role, {**role, "rules": []})
    assert not allowed(access, JANE, action)


def test_aggregated_role_holds_the_rules_of_roles_added_later(access):
    access.bind("view", "jane", "ns")
    action = Action("get", "example.com", "things", namespace="ns", name="t")
    assert not allowed(access, JANE, action)
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rules = [{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]}]
    access.rbac.changed("ClusterRole", None, {"metadata": {"name": "things", "labels": labels}, "rules": rules})
    assert allowed(access, JANE, action)
    stale = dict(access.rbac.stale_aggregates())
    assert rules[0] in stale["view"] and rules[0] in stale["admin"]


def escalation(access, obj, *, user=JANE, kind="Role", old=None, namespace="ns"):
    row = kind_named(kind)
    operation = "UPDATE" if old is not None else "CREATE"
    name = obj["metadata"]["name"]
    attrs = Attributes(operation, row, "", namespace if row.namespaced else "", name, obj, old, user)
    return RbacEscalation(access.rbac, access.chain).validate(attrs)


SECRETS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]}


async def test_users_cannot_grant_permissions_they_do_not_have(access):
    access.bind("view", "jane", "ns")
    role = {"metadata": {"name": "r"}, "rules": [SECRETS]}
    with pytest.raises(ApiError) as caught:
        await escalation(access, role)
    assert caught.value.message == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["dev" "system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
    )
    await escalation(access, role, user=ADMIN)
    access.bind("edit", "jane", "ns")
    await escalation(access, role)


async def test_escalate_verb_and_changes_for_garbage_collection_lift_the_guard(access):
    role = {"metadata": {"name": "r"}, "rules": [SECRETS]}
    await escalation(access, {**role, "metadata": {"name": "r", "finalizers": ["a/b"]}}, old=role)
    grant = {"verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}
    access.rbac.changed("ClusterRole", None, {"metadata": {"name": "e"}, "rules": [grant]})
    access.bind("e", "jane")
    await escalation(access, role)


@pytest.mark.parametrize("kind", ["Role", "ClusterRole", "ClusterRoleBinding"])
async def test_a_label_on_what_one_does_not_hold_is_an_escalation(access, kind):
    """Labels aggregate a role into others."""
    old = {"metadata": {"name": "r"}, "rules": [SECRETS]}
    if kind == "ClusterRoleBinding":
        old = {"metadata": {"name": "r"}, "roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": []}
    new = {**old, "metadata": {"name": "r", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}}
    with pytest.raises(ApiError, match="attempting to grant RBAC permissions not currently held"):
        await escalation(access, new, kind=kind, old=old)


async def test_taking_an_aggregation_rule_away_needs_all_rights(access):
    access.bind("view", "jane")
    old = {"metadata": {"name": "r"}, "rules": [], "aggregationRule": {"clusterRoleSelectors": []}}
    with pytest.raises(ApiError, match="must have cluster-admin privileges to use an aggregationRule"):
        await escalation(access, {"metadata": {"name": "r"}, "rules": []}, kind="ClusterRole", old=old)


async def test_binding_a_missing_role_is_not_found(access):
    binding = {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "gone"}, "subjects": []}
    with pytest.raises(ApiError) as caught:
        await escalation(access, binding, kind="RoleBinding")
    assert (caught.value.code, caught.value.message) == (404, 'rolebindings.rbac.authorization.k8s.io "gone" not found')


async def test_binding_a_role_one_does_not_hold_needs_the_bind_verb(access):
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "User", "name": "jane"}],
    }
    with pytest.raises(ApiError, match="attempting to grant RBAC permissions not currently held"):
        await escalation(access, binding, kind="RoleBinding")
    grant = {
        "verbs": ["bind"],
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"],
        "resourceNames": ["admin"],
    }
    access.rbac.changed("ClusterRole", None, {"metadata": {"name": "binder"}, "rules": [grant]})
    access.bind("binder", "jane")
    await escalation(access, binding, kind="RoleBinding")


def test_rules_review_lists_what_the_user_may_do(access):
    access.bind("system:podfit:meter", "jane")
    answer = Reviews(access.chain, access.rbac).self_subject_rules({"spec": {"namespace": "ns"}}, JANE)
    metrics = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes/metrics", "nodes/proxy", "nodes/stats"]}
    assert metrics in answer["status"]["resourceRules"]
    assert answer["status"]["incomplete"] is False


def test_access_review_needs_a_subject_and_one_question(access):
    reviews = Reviews(access.chain, access.rbac)
    with pytest.raises(ApiError) as caught:
        reviews.subject_access({"spec": {}})
    assert caught.value.code == 422
    with pytest.raises(ApiError, match="must match metadata.namespace"):
        reviews.local_subject_access({"spec": {"user": "x", "resourceAttributes": {"namespace": "other"}}}, "ns")


def test_default_roles_are_complete_and_named_once(access):
    from podfit.apiserver.auth.roles import bootstrap_roles

    names = [role["metadata"]["name"] for role in bootstrap_roles.cluster_roles()]
    assert len(names) == len(set(names))
    for binding in bootstrap_roles.cluster_role_bindings():
        assert binding["roleRef"]["name"] in names
