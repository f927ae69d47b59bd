"""A StatefulSet's pod names and partitions."""

import pytest

from podfit.api.registry.kinds import kind_named
from podfit.controllers.workloads.ownership import pod_of
from podfit.controllers.workloads.sets.statefulset import allowed_missing, is_member, next_out, ordinal


def named(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("name", "number", "member"),
    [
        ("db-0", 0, True),
        ("db-12", 12, True),
        ("db", -1, False),
        ("db-", -1, False),
        ("db-x", -1, False),
        ("other-0", 0, False),
        ("my-db-0", 0, False),
        ("db-0-1", 1, False),
    ],
)
def test_only_a_name_with_an_ordinal_makes_a_member(name: str, number: int, member: bool) -> None:
    assert (ordinal(named(name)), is_member(named("db"), named(name))) == (number, member)


@pytest.mark.parametrize(
    ("replicas", "share", "allowed"), [(10, "25%", 2), (10, "1%", 1), (10, 3, 3), (3, "50%", 1), (4, None, 1)]
)
def test_a_share_of_missing_pods_is_rounded_down_to_one_at_least(
    replicas: int, share: int | str | None, allowed: int
) -> None:
    rolling = {"partition": 0} if share is None else {"partition": 0, "maxUnavailable": share}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert allowed_missing({"spec": {"replicas": replicas, "updateStrategy": strategy}}) == allowed


def test_a_pod_with_a_name_of_its_own_keeps_the_prefix_of_its_owner() -> None:
    owner = {"metadata": {"name": "db", "uid": "u"}}
    metadata = pod_of({"spec": {}}, kind_named("StatefulSet"), owner, name="db-0")["metadata"]
    assert (metadata["name"], metadata["generateName"]) == ("db-0", "db-")


@pytest.mark.parametrize(
    ("extra", "leaving"),
    [
        (["ready", "ready"], [0]),
        (["ready", "sick"], [0]),
        (["sick", "ready"], [0]),
        (["sick"], [0]),
        (["sick", "sick"], []),
        (["sick", "ready", "sick"], []),
        (["ending", "ready"], []),
        (["sick", "ending"], []),
        ([], []),
    ],
)
def test_an_ordered_set_ends_its_highest_pod_unless_another_sick_one_comes_before_it(
    extra: list[str], leaving: list[int]
) -> None:
    """`extra`: highest first."""
    pods = [
        {"metadata": {"name": "db", **({"deletionTimestamp": "now"} if item == "ending" else {})}} for item in extra
    ]
    ready = [pod for pod, item in zip(pods, extra, strict=True) if item == "ready"]
    found = next_out(pods, lambda pod: any(pod is item for item in ready))
    assert [pod is pods[0] for pod in found] == [True] * len(leaving)
