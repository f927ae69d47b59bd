"""Effective requests and limits of pods, and their QoS class."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.pods import resources


def pod(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": f"c{at}", "resources": each} for at, each in enumerate(containers)]}
    status = more.pop("status", {})
    return {"spec": {**spec, **more}, "status": status}


def asked(cpu: str = "", memory: str = "", limits: dict[str, str] | None = None) -> dict[str, Any]:
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    return {"requests": requests, **({"limits": limits} if limits else {})}


def texts(amounts: resources.Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def cpu_milli(body: dict[str, Any], use_status: bool = False) -> int:
    return resources.pod_requests(body, use_status=use_status)["cpu"].milli


def test_containers_add_up() -> None:
    found = resources.pod_requests(pod(asked("100m", "64Mi"), asked("200m")))
    assert texts(found) == {"cpu": "300m", "memory": "64Mi"}


def test_a_large_init_step_raises_the_request_and_sidecars_stay() -> None:
    init = [
        {"name": "side", "restartPolicy": "Always", "resources": asked("50m")},
        {"name": "setup", "resources": asked("500m")},
    ]
    # setup runs while the sidecar runs: 550m; afterwards 100m + 50m.
    assert cpu_milli(pod(asked("100m"), initContainers=init)) == 550


def test_a_sidecar_after_the_setup_does_not_count_towards_it() -> None:
    init = [
        {"name": "setup", "resources": asked("500m")},
        {"name": "side", "restartPolicy": "Always", "resources": asked("50m")},
    ]
    assert cpu_milli(pod(asked("100m"), initContainers=init)) == 500


def test_overhead_is_requested_but_creates_no_limit() -> None:
    made = pod(asked("100m", limits={"memory": "1Gi"}), overhead={"cpu": "10m", "memory": "16Mi"})
    assert texts(resources.pod_requests(made)) == {"cpu": "110m", "memory": "16Mi"}
    assert texts(resources.pod_limits(made)) == {"memory": "1040Mi"}


def test_pod_level_requests_replace_the_sum() -> None:
    made = pod(asked("100m", "64Mi"), resources={"requests": {"cpu": "1"}})
    assert texts(resources.pod_requests(made)) == {"cpu": "1", "memory": "64Mi"}


def status(actual: str, allocated: str, **more: Any) -> dict[str, Any]:
    one = {"name": "c0", "resources": {"requests": {"cpu": actual}}, "allocatedResources": {"cpu": allocated}}
    return {"containerStatuses": [one], **more}


@pytest.mark.parametrize(
    ("desired", "actual", "allocated", "effective"),
    [("100m", "100m", "100m", 100), ("300m", "100m", "100m", 300), ("100m", "300m", "200m", 300)],
)
def test_accounting_takes_the_largest_of_desired_allocated_and_actual(
    desired: str, actual: str, allocated: str, effective: int
) -> None:
    made = pod(asked(desired), status=status(actual, allocated))
    assert cpu_milli(made, use_status=True) == effective
    assert resources.pod_requests(made)["cpu"].milli == int(desired[:-1])


def test_an_infeasible_resize_does_not_count() -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    made = pod(asked("64"), status=status("100m", "200m", conditions=[pending]))
    assert cpu_milli(made, use_status=True) == 200


def test_a_status_without_resources_is_not_believed() -> None:
    made = pod(asked("100m"), status={"containerStatuses": [{"name": "c0", "allocatedResources": {"cpu": "9"}}]})
    assert cpu_milli(made, use_status=True) == 100


FULL = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("containers", "wanted"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([asked("1m")], "Burstable"),
        ([FULL], "Guaranteed"),
        ([FULL, {}], "Burstable"),
        ([FULL, FULL], "Guaranteed"),
        ([{"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}], "Burstable"),
    ],
)
def test_qos_follows_from_the_containers(containers: list[dict[str, Any]], wanted: str) -> None:
    assert resources.qos_class(pod(*containers)) == wanted


def test_init_containers_count_for_qos() -> None:
    assert resources.qos_class(pod(FULL, initContainers=[{"name": "i", "resources": {}}])) == "Burstable"


def test_pod_level_resources_decide_qos_alone() -> None:
    assert resources.qos_class(pod({}, resources=FULL)) == "Guaranteed"
    assert resources.qos_class(pod(FULL, resources={"requests": {"cpu": "2"}})) == "Burstable"
