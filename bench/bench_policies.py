"""Scores the recommendation policies on public traces, and measures their time for 10,000 containers over ten days.

The traces are read from ../shared/traces; if they are missing, only the time is measured.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from podfit.vpa.policies.base import Policy, UsageSeries, sizes_of
from podfit.vpa.policies.quality import quality_of
from podfit.vpa.policies.table import POLICIES

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
GIB = np.float32(2**30)
CORES, BYTES = 4.0, 16.0 * 2**30
"""The amounts that correspond to 100 % in a trace."""
CONTAINERS, SAMPLES = 10_000, 2_880


def traces() -> dict[str, UsageSeries]:
    if not TRACES.is_dir():
        return {}
    google = np.load(TRACES / "google-2011-jobs.npz")["usage"].astype(np.float32) / 100
    lab = np.load(TRACES / "planetlab-2011-vms.npz")["cpu"].astype(np.float32)
    lab[lab == 255] = np.nan
    jobs, machines = len(google), len(lab)
    return {
        "Google memory": UsageSeries((google[..., 1] * BYTES).reshape(jobs, -1), 300.0, "memory"),
        "Google CPU": UsageSeries((google[..., 0] * CORES).reshape(jobs, -1), 300.0, "cpu"),
        "PlanetLab CPU": UsageSeries(lab.reshape(machines, -1) / 100 * CORES, 300.0, "cpu"),
    }


def main() -> None:
    found = traces()
    if not found:
        print(f"quality is not measured: there are no public traces in {TRACES.name}/ beside the repository")
    for name, series in found.items():
        print(f"{name:14} {'slack':>7} {'days short':>11} {'samples short':>14} {'changes/day':>12}")
        for policy in POLICIES.values():
            one = quality_of(series, sizes_of(policy, series))
            short = f"{one.days_short:11.1%} {one.short:14.2%}"
            print(f"  {policy.name:12} {one.slack:7.1%} {short} {one.changes_a_day:12.2f}")
    random = np.random.default_rng(0)
    level, noise = random.uniform(0.1, 2.0, (CONTAINERS, 1)), random.lognormal(0, 0.2, (CONTAINERS, SAMPLES))
    values = (level * noise).astype(np.float32)
    print(f"{CONTAINERS:,} containers, ten days: processor seconds for CPU and for memory (goal ≤ 10 s)")
    for policy in POLICIES.values():
        took = [
            _seconds(policy, UsageSeries(values, 300.0, "cpu")),
            _seconds(policy, UsageSeries(values * GIB, 300.0, "memory")),
        ]
        print(f"  {policy.name:12} {took[0]:6.1f} {took[1]:6.1f}", flush=True)


def _seconds(policy: Policy, series: UsageSeries) -> float:
    begun = time.process_time()
    sizes_of(policy, series)
    return time.process_time() - begun


if __name__ == "__main__":
    main()
