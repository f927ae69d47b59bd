"""The recommender's settings, by their flags."""

from __future__ import annotations

import pytest

from podfit.api.quantity import Quantity
from podfit.vpa.recommender.decide.config import Config, from_flags, to_flags


def test_flags_set_the_numbers_of_their_names() -> None:
    config = from_flags({"target-cpu-percentile": 0.5, "feature-gates": {"PerVPAConfig": True}})
    assert config == Config(target_cpu_percentile=0.5, per_vpa_config=True)


def test_the_largest_amounts_of_the_cluster_are_quantities_and_empty_means_no_limit() -> None:
    flags = {
        "container-recommendation-max-allowed-cpu": "2",
        "container-recommendation-max-allowed-memory": "",
    }
    assert from_flags(flags).max_allowed == {"cpu": Quantity.parse("2")}


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown flag: --no-such-flag"):
        from_flags({"no-such-flag": 1})


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(target_cpu_percentile=0.5, humanize_memory=True, per_vpa_config=True),
        Config(container_recommendation_max_allowed_cpu=Quantity.parse("1500m")),
    ],
)
def test_settings_written_as_flags_are_read_back(config: Config) -> None:
    assert from_flags(to_flags(config)) == config


def test_defaults_are_not_written() -> None:
    assert to_flags(Config()) == {}
