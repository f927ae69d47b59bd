"""Any sequence of memory writes, against a model of the kernel's rules: the order is legal and no process is killed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.runtimes.cgroups import v1, v2
from podfit.agent.runtimes.cgroups.weights import shares_of, weight_of
from podfit.agent.runtimes.values import MAX_SHARES, MIN_SHARES, UNLIMITED, BelowUsage, LimitsChange

PAGE = 4096
UNBOUNDED = v1.NO_LIMIT
amounts = st.integers(1, 1 << 20).map(lambda pages: pages * PAGE)


class KernelV1:
    """memory.limit ≤ memory.memsw at all times, else EINVAL; below what cannot be reclaimed, EBUSY."""

    def __init__(self, held: int, cache: int) -> None:
        self.held, self.cache = held, cache
        self.values = {"memory.limit_in_bytes": UNBOUNDED, "memory.memsw.limit_in_bytes": UNBOUNDED}

    def read(self, path: str) -> str:
        name = os.path.basename(path)
        return str(self.held + self.cache) if name == "memory.usage_in_bytes" else str(self.values[name])

    def write(self, path: str, text: str) -> None:
        name = os.path.basename(path)
        value = UNBOUNDED if text == "-1" else int(text)
        after = {**self.values, name: value}
        if after["memory.limit_in_bytes"] > after["memory.memsw.limit_in_bytes"]:
            raise OSError(errno.EINVAL, "Invalid argument", path)
        if value < self.held:
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        self.cache = min(self.cache, value - self.held)
        self.values = after


class KernelV2:
    """memory.max below usage is accepted, and kills; memory.high and memory.reclaim reclaim only cache."""

    def __init__(self, held: int, cache: int, reclaimable: float) -> None:
        self.held, self.cache, self.reclaimable = held, cache, reclaimable
        self.values = {"memory.max": "max", "memory.high": "max"}
        self.killed = False

    def read(self, path: str) -> str:
        name = os.path.basename(path)
        return str(self.held + self.cache) if name == "memory.current" else self.values[name]

    def write(self, path: str, text: str) -> None:
        name = os.path.basename(path)
        if name == "memory.reclaim":
            taken = min(int(text), int(self.cache * self.reclaimable))
            self.cache -= taken
            if taken < int(text):
                raise OSError(errno.EAGAIN, "Try again", path)
            return
        self.values[name] = text
        if name == "memory.max" and text != "max" and self.held + self.cache > int(text):
            self.killed = True


@contextmanager
def kernel(module: object, model: KernelV1 | KernelV2) -> Iterator[None]:
    with mock.patch.object(module, "read", model.read), mock.patch.object(module, "write", model.write):
        yield


@given(held=amounts, cache=amounts, wanted=st.lists(st.one_of(amounts, st.just(UNLIMITED)), max_size=12))
def test_v1_writes_are_in_the_order_the_kernel_wants(held: int, cache: int, wanted: list[int]) -> None:
    model = KernelV1(held, cache)
    with mock.patch.object(os.path, "exists", return_value=True):
        groups = v1.CgroupsV1({"cpu": "/c", "memory": "/m"})
    with kernel(v1, model):
        for value in wanted:
            before = dict(model.values)
            try:
                groups.write("/g", LimitsChange(memory_bytes=value))
            except BelowUsage as refusal:
                assert value < held and refusal.limit_bytes == value and refusal.usage_bytes >= held
                assert model.values == before
            else:
                assert set(model.values.values()) == {UNBOUNDED if value == UNLIMITED else value}


@given(
    held=amounts,
    cache=amounts,
    reclaimable=st.floats(0, 1),
    wanted=st.lists(st.one_of(amounts, st.just(UNLIMITED)), max_size=12),
)
def test_v2_never_kills_and_a_refusal_changes_nothing(
    held: int, cache: int, reclaimable: float, wanted: list[int]
) -> None:
    model = KernelV2(held, cache, reclaimable)
    groups = v2.CgroupsV2("/g")
    with kernel(v2, model):
        for value in wanted:
            before = dict(model.values)
            try:
                groups.write("/g", LimitsChange(memory_bytes=value))
            except BelowUsage as refusal:
                assert refusal.usage_bytes > value == refusal.limit_bytes
                assert model.values == before
            else:
                assert model.values["memory.max"] == ("max" if value == UNLIMITED else str(value))
                assert model.values["memory.high"] == "max"
            assert not model.killed


@given(st.integers(MIN_SHARES, MAX_SHARES), st.integers(MIN_SHARES, MAX_SHARES))
def test_weights_keep_the_order_of_shares(first: int, second: int) -> None:
    assert 1 <= weight_of(first) <= 10000
    assert (first <= second) == (weight_of(first) <= weight_of(second)) or weight_of(first) == weight_of(second)


@given(st.integers(1, 10000))
def test_a_weight_read_back_gives_the_same_weight(weight: int) -> None:
    assert abs(weight_of(shares_of(weight)) - weight) <= 1


def test_weights_are_the_kubelets() -> None:
    assert {shares: weight_of(shares) for shares in (2, 20, 102, 307, 1024, 2048, 262144)} == {
        2: 1, 20: 1, 102: 4, 307: 12, 1024: 39, 2048: 79, 262144: 10000,
    }  # fmt: skip
