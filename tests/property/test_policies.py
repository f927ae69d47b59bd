"""Every policy: sizes depend only on past usage of the container itself, and grow with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.vpa.policies.base import Costs, UsageSeries, sizes_of
from podfit.vpa.policies.learning import network
from podfit.vpa.policies.learning.holding import hold
from podfit.vpa.policies.table import POLICIES

CASES = [(name, resource) for name in POLICIES for resource in ("cpu", "memory")]
UNIT = {"cpu": 1.0, "memory": float(2**32)}
FEW = settings(max_examples=8, deadline=None)


def usage(seed: int, resource: str, days: int = 4, rows: int = 3, step_s: float = 900.0) -> UsageSeries:
    """A level, a daily rhythm, noise, spikes and gaps."""
    random = np.random.default_rng(seed)
    samples = round(days * 86400 / step_s)
    clock = np.arange(samples) * step_s / 86400
    level = random.uniform(0.3, 2.0, (rows, 1))
    values = (
        level * (1 + 0.3 * np.sin(2 * np.pi * clock)) * random.lognormal(0, random.uniform(0.01, 0.5), (rows, samples))
    )
    values = np.where(random.random(values.shape) < 0.01, values * 2.5, values)
    begin = random.integers(0, samples, rows)
    for row in range(rows):
        values[row, begin[row] : begin[row] + random.integers(0, samples // 2)] = np.nan
    return UsageSeries((values * UNIT[resource]).astype(np.float32), step_s, resource)


@pytest.mark.parametrize(("name", "resource"), CASES)
@FEW
@given(seed=st.integers(0, 2**32 - 1), part=st.floats(0.0, 1.0))
def test_sizes_of_a_prefix_are_the_prefix_of_the_sizes(name: str, resource: str, seed: int, part: float) -> None:
    whole = usage(seed, resource)
    cut = int(part * whole.usage.shape[1])
    before = sizes_of(POLICIES[name], UsageSeries(whole.usage[:, :cut], whole.step_s, resource))
    np.testing.assert_array_equal(before, sizes_of(POLICIES[name], whole)[:, :cut])


@pytest.mark.parametrize(("name", "resource"), CASES)
@FEW
@given(seed=st.integers(0, 2**32 - 1))
def test_a_containers_sizes_do_not_depend_on_the_others(name: str, resource: str, seed: int) -> None:
    together = usage(seed, resource)
    sizes = sizes_of(POLICIES[name], together)
    for row in range(len(together.usage)):
        np.testing.assert_array_equal(sizes_of(POLICIES[name], together.rows(row, row + 1)), sizes[row : row + 1])


@pytest.mark.parametrize(("name", "resource"), [case for case in CASES if case[0] != "default"])
@FEW
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-1, 4))
def test_sizes_scale_with_usage_and_prices(name: str, resource: str, seed: int, power: int) -> None:
    """`default` has fixed buckets and minimums, as upstream; the others decide by the value of capacity."""
    one, factor = usage(seed, resource), 2.0**power
    larger = UsageSeries((one.usage * factor).astype(np.float32), one.step_s, resource)
    costs = Costs()
    expected = sizes_of(POLICIES[name], one, costs) * factor
    found = sizes_of(POLICIES[name], larger, costs.scaled(factor))
    same = np.isclose(found, expected, rtol=1e-3, equal_nan=True)
    assert same.mean() > 0.99, "of two experts that cost the same, either may be followed"


@pytest.mark.parametrize(("name", "resource"), CASES)
@FEW
@given(seed=st.integers(0, 2**32 - 1))
def test_sizes_change_at_the_hour_or_after_a_sample_above_them(name: str, resource: str, seed: int) -> None:
    series = usage(seed, resource)
    sizes = sizes_of(POLICIES[name], series)
    changed = (sizes[:, 1:] != sizes[:, :-1]) & ~np.isnan(sizes[:, :-1])
    short = series.usage[:, :-1] > sizes[:, :-1]
    between = np.arange(1, sizes.shape[1]) % series.hour != 0
    assert not (changed & ~short & between).any()


@pytest.mark.parametrize(
    ("bursty", "sizes"),
    [(False, [1.5, 3.3, 3.3, 3.3, 3.3, 5.5, 5.5]), (True, [1.5, 1.5, 1.5, 1.5, 2.0, 2.1, 2.1])],
)
def test_a_bursty_container_is_raised_after_two_short_samples_in_a_row(bursty: bool, sizes: list[float]) -> None:
    used = np.array([[1.0] * 12 + [3.0, 1.0, 3.0, 2.0, 5.0, 5.0, 1.0]], np.float32)
    decided = np.full((1, 1), 1.5)
    found = hold(UsageSeries(used, 300.0, "cpu"), decided, np.full((1, 1), bursty), 1.1, np.full((1, 1), 0.1))
    np.testing.assert_allclose(found[0, 12:], sizes, rtol=1e-6)


@pytest.mark.parametrize(("name", "resource"), CASES)
def test_a_series_without_samples_gets_no_size(name: str, resource: str) -> None:
    sizes = sizes_of(POLICIES[name], UsageSeries(np.full((2, 200), np.nan, np.float32), 300.0, resource))
    assert np.isnan(sizes).all()


@pytest.mark.parametrize(("name", "resource"), CASES)
def test_a_gap_keeps_a_size(name: str, resource: str) -> None:
    series = usage(7, resource, rows=1)
    values = np.where(np.isnan(series.usage), UNIT[resource], series.usage)
    values[:, 96:192] = np.nan
    sizes = sizes_of(POLICIES[name], UsageSeries(values, series.step_s, resource))
    assert np.isfinite(sizes[:, series.hour :]).all()


@FEW
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 40))
def test_weighted_sums_are_exact_however_many_containers_are_added_at_once(seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    traits = [random.normal(0, 100, (rows, 300)) for _ in range(70)]
    weights = random.normal(0, 1, (20, 71)).tolist()
    center, scale = random.normal(0, 50, 70).tolist(), random.uniform(1e-3, 100, 70).tolist()
    together = network.sums(traits, weights, center, scale)
    one = random.integers(rows)
    alone = network.sums([trait[one : one + 1, :137] for trait in traits], weights, center, scale)
    np.testing.assert_array_equal(together[:, one : one + 1, :137], alone)
