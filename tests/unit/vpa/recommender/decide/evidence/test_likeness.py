"""Which containers are similar."""

from __future__ import annotations

from podfit.vpa.model.objects.programs import Program
from podfit.vpa.recommender.decide.evidence.likeness import LEVELS, Likeness
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey

WEB = Program("app", "registry/web:1", "run")


def key(labels: str, namespace: str = "ns") -> AggregateKey:
    return AggregateKey(namespace, "app", labels)


def levels(likeness: Likeness, program: Program, namespace: str = "ns") -> list[tuple[int, list[str]]]:
    """The levels of similarity, the highest first, with the labels of the containers found."""
    found = likeness.similar(namespace, program)
    return [(LEVELS.index(level), [item.labels for item in alike]) for level, _, alike in found]


def noted(*programs: Program, across: bool = False, namespace: str = "ns") -> Likeness:
    made = Likeness(across)
    for number, program in enumerate(programs):
        made.note(key(f"n={number}", namespace), program)
    return made


def test_the_same_program_is_similar_at_every_level() -> None:
    assert levels(noted(WEB), WEB) == [(0, ["n=0"]), (1, ["n=0"]), (2, ["n=0"])]


def test_a_different_tag_command_or_name_reduces_similarity() -> None:
    tag, command = WEB._replace(image="registry/web:2"), WEB._replace(run="other")
    assert levels(noted(tag), WEB) == [(1, ["n=0"]), (2, ["n=0"])]
    assert levels(noted(command), WEB) == [(2, ["n=0"])]
    assert levels(noted(WEB._replace(name="other")), WEB) == [(1, ["n=0"])]
    assert levels(noted(WEB._replace(image="registry/db:1")), WEB) == []


def test_other_namespaces_are_similar_only_across_the_cluster() -> None:
    assert levels(noted(WEB, namespace="elsewhere"), WEB) == []
    assert levels(noted(WEB, across=True, namespace="elsewhere"), WEB)[0] == (0, ["n=0"])


def test_of_several_programs_of_an_aggregate_the_last_counts() -> None:
    likeness = noted(WEB)
    likeness.note(key("n=0"), Program("app", "registry/db:1", ""))
    assert levels(likeness, WEB)[:1] != [(0, ["n=0"])]
    assert likeness.program(key("n=0")) == Program("app", "registry/db:1", "")


def test_aggregates_that_are_gone_are_dropped() -> None:
    likeness = noted(WEB, WEB)
    likeness.forget(lambda obj: obj.labels == "n=1")
    assert levels(likeness, WEB)[0] == (0, ["n=1"]) and likeness.program(key("n=0")) is None
