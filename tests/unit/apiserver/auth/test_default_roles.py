"""Every cluster has the roles and bindings of Kubernetes, and additionally podfit's own."""

from __future__ import annotations

from podfit.apiserver.auth.roles import bootstrap_roles
from podfit.apiserver.auth.roles.default_roles import merged


def by_name(objects: list) -> dict:  # type: ignore[type-arg]
    return {obj["metadata"]["name"]: obj for obj in objects}


def test_all_roles_and_bindings_of_kubernetes_exist() -> None:
    roles, bindings = by_name(bootstrap_roles.cluster_roles()), by_name(bootstrap_roles.cluster_role_bindings())
    for name in ("endpointslice-controller", "job-controller", "resource-claim-controller", "node-controller"):
        assert f"system:controller:{name}" in roles and f"system:controller:{name}" in bindings
    assert {"system:node-proxier", "system:kube-dns", "system:volume-scheduler"} <= roles.keys() & bindings.keys()
    local = {(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in bootstrap_roles.role_bindings()}
    assert ("kube-system", "system::leader-locking-kube-scheduler") in local
    assert ("kube-public", "system:controller:bootstrap-signer") in local
    count = sum(
        obj["metadata"]["labels"].get("kubernetes.io/bootstrapping") == "rbac-defaults"
        for part in (bootstrap_roles.roles, bootstrap_roles.role_bindings)
        for obj in part()
    )
    assert count + len(roles) + len(bindings) >= 133


def test_kubernetes_own_roles_have_the_rules_of_kubernetes_and_no_others() -> None:
    roles = by_name(bootstrap_roles.cluster_roles())
    for wanted in merged("ClusterRole", []):
        assert roles[wanted["metadata"]["name"]] == wanted


def test_nodes_that_allocate_have_the_rules_of_other_nodes_too() -> None:
    usual = by_name(bootstrap_roles.cluster_roles())["system:node"]["rules"]
    allocating = by_name(bootstrap_roles.cluster_roles(nodes_allocate=True))["system:node"]["rules"]
    assert allocating[: len(usual)] == usual and allocating[len(usual)]["resources"] == ["pods"]


def test_bindings_name_roles_that_exist() -> None:
    cluster = by_name(bootstrap_roles.cluster_roles())
    local = {(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in bootstrap_roles.roles()}
    for binding in bootstrap_roles.cluster_role_bindings():
        assert binding["roleRef"]["name"] in cluster
    for binding in bootstrap_roles.role_bindings():
        assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) in local
