"""Limits in the form of a domain's metadata."""

from __future__ import annotations

import pytest
from tests.support.machines import settings_in

from podfit.vm.decide.conversions import cpus_of, limits_of, settings_of, to_xml
from podfit.vm.decide.sizes import Limits


def test_unset_fields_are_absent_from_the_metadata() -> None:
    assert to_xml(settings_of(Limits(), 2)) == '<size vcpus="2" cpuset_cpus="" cpuset_mems="" />'


def test_a_set_limit_is_carried_as_it_was_given() -> None:
    limits = Limits(cpu_period=100_000, cpu_quota=-1, cpu_shares=1024, memory_bytes=(1 << 40) + 1, cpuset_cpus="0-3")
    settings = settings_in(to_xml(settings_of(limits, 4)))
    assert settings.vcpus == 4
    assert limits_of(settings) == limits


@pytest.mark.parametrize("limits", [Limits(cpu_shares=-1), Limits(cpu_period=-1)])
def test_a_negative_number_where_a_domain_has_none_is_an_error(limits: Limits) -> None:
    with pytest.raises(OverflowError, match="-1 does not fit between 0"):
        settings_of(limits, 1)


@pytest.mark.parametrize(("text", "cpus"), [("0", {0}), ("0-2,5\n", {0, 1, 2, 5}), ("1, 3-4", {1, 3, 4}), ("", set())])
def test_a_list_of_cpus_names_its_numbers(text: str, cpus: set[int]) -> None:
    assert cpus_of(text) == cpus
