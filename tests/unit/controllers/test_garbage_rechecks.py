"""When the garbage collector checks an object again: not for changes that do not affect owners."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.controllers.context import ControllerContext
from podfit.controllers.garbage.owners import GarbageCollector
from podfit.kit.clock import RealClock

SET, POD = kind_named("ReplicaSet"), kind_named("Pod")


def obj(uid: str, owner: str = "", **meta: Any) -> Object:
    owners = [{"uid": owner, "name": owner, "kind": "ReplicaSet", "apiVersion": "apps/v1"}] if owner else []
    return {"metadata": {"name": uid, "namespace": "d", "uid": uid, "ownerReferences": owners, **meta}}


class Told:
    """A collector that is notified of changes, and the objects it enqueues because of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.collector = GarbageCollector(cast(ControllerContext, SimpleNamespace(clock=RealClock(), client=None)))
        self.looks: list[str] = []
        patch.setattr(self.collector._engine, "add", self.looks.append)

    def of(self, kind: Any, before: Object | None, after: Object | None) -> list[str]:
        self.looks.clear()
        self.collector._changed(kind, before, after)
        return list(self.looks)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def test_a_change_of_a_pod_with_an_existing_owner_needs_no_check(reported: Told) -> None:
    reported.of(SET, None, obj("set"))
    pod = obj("pod", "set")
    assert reported.of(POD, None, pod) == ["pod"]
    assert reported.of(POD, pod, obj("pod", "set", labels={"a": "b"})) == []


def test_a_pod_is_checked_when_its_owner_goes(reported: Told) -> None:
    owner, pod = obj("set"), obj("pod", "set")
    reported.of(SET, None, owner)
    reported.of(POD, None, pod)
    reported.of(POD, pod, pod)
    assert reported.of(SET, owner, None) == ["pod"]
    assert reported.of(POD, pod, pod) == ["pod"], "its owner is not there any more"


def test_a_pod_is_checked_when_its_owners_change_or_it_is_deleted(reported: Told) -> None:
    reported.of(SET, None, obj("set"))
    reported.of(SET, None, obj("other"))
    pod, moved = obj("pod", "set"), obj("pod", "other")
    reported.of(POD, None, pod)
    assert reported.of(POD, pod, moved) == ["pod"]
    going = obj("pod", "other", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["foregroundDeletion"])
    assert reported.of(POD, moved, going) == ["pod"]
    assert reported.of(POD, going, going) == ["pod"], "what is being deleted is looked at until it is gone"


def test_dependents_are_checked_when_their_owner_waits_for_them(reported: Told) -> None:
    owner = obj("set")
    reported.of(SET, None, owner)
    reported.of(POD, None, obj("pod", "set"))
    going = obj("set", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["foregroundDeletion"])
    assert sorted(reported.of(SET, owner, going)) == ["pod", "set"]
