"""The rules of aggregated ClusterRoles."""

from __future__ import annotations

from typing import Any

from podfit.controllers.roles.aggregation import aggregated


def role(name: str, *verbs: str, **labels: str) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]} for verb in verbs]
    return {"metadata": {"name": name, "labels": labels}, "rules": rules}


def test_an_aggregated_role_has_each_rule_of_the_selected_roles_once_in_the_order_of_their_names() -> None:
    whole = {
        **role("whole", "watch", view="yes"),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"view": "yes"}}]},
    }
    roles = [role("c", "list", view="yes"), role("b", "get", "list", view="yes"), role("a", "delete", view="no"), whole]
    assert [rule["verbs"] for rule in aggregated(whole, roles)] == [["get"], ["list"]]
    assert aggregated({**whole, "aggregationRule": {"clusterRoleSelectors": None}}, roles) == []
