"""The environment of a container, and the downward API."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from podfit.agent.furnish.environment import LARGEST, Environment, expand, expand_all
from podfit.agent.furnish.volumes.downward import field_value, resource_value
from podfit.agent.furnish.volumes.objects import MissingObject
from podfit.api.quantity import Quantity

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"b": "2", "a": "1"}},
    "spec": {
        "serviceAccountName": "robot",
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}}}],
    },
}


class FakeObjects:
    async def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        return {"data": {"KEY": "value"}} if name == "here" else None

    async def secret(self, namespace: str, name: str) -> dict[str, Any] | None:
        return {"data": {"PASS": base64.b64encode(b"word").decode()}} if name == "here" else None


def environment() -> Environment:
    objects: Any = FakeObjects()
    return Environment(objects, "node1", "10.0.0.1")


@pytest.mark.parametrize(
    ("text", "result"),
    [("$(A)-$(A)", "1-1"), ("$(B)", "$(B)"), ("$$(A)", "$(A)"), ("$A", "$A"), ("$$$$", "$$")],
)
def test_references_are_expanded_as_kubernetes_does(text: str, result: str) -> None:
    assert expand(text, {"A": "1"}) == result


async def test_variables_come_from_everywhere() -> None:
    container = {
        "name": "c",
        "envFrom": [
            {"prefix": "CM_", "configMapRef": {"name": "here"}},
            {"secretRef": {"name": "here"}},
            {"configMapRef": {"name": "gone", "optional": True}},
        ],
        "env": [
            {"name": "GREETING", "value": "$(PASS)!"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "ONE", "valueFrom": {"configMapKeyRef": {"name": "here", "key": "KEY"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "here", "key": "X", "optional": True}}},
        ],
    }
    assert await environment().of(POD, container, ()) == {
        "CM_KEY": "value",
        "PASS": "word",
        "GREETING": "word!",
        "NODE": "node1",
        "LABEL": "1",
        "CPUS": "2",
        "ONE": "value",
    }


async def test_a_missing_key_is_named() -> None:
    container = {"name": "c", "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "here", "key": "NO"}}}]}
    with pytest.raises(MissingObject, match="couldn't find key NO in ConfigMap ns/here"):
        await environment().of(POD, container, ())


def test_resource_fields_round_up_and_fall_back_to_the_node() -> None:
    node = {"memory": Quantity.parse("1Gi")}
    assert resource_value(POD["spec"], "c", {"resource": "limits.cpu", "divisor": "1m"}, node) == "1500"
    assert resource_value(POD["spec"], "c", {"resource": "requests.memory", "divisor": "1Mi"}, node) == "64"
    assert resource_value(POD["spec"], "c", {"resource": "limits.memory", "divisor": "1Mi"}, node) == "1024"


def test_labels_are_listed_sorted_and_quoted() -> None:
    assert field_value(POD, "metadata.labels", "", "", ()) == 'a="1"\nb="2"'


async def of(container: dict[str, Any]) -> dict[str, str]:
    return await environment().of(POD, {"name": "c", **container}, ())


async def test_variables_that_double_are_refused_before_they_fill_the_memory() -> None:
    doubling = [{"name": f"V{at}", "value": f"$(V{at - 1})" * 2} for at in range(1, 40)]
    with pytest.raises(MissingObject, match="larger than 8388608 bytes"):
        await of({"env": [{"name": "V0", "value": "x" * 100}, *doubling]})


async def test_one_variable_that_repeats_another_is_refused() -> None:
    with pytest.raises(MissingObject, match="expand to more than 8388608 bytes"):
        await of({"env": [{"name": "A", "value": "x" * 100_000}, {"name": "B", "value": "$(A)" * 100_000}]})


async def test_a_configmap_by_many_prefixes_is_refused() -> None:
    class Large(FakeObjects):
        async def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
            return {"data": {"KEY": "x" * 1_000_000}}

    objects: Any = Large()
    sources = [{"prefix": f"P{at}_", "configMapRef": {"name": "here"}} for at in range(10)]
    with pytest.raises(MissingObject, match="environment is larger"):
        await Environment(objects, "node1", "10.0.0.1").of(POD, {"name": "c", "envFrom": sources}, ())


def test_a_command_line_that_no_process_could_be_given_is_refused() -> None:
    with pytest.raises(MissingObject, match="command line is larger"):
        expand_all(["$(A)"] * 100, {"A": "x" * (LARGEST // 50)})
    assert expand_all(["$(A)", "b"], {"A": "a"}) == ("a", "b")
