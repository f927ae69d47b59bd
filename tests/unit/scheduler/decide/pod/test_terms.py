"""Affinity terms and spread constraints, read into values."""

from __future__ import annotations

from typing import Any

from podfit.scheduler.decide.pod.terms import NO_TERMS, PREFERRED, REQUIRED, spreads_of, terms_of

LABELS = {"app": "a", "rev": "7"}


def one(**term: Any) -> Any:
    body = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, **term}
    spec = {"affinity": {"podAffinity": {REQUIRED: [body]}}}
    return terms_of(spec, "ns", LABELS).affinity[0]


def test_a_pod_that_requests_nothing_has_no_terms() -> None:
    assert terms_of({}, "ns", LABELS) is NO_TERMS
    assert terms_of({"affinity": {"nodeAffinity": {}}}, "ns", LABELS) is NO_TERMS and not NO_TERMS


def test_a_term_is_about_the_pods_own_namespace_unless_it_says_otherwise() -> None:
    assert one().who.matches("ns", LABELS, {}) and not one().who.matches("other", LABELS, {})
    assert one(namespaces=["other"]).who.matches("other", LABELS, {})
    by_label = one(namespaceSelector={"matchLabels": {"team": "x"}}).who
    assert by_label.matches("b", LABELS, {"b": {"team": "x"}}) and not by_label.matches("ns", LABELS, {"ns": {}})


def test_label_keys_narrow_the_selector_to_the_pods_own_values() -> None:
    same, others = one(matchLabelKeys=["rev", "missing"]).who, one(mismatchLabelKeys=["rev"]).who
    assert same.matches("ns", LABELS, {}) and not same.matches("ns", {**LABELS, "rev": "8"}, {})
    assert others.matches("ns", {**LABELS, "rev": "8"}, {}) and not others.matches("ns", LABELS, {})


def test_anti_affinity_has_a_negative_weight() -> None:
    row = {"weight": 5, "podAffinityTerm": {"topologyKey": "zone"}}
    spec = {"affinity": {"podAffinity": {PREFERRED: [row]}, "podAntiAffinity": {PREFERRED: [row]}}}
    assert [weight for weight, _ in terms_of(spec, "ns", LABELS).preferred] == [5, -5]


def test_a_broken_selector_selects_nothing() -> None:
    broken = one(labelSelector={"matchExpressions": [{"key": "app", "operator": "Near"}]})
    assert not broken.who.matches("ns", LABELS, {})


def test_a_spread_constraint_has_kubernetes_defaults() -> None:
    (spread,) = spreads_of(
        {"topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}]},
        "ns",
        LABELS,
    )
    assert (spread.max_skew, spread.hard, spread.min_domains, spread.matches_self) == (1, True, 1, True)
    assert (spread.honor_affinity, spread.honor_taints) == (True, False)
