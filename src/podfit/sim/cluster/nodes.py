"""The nodes: their resources, which of them are down, and the scheduler's board, which is kept in sync with them."""

from __future__ import annotations

import numpy as np

from podfit.scheduler.decide.board import Board
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.sim.cluster.objects import node_object, replica_set
from podfit.sim.cluster.pods import Flags, Floats, Ints, Numbers, Pods
from podfit.sim.scenario.model import NodeGroup, Scenario


class Nodes:
    """All nodes as arrays. A node's number is that of its row on the scheduler's board."""

    def __init__(self, scenario: Scenario) -> None:
        self.members: list[tuple[NodeGroup, int]] = [
            (group, number) for group in scenario.nodes for number in range(group.count)
        ]
        count = len(self.members)
        self.board = Board(Snapshot(count), seed=scenario.seed)
        for group, number in self.members:
            self.board.snapshot.put_node(node_object(group, number))
        for workload in scenario.workloads:
            self.board.owners.owning_set(None, replica_set(workload))
        self.cpu: Ints = np.array([group.cpu for group, _ in self.members], np.int64)
        self.memory: Ints = np.array([group.memory for group, _ in self.members], np.int64)
        self.most_pods: Ints = np.array([group.pods for group, _ in self.members], np.int64)
        self.alive: Flags = np.ones(count, np.bool_)
        self.version: Ints = np.zeros(count, np.int64)
        """Counts changes of the allocations on each node."""

    def __len__(self) -> int:
        return len(self.members)

    def names(self) -> list[str]:
        return self.board.snapshot.names[: len(self)]

    def group_members(self, group: str) -> Numbers:
        """The nodes of a group, or all nodes if the name is empty."""
        return np.array([at for at, (own, _) in enumerate(self.members) if not group or own.name == group], np.intp)

    def set_down(self, nodes: Numbers, down: bool) -> None:
        for at in nodes.tolist():
            if self.alive[at] == down:
                self.alive[at] = not down
                group, number = self.members[at]
                self.board.snapshot.put_node(node_object(group, number, down))
                self.version[at] += 1

    def held(self, pods: Pods) -> tuple[Ints, Ints]:
        """The CPU and memory allocated to pods on each node."""
        return self.total(pods, pods.cpu), self.total(pods, pods.memory)

    def total(self, pods: Pods, values: Ints) -> Ints:
        on = pods.on_node
        # Sums of whole numbers below 2**53 are exact.
        return np.bincount(pods.node[on], values[on], len(self)).astype(np.int64)

    def sums(self, node: Ints, values: Floats) -> Floats:
        return np.asarray(np.bincount(node, values, len(self)), np.float64)
