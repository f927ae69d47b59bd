"""The components of the system have their own names and permissions, and no more than they need."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from podfit.apiserver.auth.authorize import Action
from podfit.apiserver.auth.roles import bootstrap_roles
from podfit.apiserver.auth.roles.role_update import completed, is_replaced
from podfit.apiserver.request import User
from podfit.compose import CONTROLLERS, SCHEDULER, account_user

BIND = Action("create", "", "pods", "binding", "ns", "p")


@pytest.fixture
def bound(access: Any) -> Any:
    for kind, objects in (
        ("Role", bootstrap_roles.roles()),
        ("RoleBinding", bootstrap_roles.role_bindings()),
        ("ClusterRoleBinding", bootstrap_roles.cluster_role_bindings()),
    ):
        for obj in objects:
            access.rbac.changed(kind, None, obj)
    return access


@pytest.mark.parametrize(
    ("user", "may", "may_not"),
    [
        (SCHEDULER, BIND, Action("get", "", "secrets", "", "ns", "s")),
        (SCHEDULER, Action("create", "", "pods", "eviction", "ns", "p"), Action("create", "", "pods", "", "ns")),
        (
            CONTROLLERS,
            Action("create", "", "serviceaccounts", "token", "kube-system", "a"),
            Action("create", "apps", "replicasets", "", "ns"),
        ),
        (
            account_user("deployment-controller"),
            Action("create", "apps", "replicasets", "", "ns"),
            Action("create", "", "pods", "", "ns"),
        ),
        (
            account_user("inplace-resize-controller"),
            Action("patch", "", "pods", "resize", "ns", "p"),
            Action("delete", "", "pods", "", "ns", "p"),
        ),
        (
            account_user("vpa-updater"),
            Action("patch", "", "pods", "resize", "ns", "p"),
            Action("delete", "", "pods", "", "ns", "p"),
        ),
        (
            account_user("vpa-recommender"),
            Action("patch", "autoscaling.k8s.io", "verticalpodautoscalers", "status", "ns", "v"),
            Action("patch", "", "pods", "resize", "ns", "p"),
        ),
        (
            account_user("vpa-admission-controller"),
            Action("get", "", "secrets", "", "kube-system", "vpa-tls-certs"),
            Action("get", "", "secrets", "", "kube-system", "another"),
        ),
        (account_user("podfit-meter"), Action("get", "", "nodes", "proxy", "", "n"), Action("get", "", "secrets")),
    ],
    ids=lambda obj: obj.name if isinstance(obj, User) else "",
)
def test_a_part_may_do_its_work_and_no_more(bound: Any, user: User, may: Action, may_not: Action) -> None:
    assert "system:masters" not in user.groups
    assert bound.chain.decide(user, may).allowed and not bound.chain.decide(user, may_not).allowed


def test_one_answer_serves_all_names(bound: Any) -> None:
    asked = []
    decide = bound.rbac.decide
    bound.rbac.decide = lambda user, action: asked.append(action) or decide(user, action)
    for number in range(100):
        bound.chain.check(SCHEDULER, msgspec.structs.replace(BIND, name=f"p{number}"))
    assert len(asked) == 1


def test_a_role_of_an_older_version_gets_the_rules_it_lacks_and_keeps_its_own() -> None:
    wanted = next(
        role for role in bootstrap_roles.cluster_roles() if role["metadata"]["name"] == "system:kube-scheduler"
    )
    own = {"verbs": ["get"], "apiGroups": ["mine"], "resources": ["things"]}
    older = {**wanted, "rules": [*wanted["rules"][2:], own]}
    newer = completed(older, wanted)
    assert newer is not None and own in newer["rules"] and completed(newer, wanted) is None


def test_a_role_whose_owner_wants_no_updates_is_not_changed() -> None:
    wanted = next(
        role for role in bootstrap_roles.cluster_roles() if role["metadata"]["name"] == "system:kube-scheduler"
    )
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    kept = {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}, "rules": []}
    assert completed(kept, wanted) is None


def test_a_binding_of_an_older_version_gets_the_subjects_it_lacks() -> None:
    wanted = next(binding for binding in bootstrap_roles.role_bindings())
    stranger = {"kind": "User", "name": "jane"}
    newer = completed({**wanted, "subjects": [stranger]}, wanted)
    assert newer is not None and newer["subjects"] == [stranger, *wanted["subjects"]]


def test_labels_and_annotations_that_were_removed_come_back_and_changed_ones_stay() -> None:
    wanted = bootstrap_roles.cluster_roles()[1]
    bare = {**wanted, "metadata": {"name": wanted["metadata"]["name"], "labels": {"mine": "1"}}}
    found = completed(bare, wanted)
    assert found is not None and found["metadata"]["annotations"] == wanted["metadata"]["annotations"]
    assert found["metadata"]["labels"] == {**wanted["metadata"]["labels"], "mine": "1"}


def test_a_role_that_must_not_be_aggregated_loses_its_aggregation_rule() -> None:
    wanted = next(
        role for role in bootstrap_roles.cluster_roles() if role["metadata"]["name"] == "system:kube-scheduler"
    )
    found = completed({**wanted, "aggregationRule": {"clusterRoleSelectors": []}}, wanted)
    assert found == wanted


def test_an_aggregated_role_gets_the_selectors_it_lacks() -> None:
    wanted = next(role for role in bootstrap_roles.cluster_roles() if role["metadata"]["name"] == "view")
    mine = {"matchLabels": {"mine": "1"}}
    found = completed({**wanted, "aggregationRule": {"clusterRoleSelectors": [mine]}}, wanted)
    assert found is not None
    selectors = found["aggregationRule"]["clusterRoleSelectors"]
    assert selectors == [mine, *wanted["aggregationRule"]["clusterRoleSelectors"]]


def test_a_binding_to_another_role_is_replaced_unless_its_owner_wants_no_updates() -> None:
    wanted = bootstrap_roles.cluster_role_bindings()[0]
    other = {**wanted, "roleRef": {**wanted["roleRef"], "name": "view"}}
    assert is_replaced(other, wanted) and not is_replaced(wanted, wanted)
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    assert not is_replaced({**other, "metadata": {**other["metadata"], "annotations": annotations}}, wanted)
