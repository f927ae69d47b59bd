"""Contradictory policies: the definition of the autoscaler rejects them, even where no webhook runs.

The expected responses are those of kube-apiserver 1.36 with the definition of deploy/vpa.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled

from podfit.api.registry.kinds import VPA
from podfit.api.status import ApiError

POLICIES = "spec.resourcePolicy.containerPolicies"
ALPHA = "/apis/autoscaling.k8s.io/v1alpha1/namespaces/default/verticalpodautoscalers"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server") as made:
        yield made


def policy(least: Any = None, most: Any = None, name: str = "*") -> dict[str, Any]:
    amounts = {"minAllowed": least, "maxAllowed": most}
    return {"containerName": name, **{field: value for field, value in amounts.items() if value is not None}}


async def refused(cluster: Autoscaled, *policies: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as error:
        await cluster.vpa("a", "web", resourcePolicy={"containerPolicies": list(policies)})
    assert error.value.code == 422
    return str(error.value).removeprefix('VerticalPodAutoscaler.autoscaling.k8s.io "a" is invalid: ')


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        (
            [policy({"cpu": "200m"}, {"cpu": "100m"})],
            f'{POLICIES}: {{}}max resource for cpu is lower than min of "200m"',
        ),
        (
            [policy({"memory": "2Gi"}, {"memory": 1024})],
            f'{POLICIES}: {{}}max resource for memory is lower than min of "2Gi"',
        ),
        ([policy({"cpu": -1})], f"{POLICIES}[0].minAllowed[cpu]: {{}}-1: must be greater than or equal to 0"),
        ([policy({"cpu": "-100m"})], f'{POLICIES}[0].minAllowed[cpu]: {{}}"-100m": must be greater than or equal to 0'),
        ([policy(None, {"x/y": "-1"})], f'{POLICIES}[0].maxAllowed[x/y]: {{}}"-1": must be greater than or equal to 0'),
        (
            [policy({"cpu": 1}, {"cpu": 1}), policy({"cpu": 3, "memory": "1Gi"}, {"cpu": "2", "memory": "1Mi"}, "x")],
            f'[{POLICIES}: {{0}}max resource for cpu is lower than min of "3", '
            f'{POLICIES}: {{0}}max resource for memory is lower than min of "1Gi"]',
        ),
    ],
)
async def test_amounts_that_cannot_be_obeyed_are_refused_in_the_words_of_the_webhook(
    cluster: Autoscaled, policies: list[Any], words: str
) -> None:
    assert await refused(cluster, *policies) == words.format("Invalid value: ")


async def test_objects_of_the_design_document_are_held_to_the_same_rules(cluster: Autoscaled) -> None:
    amounts = {"minAllowed": {"requests": {"cpu": 2}}, "maxAllowed": {"requests": {"cpu": "1500m", "memory": -1}}}
    body = {
        "apiVersion": "autoscaling.k8s.io/v1alpha1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "resourcePolicy": {"containerPolicies": [{"name": "*", **amounts}]},
        },
    }
    with pytest.raises(ApiError) as error:
        await cluster.admin.raw("POST", ALPHA, body=body)
    assert f'{POLICIES}: Invalid value: max resource for cpu is lower than min of "2"' in str(error.value)
    negative = f"{POLICIES}[0].maxAllowed.requests[memory]: Invalid value: -1: must be greater than or equal to 0"
    assert negative in str(error.value)


async def test_what_can_be_obeyed_is_accepted_however_it_is_written_and_however_many_there_are(
    cluster: Autoscaled,
) -> None:
    equal = [
        policy({"cpu": "1", "memory": "1Gi"}, {"cpu": "1000m", "memory": "1024Mi"}),
        policy({"cpu": 0}, {"cpu": "0"}),
    ]
    many = [policy({"cpu": "1e-1"}, {"cpu": "1"}, f"c{number}") for number in range(100)]
    await cluster.vpa("a", "web", resourcePolicy={"containerPolicies": [*equal, *many]})
    assert len((await cluster.admin.get(VPA, "default", "a"))["spec"]["resourcePolicy"]["containerPolicies"]) == 102


async def test_an_object_that_was_stored_before_the_rules_can_still_be_changed_elsewhere(cluster: Autoscaled) -> None:
    made = await cluster.vpa("a", "web", resourcePolicy={"containerPolicies": [policy({"cpu": "1"}, {"cpu": "2"})]})
    record = cluster.server.core.writer.objects.record(VPA, "default", "a")
    assert record is not None
    wrong = {"containerPolicies": [policy({"cpu": "3"}, {"cpu": "2"})]}
    stored = {**made, "spec": {**made["spec"], "resourcePolicy": wrong}}
    await cluster.server.core.writer.objects.put(VPA, record.key, stored, record.modified)
    await cluster.recommend("a", {"cpu": "1"})
    await cluster.admin.patch(VPA, "default", "a", {"metadata": {"labels": {"x": "y"}}})
    with pytest.raises(ApiError, match="max resource for cpu is lower than min"):
        await cluster.admin.patch(
            VPA,
            "default",
            "a",
            {"spec": {"resourcePolicy": {"containerPolicies": [policy({"cpu": "4"}, {"cpu": "2"})]}}},
        )
