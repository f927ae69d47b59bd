"""Computes the CPUs that always stay in the shared pool, for the system."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.cpus.decide.sets import BadCpuList, Cpus, parse, text
from podfit.agent.cpus.decide.take import take
from podfit.agent.cpus.decide.topology import Topology
from podfit.api.quantity import Quantity

CPU = "cpu"


class BadReservation(Exception):
    """The static policy cannot work with these reservations."""


def listed(cpus: str) -> Cpus:
    try:
        return parse(cpus)
    except BadCpuList as error:
        raise BadReservation(f"unable to parse reserved-cpus list: {error}") from error


def replaced(
    system: Mapping[str, str], kube: Mapping[str, str], reserved_cpus: str
) -> tuple[dict[str, str], dict[str, str]]:
    """A list of CPUs replaces the numbers in --system-reserved and --kube-reserved."""
    if not reserved_cpus:
        return dict(system), dict(kube)
    without = {name: value for name, value in kube.items() if name != CPU}
    return {**system, CPU: str(len(listed(reserved_cpus)))}, without


def reserved_set(topology: Topology, milli: int, reserved_cpus: str) -> Cpus:
    """`milli`: the total reservation. A fraction of a CPU reserves a whole one."""
    if milli <= 0:
        raise BadReservation(
            "the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero: "
            "use --reserved-cpus, --system-reserved or --kube-reserved"
        )
    count = -(-milli // 1000)
    cpus = listed(reserved_cpus)
    if not cpus <= topology.all:
        raise BadReservation(f"reserved-cpus: {reserved_cpus} is not a subset of online-cpus: {text(topology.all)}")
    if not cpus:
        cpus = take(topology, topology.all, min(count, len(topology.all)))
    if len(cpus) != count:
        raise BadReservation(
            f"unable to reserve the required amount of CPUs (size of {text(cpus)} did not equal {count})"
        )
    return cpus


def reserved_milli(*reserved: Mapping[str, str]) -> int:
    return sum(Quantity.parse(resources[CPU]).milli for resources in reserved if CPU in resources)
