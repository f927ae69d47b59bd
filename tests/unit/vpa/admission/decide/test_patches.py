"""The JSON patch of a new pod."""

from __future__ import annotations

import json

from tests.support.autoscalers import container, pod, recommended, vpa

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.vpa.admission.decide.patches import pod_patch, wanted_for
from podfit.vpa.model.changing.boost import annotation_key
from podfit.vpa.model.changing.jsonpatch import Patch, annotate
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS

POD = pod("p", container(requests={"cpu": "50m"}, limits={"cpu": "100m"}), annotations={})
ONE_CPU = recommended(target={"cpu": "1"})
BOOST = {"cpu": {"type": "Factor", "factor": 2}}


def values(patch: Patch, part: str = "/spec/") -> dict[str, object]:
    return {entry["path"].rpartition(part)[2]: entry.get("value") for entry in patch if part in entry["path"]}


def cpu(patch: Patch) -> dict[str, object]:
    return {path.rpartition("resources/")[2]: value for path, value in values(patch).items()}


def test_requests_are_what_is_recommended_and_limits_keep_their_proportion() -> None:
    assert cpu(pod_patch(POD, vpa(ONE_CPU))) == {"requests/cpu": "1", "limits/cpu": "2"}


def test_annotations_name_the_autoscaler_and_the_containers_it_saw() -> None:
    notes = values(pod_patch(POD, vpa(ONE_CPU, name="web")), "/metadata/annotations/")
    assert notes["vpaObservedContainers"] == "app"
    assert str(notes["vpaUpdates"]).startswith("Pod resources updated by web: container 0: ")


def test_in_mode_off_only_the_containers_are_noted() -> None:
    patch = pod_patch(POD, vpa(ONE_CPU, mode="Off"))
    assert values(patch) == {} and values(patch, "/metadata/annotations/") == {"vpaObservedContainers": "app"}


def test_a_boost_raises_the_request_and_keeps_what_it_was_in_an_annotation() -> None:
    patch = pod_patch(POD, vpa(ONE_CPU, startupBoost=BOOST), boost_enabled=True)
    assert cpu(patch)["requests/cpu"] == "2"
    note = annotate(annotation_key("app"), "")["path"]
    [kept] = [entry["value"] for entry in patch if entry["path"] == note]
    assert json.loads(kept) == {"requests": {"cpu": "50m"}, "limits": {"cpu": "100m"}}


def test_a_boost_needs_its_gate() -> None:
    assert cpu(pod_patch(POD, vpa(ONE_CPU, startupBoost=BOOST)))["requests/cpu"] == "1"


def test_a_computed_value_is_reused_and_not_modified() -> None:
    scaler: Object = vpa(ONE_CPU, startupBoost=BOOST)
    known = wanted_for(POD, scaler, NO_BOUNDS)
    patch = pod_patch(POD, scaler, boost_enabled=True, known=known)
    assert patch == pod_patch(POD, scaler, boost_enabled=True)
    assert known[0][0].requests == {"cpu": Quantity.parse("1")}
