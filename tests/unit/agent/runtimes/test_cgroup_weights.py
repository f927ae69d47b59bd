"""CPU shares survive cgroup v2, whichever of the two formulas a container runtime used to compute the weight."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.runtimes.cgroups import v2
from podfit.agent.runtimes.cgroups.v2 import CgroupsV2
from podfit.agent.runtimes.cgroups.weights import steeper_weight_of, weight_of
from podfit.agent.runtimes.values import MAX_SHARES, MIN_SHARES, LimitsChange


def group_with(folder: Path, weight: int) -> CgroupsV2:
    group = folder / "g"
    group.mkdir()
    for name, text in (("cpu.weight", str(weight)), ("cpu.max", "max 100000"), ("memory.max", "max")):
        (group / name).write_text(text)
    try:
        os.setxattr(group, "trusted.podfit.test", b"1")
    except OSError:
        pytest.skip("no extended attributes here")
    return CgroupsV2(str(folder))


@pytest.mark.parametrize("formula", [weight_of, steeper_weight_of])
@pytest.mark.parametrize("shares", [2, 25, 102, 1024, 2048, 262144])
def test_noted_shares_are_read_back_by_either_formula(tmp_path: Path, formula: object, shares: int) -> None:
    groups = group_with(tmp_path, formula(shares))  # type: ignore[operator]
    groups.note_shares("/g", shares)
    assert groups.limits("/g").cpu_shares == shares


@pytest.mark.parametrize("formula", [weight_of, steeper_weight_of])
def test_a_resize_keeps_to_the_formula_of_the_runtime_that_made_the_group(
    tmp_path: Path, formula: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_whole(path: str, text: str) -> None:
        """As the kernel does with its files."""
        Path(path).write_text(text)

    monkeypatch.setattr(v2, "write", replace_whole)
    groups = group_with(tmp_path, formula(512))  # type: ignore[operator]
    groups.note_shares("/g", 512)
    for shares in (2048, 102, 1024):
        groups.write("/g", LimitsChange(cpu_shares=shares))
        assert int((tmp_path / "g" / "cpu.weight").read_text()) == formula(shares)  # type: ignore[operator]
        assert groups.limits("/g").cpu_shares == shares


def test_a_note_is_not_replaced_and_another_weight_is_believed(tmp_path: Path) -> None:
    groups = group_with(tmp_path, weight_of(512))
    groups.note_shares("/g", 512)
    groups.note_shares("/g", 1024)
    assert groups.limits("/g").cpu_shares == 512
    (tmp_path / "g" / "cpu.weight").write_text("5000")
    assert groups.limits("/g").cpu_shares not in (512, 1024)


def test_the_steeper_formula_keeps_the_defaults_and_the_ends() -> None:
    assert [steeper_weight_of(shares) for shares in (2, 1024, 262144)] == [1, 100, 10000]


@given(st.integers(MIN_SHARES, MAX_SHARES - 1))
def test_more_shares_never_weigh_less(shares: int) -> None:
    assert 1 <= steeper_weight_of(shares) <= steeper_weight_of(shares + 1) <= 10_000
