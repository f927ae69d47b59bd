"""A verdict on a resize does not exempt a newer spec from being counted."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.pods.resources import pod_requests
from podfit.api.quantity import Quantity
from podfit.api.quotas import growth, usage
from podfit.api.resize.verdicts import is_resize_infeasible
from podfit.scheduler.decide.deferred import deferred_since
from podfit.vpa.updater.decide.resizing import ResizeStatus, resize_status

SIZES = st.integers(1, 64)
GENERATIONS = st.integers(1, 5)


def pod(asked: int, held: int, generation: int, verdict: dict[str, Any] | None) -> dict[str, Any]:
    resources = {"requests": {"cpu": str(held)}}
    status = {"name": "c", "resources": resources, "allocatedResources": resources["requests"]}
    conditions = [{"type": "PodResizePending", "status": "True", **verdict}] if verdict else []
    return {
        "metadata": {"generation": generation},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(asked)}}}]},
        "status": {"phase": "Running", "containerStatuses": [status], "conditions": conditions},
    }


def infeasible(observed: int) -> dict[str, Any]:
    return {"reason": "Infeasible", "observedGeneration": observed}


@given(SIZES, SIZES, GENERATIONS, GENERATIONS)
def test_desired_is_left_out_only_while_the_verdict_is_about_the_present_spec(
    asked: int, held: int, observed: int, generation: int
) -> None:
    one = pod(asked, held, generation, infeasible(observed))
    counted = pod_requests(one, use_status=True)["cpu"]
    assert counted == Quantity.of_units(held if observed >= generation else max(asked, held))


@given(SIZES, SIZES, SIZES, GENERATIONS)
def test_quota_charges_a_resize_after_an_infeasible_one_like_any_other(
    before: int, after: int, held: int, generation: int
) -> None:
    old = pod(before, held, generation, infeasible(generation))
    new = pod(after, held, generation + 1, infeasible(generation))
    charged = growth(usage("", "pods", new), usage("", "pods", old))["requests.cpu"]
    assert charged == Quantity.of_units(max(after - held, 0))


@given(GENERATIONS, GENERATIONS)
def test_all_readers_of_a_verdict_agree_on_whether_it_is_outdated(observed: int, generation: int) -> None:
    outdated = observed < generation
    one = pod(9, 1, generation, infeasible(observed))
    assert is_resize_infeasible(one) is not outdated
    assert (resize_status(one) is ResizeStatus.INFEASIBLE) is not outdated
    deferred = pod(9, 1, generation, {"reason": "Deferred", "observedGeneration": observed})
    assert (deferred_since(deferred) is None) is outdated


@given(st.sampled_from([{}, {"observedGeneration": 0}, {"observedGeneration": None}]), GENERATIONS)
def test_a_verdict_without_a_generation_counts(named: dict[str, Any], generation: int) -> None:
    """Otherwise the verdicts of nodes that do not report generations would never count."""
    assert is_resize_infeasible(pod(9, 1, generation, {"reason": "Infeasible", **named}))
