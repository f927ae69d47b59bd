"""For any order of events, no pod waits that could run, and no capacity is promised twice."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from podfit.api.objects import Object
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.transport import HttpTransport
from podfit.kit.clock import FakeClock
from podfit.scheduler import Scheduler, SchedulerConfig
from podfit.scheduler.decide.pod.pods import pod_key

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
sizes, names, priorities = st.integers(2, 8), st.integers(0, 5), st.integers(0, 2)


def node(number: int, cpu: int, closed: bool) -> Object:
    name = f"n{number}"
    amounts = {"cpu": f"{cpu * 100}m", "memory": "8Gi", "pods": "6"}
    meta = {"name": name, "labels": {HOST: name}}
    return {"metadata": meta, "spec": {"unschedulable": closed}, "status": {"allocatable": amounts}}


def pod(name: str, uid: int, size: int, priority: int, kind: str) -> Object:
    spec: Object = {"containers": [_container(size)], "priority": priority}
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}
    if kind == "apart":
        spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
    elif kind == "near":
        spec["affinity"] = {"podAffinity": {REQUIRED: [term]}}
    meta = {"name": name, "namespace": "ns", "uid": str(uid), "labels": {"app": "x" if kind != "plain" else "y"}}
    return {"metadata": meta, "spec": spec, "status": {}}


def _container(size: int) -> Object:
    return {"name": "c", "resources": {"requests": {"cpu": f"{size * 100}m"}}}


class Waking(RuleBasedStateMachine):
    """The scheduler without its cluster: the test delivers watch events, and writes are discarded."""

    @initialize()
    def start(self) -> None:
        self.scheduler = Scheduler(Client(HttpTransport("")), SchedulerConfig(seed=1), FakeClock())
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.uid = 0
        self.node_comes_or_changes(0, 10, False)

    @property
    def observer(self) -> Any:
        return self.scheduler._observer

    @rule(number=st.integers(0, 1), cpu=st.integers(5, 15), closed=st.booleans())
    def node_comes_or_changes(self, number: int, cpu: int, closed: bool) -> None:
        new = node(number, cpu, closed)
        name = new["metadata"]["name"]
        self.observer.node(self.nodes.get(name), new)
        self.nodes[name] = new

    @precondition(lambda self: len(self.nodes) > 1)
    @rule(data=st.data())
    def node_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        self.observer.node(self.nodes.pop(name), None)

    @rule(name=names, size=sizes, priority=priorities, kind=st.sampled_from(["plain", "plain", "apart", "near"]))
    def pod_comes(self, name: int, size: int, priority: int, kind: str) -> None:
        key = f"p{name}"
        if key in self.pods:
            return
        self.uid += 1
        self.pods[key] = pod(key, self.uid, size, priority, kind)
        self.observer.pod(None, self.pods[key])

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def pod_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.pods)))
        self.observer.pod(self.pods.pop(name), None)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), size=sizes)
    def pod_is_resized(self, data: st.DataObject, size: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.pods)))
        before = self.pods[name]
        if self.observer.assumed.get(pod_key(before)):
            return
        self.pods[name] = {**before, "spec": {**before["spec"], "containers": [_container(size)]}}
        self.observer.pod(before, self.pods[name])

    @rule()
    def bindings_fail(self) -> None:
        self._turn(fail=True)

    def _turn(self, fail: bool) -> None:
        """The scheduler decides; then its bindings arrive, or are rejected and undone."""
        self.scheduler.turn()
        for key in list(self.observer.assumed):
            before = self.pods[key[1]]
            where = self.scheduler.board.snapshot.pods[key].node
            if fail:
                entry = self.scheduler.queue.get(key)
                assert entry is not None
                self.scheduler._forget(entry, ApiError(500, "", "no"))
                self.scheduler.queue.release_due(float("inf"))
            else:
                self.pods[key[1]] = {**before, "spec": {**before["spec"], "nodeName": where}}
                self.observer.pod(before, self.pods[key[1]])

    @rule()
    def nobody_waits_who_could_run(self) -> None:
        while True:
            self._turn(fail=False)
            if not self.scheduler.queue.due:
                break
        board = self.scheduler.board
        for entry in self.scheduler.queue.waiting():
            assert not board.fits_somewhere(entry.pod, board.shape(entry.pod)), entry.key

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        queue, snapshot = self.scheduler.queue, self.scheduler.board.snapshot
        for name, obj in self.pods.items():
            bound = bool(obj["spec"].get("nodeName"))
            assert (("ns", name) in snapshot.pods) == bound
            assert (queue.get(("ns", name)) is not None) == (not bound)
        assert len(queue) + len(snapshot.pods) == len(self.pods)


Waking.TestCase.settings = settings(max_examples=120, stateful_step_count=30)
TestWaking = Waking.TestCase
