"""The static CPU policy while pods are created, resized and deleted, on machines with many topologies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from podfit.agent.cpus.decide.assign import INIT, MAIN, SIDECAR, CpuClaim, Short, assign
from podfit.agent.cpus.decide.fit import fit
from podfit.agent.cpus.decide.sets import NO_CPUS, Cpus, parse, text
from podfit.agent.cpus.decide.take import take
from podfit.agent.cpus.decide.topology import Topology, regular

SHAPES = st.builds(
    lambda sockets, split, cores, threads: regular(sockets, sockets * split, cores, threads),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from([2, 4]),
    st.integers(1, 2),
)
COUNTS = st.integers(0, 5)
KINDS = st.lists(st.sampled_from([INIT, SIDECAR]), max_size=2)


def some(topology: Topology) -> st.SearchStrategy[Cpus]:
    return st.sets(st.sampled_from(sorted(topology.all))).map(frozenset)


@given(st.sets(st.integers(0, 300)).map(frozenset))
def test_a_set_is_read_back_from_its_text(cpus: Cpus) -> None:
    assert parse(text(cpus)) == cpus


@given(SHAPES.flatmap(lambda obj: st.tuples(st.just(obj), some(obj))), st.data())
def test_the_requested_number_of_free_cpus_is_taken(given_: tuple[Topology, Cpus], data: st.DataObject) -> None:
    topology, free = given_
    count = data.draw(st.integers(0, len(free)))
    found = take(topology, free, count)
    assert len(found) == count and found <= free


@given(SHAPES.flatmap(lambda obj: st.tuples(st.just(obj), some(obj))), st.data())
def test_at_most_one_core_is_split_where_cores_are_whole(given_: tuple[Topology, Cpus], data: st.DataObject) -> None:
    topology, cpus = given_
    free = topology.cores.around(cpus)
    found = take(topology, free, data.draw(st.integers(0, len(free))))
    split = [core for core in topology.cores.groups(found) if not topology.cores.members[core] <= found]
    assert len(split) <= 1


@given(SHAPES.flatmap(lambda obj: st.tuples(st.just(obj), some(obj), some(obj))), st.data())
def test_a_resized_container_moves_as_little_as_possible(
    given_: tuple[Topology, Cpus, Cpus], data: st.DataObject
) -> None:
    topology, current, free = given_
    count = data.draw(st.integers(0, len(current | free)))
    found = fit(topology, current, count, free)
    assert len(found) == count and found <= current | free
    assert found <= current if count <= len(current) else current <= found


class Churn(RuleBasedStateMachine):
    """The CPUs that the node assigns to pods, step by step."""

    @initialize(topology=SHAPES, reserved=st.integers(1, 2))
    def boot(self, topology: Topology, reserved: int) -> None:
        self.topology = topology
        self.reserved = take(topology, topology.all, reserved)
        self.pods: dict[str, tuple[list[CpuClaim], dict[str, Cpus]]] = {}
        self.made = 0

    def free(self, but: str = "") -> Cpus:
        taken = [cpus for uid, (_, held) in self.pods.items() if uid != but for cpus in held.values()]
        return self.topology.all - self.reserved - NO_CPUS.union(*taken)

    def try_to(self, uid: str, claims: list[CpuClaim], applied: dict[str, Cpus]) -> None:
        held = self.pods[uid][1] if uid in self.pods else {}
        others = {other: dict(row[1]) for other, row in self.pods.items() if other != uid}
        found = assign(self.topology, self.free(uid), held, applied, claims)
        if isinstance(found, Short):
            assert effective(claims) > len(self.free(uid)), "refused though there is room"
            return
        for claim in claims:
            before, after = held.get(claim.name, NO_CPUS), found.get(claim.name, NO_CPUS)
            if claim.kind != INIT:
                kept = applied.get(claim.name, before) if claim.count < len(before) else before
                assert after <= before or before <= after, "a container moved"
                assert len(after & kept) == min(len(after), len(kept)), "a container left CPUs it runs on"
        self.pods[uid] = (claims, found)
        assert {other: self.pods[other][1] for other in others} == others, "another pod moved"

    @rule(kinds=KINDS, counts=st.lists(COUNTS, min_size=3, max_size=4))
    def add(self, kinds: list[str], counts: list[int]) -> None:
        self.made += 1
        claims = [CpuClaim(f"i{number}", counts[number], kind) for number, kind in enumerate(kinds)]
        claims += [CpuClaim(f"c{number}", count, MAIN) for number, count in enumerate(counts[len(kinds) :])]
        self.try_to(f"pod{self.made}", claims, {})

    @rule(data=st.data(), counts=st.lists(COUNTS, min_size=4, max_size=4), started=st.booleans())
    def resize(self, data: st.DataObject, counts: list[int], started: bool) -> None:
        if not self.pods:
            return
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        before, held = self.pods[uid]
        claims = [CpuClaim(item.name, count, item.kind) for item, count in zip(before, counts, strict=False)]
        lasting = {item.name for item in before if item.kind != INIT}
        applied = {name: cpus for name, cpus in held.items() if name in lasting} if started else {}
        self.try_to(uid, claims, applied)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.pods:
            del self.pods[data.draw(st.sampled_from(sorted(self.pods)))]

    @invariant()
    def every_container_has_its_number(self) -> None:
        for claims, held in getattr(self, "pods", {}).values():
            assert {claim.name: claim.count for claim in claims if claim.count} == {
                name: len(cpus) for name, cpus in held.items()
            }

    @invariant()
    def containers_that_run_together_share_nothing(self) -> None:
        seen = NO_CPUS
        for claims, held in getattr(self, "pods", {}).values():
            pod = NO_CPUS
            sidecars = NO_CPUS
            for claim in claims:
                cpus = held.get(claim.name, NO_CPUS)
                assert not cpus & self.reserved
                if claim.kind == INIT:
                    assert not cpus & sidecars, "an init container on the CPUs of a sidecar that runs"
                    continue
                assert not cpus & pod, "two containers of a pod share CPUs"
                pod |= cpus
                sidecars |= cpus if claim.kind == SIDECAR else NO_CPUS
            whole = NO_CPUS.union(*held.values())
            assert not whole & seen, "two pods share CPUs"
            assert len(whole) == effective(claims), "the pod holds more CPUs than it is counted with"
            seen |= whole


def effective(claims: list[CpuClaim]) -> int:
    """The amount that scheduler and node count for the pod: the larger of its running phase and each step of
    its start.
    """
    beside, most = 0, 0
    for claim in claims:
        if claim.kind == SIDECAR:
            beside += claim.count
        elif claim.kind == INIT:
            most = max(most, beside + claim.count)
    return max(most, sum(claim.count for claim in claims if claim.kind != INIT))


TestChurn = Churn.TestCase
