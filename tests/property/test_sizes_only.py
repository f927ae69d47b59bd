"""A resize validates only what it changes. Validation of the whole spec gives the same result."""

from __future__ import annotations

import copy
from unittest import mock

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.objects import Object
from podfit.api.patches import STRATEGIC, patch_object
from podfit.api.registry.kinds import POD
from podfit.api.schema import type_of
from podfit.api.status import FieldError
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.subresources.resize import fill_in

PODS = strategy_for(POD)
STRUCT = type_of(POD)

amount = st.sampled_from(["0", "1", "2", "1000m", "1.5", "1Gi", "1024Mi", "-1"])
names = st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "bad"])
likely = st.sampled_from(["cpu", "memory"])
amounts = st.dictionaries(st.one_of(likely, likely, names), amount, max_size=3)
resources = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})
policies = st.lists(
    st.fixed_dictionaries(
        {
            "resourceName": st.sampled_from(["cpu", "memory", "disk"]),
            "restartPolicy": st.sampled_from(["NotRequired", "RestartContainer"]),
        }
    ),
    max_size=2,
)
fields: Object = {"resources": resources, "resizePolicy": policies}


@st.composite
def pods(draw: st.DrawFn) -> Object:
    """Pods as they are stored: defaulted and valid."""
    spec: Object = {
        "containers": [{"name": name, "image": "x", **draw(_few())} for name in ("a", "b")[: draw(st.integers(1, 2))]],
        "restartPolicy": draw(st.sampled_from(["Always", "Never"])),
    }
    if draw(st.booleans()):
        own = {"restartPolicy": "Always"} if draw(st.booleans()) else {}
        spec["initContainers"] = [{"name": "i", "image": "x", **own, **draw(_few())}]
    if draw(st.booleans()):
        spec["resourceClaims"] = [{"name": "claim", "resourceClaimName": "c"}]
        spec["containers"][0].setdefault("resources", {})["claims"] = [{"name": "claim"}]
    if draw(st.booleans()):
        spec["resources"] = draw(resources)
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": "1"},
        "spec": spec,
    }
    PODS.default(made)
    PODS.prepare_create(made)
    return made


def _few() -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries({}, optional=fields)


def patches() -> st.SearchStrategy[Object]:
    def listed(*known: str) -> st.SearchStrategy[list[Object]]:
        one = st.fixed_dictionaries(
            {"name": st.sampled_from(known)}, optional={**fields, "image": st.sampled_from(["x", "y"])}
        )
        return st.lists(one, max_size=2, unique_by=lambda each: str(each["name"]))

    spec = st.fixed_dictionaries(
        {"containers": st.one_of(listed("a", "b"), st.none())},
        optional={
            "initContainers": listed("i"),
            "resources": resources,
            "hostNetwork": st.booleans(),
            "restartPolicy": st.just("Always"),
        },
    )
    return st.fixed_dictionaries({"spec": spec})


Resized = tuple[Object, Object, list[FieldError]]
"""The pod as admission receives it, as it would be written, and its errors."""


def patched(stored: Object, patch: Object) -> tuple[Object, bool | None]:
    assert STRUCT is not None
    new = patch_object(stored, msgspec.json.encode(patch), STRATEGIC, STRUCT).obj
    return new, fill_in(new, stored)


def in_short(stored: Object, patch: Object) -> Resized:
    """Writes it as a PATCH of pods/resize."""
    new, sizes_only = patched(stored, patch)
    admitted = copy.deepcopy(new)
    resized = PODS.prepare_resize(new, stored, sizes_only)
    return admitted, new, PODS.validate_resize(new, stored, resized)


def in_full(stored: Object, patch: Object) -> Resized:
    """Treats the specs as if they differed in more than sizes."""
    with (
        mock.patch("podfit.apiserver.strategy.pod.pods.differs_in_sizes_only", return_value=False),
        mock.patch("podfit.apiserver.subresources.resize.differs_in_sizes_only", return_value=False),
    ):
        new, _ = patched(stored, patch)
        admitted = copy.deepcopy(new)
        PODS.prepare_update(new, stored, "resize")
        return admitted, new, PODS.validate_update(new, stored, "resize")


@given(pods(), patches())
def test_the_short_way_and_the_long_way_agree(pod: Object, patch: Object) -> None:
    if PODS.validate_create(copy.deepcopy(pod)):
        return
    before = copy.deepcopy(pod)
    assert in_short(pod, patch) == in_full(pod, patch)
    assert pod == before
