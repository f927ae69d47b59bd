"""The static policy: which containers get exclusive CPUs, and which CPUs."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.agent.cpus.decide.assign import INIT, MAIN, SIDECAR, CpuClaim, Short, assign, claims, whole_cpus
from podfit.agent.cpus.decide.sets import NO_CPUS, parse, text
from podfit.agent.cpus.decide.topology import regular
from podfit.api.resize.states import desired_of

MACHINE = regular(sockets=1, numa_nodes=1, cores=4, threads=2)
ALL = MACHINE.all


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    size = {"cpu": cpu, "memory": "1Mi"}
    return {"name": name, "resources": {"requests": size, "limits": size}, **more}


def assigned(wanted: list[CpuClaim], held: dict[str, str] | None = None, free: str = "0-7", **applied: str) -> Any:
    before = {name: parse(cpus) for name, cpus in (held or {}).items()}
    taken = NO_CPUS.union(*before.values())
    on = {name: parse(cpus) for name, cpus in applied.items()}
    found = assign(MACHINE, parse(free) - taken, before, on, wanted)
    return found if isinstance(found, Short) else {name: text(cpus) for name, cpus in found.items()}


@pytest.mark.parametrize(("qos", "level", "counts"), [("Guaranteed", None, [2, 0]), ("Burstable", None, [0, 0])])
def test_only_whole_cpus_of_guaranteed_pods_are_exclusive(qos: str, level: Any, counts: list[int]) -> None:
    pod = {"spec": {"containers": [container("a", "2"), container("b", "1500m")]}}
    assert [claim.count for claim in claims(pod, desired_of(pod), qos)] == counts
    pod["spec"]["resources"] = {"limits": {"cpu": "4"}}  # type: ignore[assignment]
    assert [claim.count for claim in claims(pod, desired_of(pod), qos)] == [0, 0]


def test_claims_come_in_the_order_in_which_containers_start() -> None:
    inits = [container("i", "1"), container("s", "1", restartPolicy="Always")]
    pod = {"spec": {"initContainers": inits, "containers": [container("m", "1")]}}
    found = [(claim.name, claim.kind) for claim in claims(pod, desired_of(pod), "Guaranteed")]
    assert found == [("i", INIT), ("s", SIDECAR), ("m", MAIN)]


def test_a_fraction_counts_as_none() -> None:
    assert (whole_cpus({"requests": {"cpu": "3"}}), whole_cpus({"requests": {"cpu": "2500m"}}), whole_cpus(None)) == (
        3,
        0,
        0,
    )


def test_a_container_whose_number_stays_keeps_its_cpus() -> None:
    assert assigned([CpuClaim("a", 2)], {"a": "3,6"}) == {"a": "3,6"}


def test_a_container_that_shrinks_keeps_those_it_runs_on() -> None:
    assert assigned([CpuClaim("a", 2)], {"a": "0-1,4-5"}, a="1,5") == {"a": "1,5"}


def test_one_container_gets_what_another_of_its_pod_gives_back() -> None:
    found = assigned([CpuClaim("a", 6), CpuClaim("b", 2)], {"a": "0-3", "b": "4-7"})
    assert len(parse(found["b"])) == 2 and parse(found["b"]) <= parse("4-7")
    assert parse(found["a"]) | parse(found["b"]) == ALL


def test_too_few_cpus_are_counted() -> None:
    short = assigned([CpuClaim("a", 3)], free="0-1")
    assert short == Short(3, 2)
    assert short.message == "not enough cpus available to satisfy request: requested=3, available=2"


def test_an_init_container_uses_the_cpus_of_containers_that_start_later() -> None:
    found = assigned([CpuClaim("i", 2, INIT), CpuClaim("m", 2)])
    assert found["i"] == found["m"]


def test_a_sidecar_shares_its_cpus_with_nothing_that_starts_after_it() -> None:
    found = assigned([CpuClaim("s", 2, SIDECAR), CpuClaim("i", 2, INIT), CpuClaim("m", 2)])
    assert not parse(found["s"]) & (parse(found["i"]) | parse(found["m"]))
    assert found["i"] == found["m"]
