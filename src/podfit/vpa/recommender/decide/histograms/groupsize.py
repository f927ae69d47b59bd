"""A margin for small groups: the fewer pods share a load, the more each of them takes over when one is gone.

The margin is `--small-group-margin` divided by the number of pods: with 0.5, a single pod gets 50 % more, ten pods 5 %
more. The lower bound is unchanged, because it is a pod's current need. Off by default, as in the Kubernetes autoscaler.
"""

from __future__ import annotations

from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.amounts import scaled
from podfit.vpa.recommender.decide.histograms.estimate import Estimate


def group_factor(pods: int, config: Config) -> float:
    return 1.0 + config.small_group_margin / max(1, pods)


def for_group(sizes: Estimate, pods: int, config: Config) -> Estimate:
    if not config.small_group_margin:
        return sizes
    factor = group_factor(pods, config)
    target = {name: scaled(amount, factor) for name, amount in sizes.target.items()}
    upper = {name: scaled(amount, factor) for name, amount in sizes.upper.items()}
    return Estimate(target, sizes.lower, upper)
