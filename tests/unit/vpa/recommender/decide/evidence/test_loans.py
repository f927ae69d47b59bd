"""Sizes from the usage of similar containers."""

from __future__ import annotations

import pytest

from podfit.api.selectors import LabelSelector
from podfit.vpa.model.objects.programs import Program
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.evidence.likeness import LEVELS, Likeness
from podfit.vpa.recommender.decide.evidence.loans import Lending, Loan, lasts, lent_to, raises, suffices, with_loan
from podfit.vpa.recommender.decide.evidence.samples import Span
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey, ClusterState
from podfit.vpa.recommender.decide.histograms.estimate import Estimate

START, HOUR_S = 1_700_000_000.0, 3600.0
WEB = Program("app", "web:1", "")


def size(target: int, lower: int, upper: int, name: str = "cpu") -> Estimate:
    return Estimate({name: target}, {name: lower}, {name: upper})


def lending(samples: int, lenders: int = 1, cluster: ClusterState | None = None) -> Lending:
    """Similar containers, with a sample a minute each."""
    cluster, likeness = cluster or ClusterState(Config()), Likeness()
    for number in range(lenders):
        id, labels = ("ns", f"p{number}"), {"app": f"web{number}", "pod-template-hash": "x"}
        cluster.add_pod(id, labels, "Running")
        cluster.add_container(id, "app")
        for minute in range(samples):
            cluster.add_cpu(id, "app", 100, START + 60.0 * minute)
        likeness.note(AggregateKey("ns", "app", f"app=web{number},pod-template-hash=x"), WEB)
    return Lending(cluster, likeness)


def test_an_hour_of_samples_makes_a_lender() -> None:
    assert lending(59).loan("ns", WEB, START) is None
    loan = lending(61).loan("ns", WEB, START)
    assert loan is not None and loan.state.count == 61
    assert 0 < loan.trust <= LEVELS[0].trust


def test_a_loan_names_its_lenders_without_what_changes_with_every_rollout() -> None:
    loan = lending(61).loan("ns", WEB, START)
    assert loan is not None
    assert loan.words("ns").endswith("container app of the pods with app=web0")
    assert loan.words("elsewhere").endswith("with app=web0 in namespace ns")
    many = lending(61, lenders=4).loan("ns", WEB, START)
    assert many is not None and many.words("ns").endswith(" and 2 more")


def test_a_loan_is_reused_for_some_time_without_another_search() -> None:
    made = lending(61)
    first = made.loan("ns", WEB, START)
    assert made.loan("ns", WEB, START + HOUR_S - 1) is first
    assert made.loan("ns", WEB, START + HOUR_S) is not first


def test_own_samples_suffice_when_they_are_worth_as_much_or_after_an_hour() -> None:
    config = Config()
    assert lasts(config) == HOUR_S
    young = Span(START, START + 60, 2)
    assert not suffices(Span(), 0.0, config, START)
    assert not suffices(young, 0.01, config, START + 60) and suffices(young, 0.0001, config, START + 60)
    assert suffices(young, 0.01, config, START + HOUR_S)


def test_a_loan_only_raises_the_target_and_leaves_the_lower_bound() -> None:
    own = size(100, 80, 150)
    assert with_loan(own, size(300, 200, 400)) == size(300, 80, 300)
    assert with_loan(own, size(50, 10, 60)) == own
    assert with_loan(None, own) is own


@pytest.mark.parametrize(
    ("own", "target", "raised"), [(None, 1, True), (size(100, 80, 150), 100, False), (size(100, 80, 150), 101, True)]
)
def test_a_loan_counts_where_it_changes_a_target(own: Estimate | None, target: int, raised: bool) -> None:
    assert raises(own, size(target, 1, 999)) is raised


def test_a_resource_without_own_samples_uses_similar_containers_fully() -> None:
    own, lent = {"app": size(100, 80, 150)}, {"app": size(5, 4, 6, "memory"), "fresh": size(1, 1, 1)}
    found = lent_to(own, lent)
    assert found["app"] == Estimate({"cpu": 100, "memory": 5}, {"cpu": 80, "memory": 4}, {"cpu": 150, "memory": 6})
    assert found["fresh"] == size(1, 1, 1)


def test_samples_of_checkpoints_count_for_similar_containers() -> None:
    cluster = ClusterState(Config())
    obj = {"metadata": {"namespace": "ns", "name": "v"}, "spec": {}}
    scaler = cluster.add_vpa(obj, LabelSelector.parse("app=web0"))
    saved = AggregateState(Config())
    for minute in range(61):
        saved.add_cpu(100, START + 60.0 * minute)
    scaler.initial["app"] = saved
    loan = lending(0, cluster=cluster).loan("ns", WEB, START)
    assert isinstance(loan, Loan) and loan.state.count == 61
