"""Similar containers: which ones are found, and how their samples affect sizes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.vpa.model.objects.programs import Program, program_of
from podfit.vpa.model.similar import FROM_SIMILAR, borrowed_resources, own_only
from podfit.vpa.observe.trims import pod_with_programs
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.evidence.likeness import LEVELS, Likeness
from podfit.vpa.recommender.decide.evidence.loans import LENDS_FROM, Lending, lasts, raises, suffices, with_loan
from podfit.vpa.recommender.decide.evidence.samples import Span
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey, ClusterState
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, confidence, estimate, minimums

CONFIG = Config()
START = 1_700_000_000.0
NAMES, IMAGES, RUNS = ("a", "b"), ("x:1", "x:2", "r/x:1", "r/x@sha256:00", "host:5000/y"), ("", "one", "two")
programs = st.builds(Program, st.sampled_from(NAMES), st.sampled_from(IMAGES), st.sampled_from(RUNS))
keys = st.builds(AggregateKey, st.sampled_from(("n", "m")), st.sampled_from(NAMES), st.sampled_from(("app=1", "app=2")))
amounts = st.integers(0, 10**9)
sizes = st.lists(st.sampled_from(["cpu", "memory"]), unique=True).flatmap(
    lambda names: st.tuples(*(st.lists(amounts, min_size=3, max_size=3).map(sorted) for _ in names)).map(
        lambda found: Estimate(
            *({name: three[at] for name, three in zip(names, found, strict=True)} for at in (1, 0, 2))
        )
    )
)


@given(
    st.lists(st.tuples(keys, programs), max_size=12),
    st.sets(keys),
    programs,
    st.sampled_from(["n", "m"]),
    st.booleans(),
)
def test_exactly_the_similar_containers_are_found(
    noted: list[tuple[AggregateKey, Program]], gone: set[AggregateKey], wanted: Program, namespace: str, across: bool
) -> None:
    index, last = Likeness(across), dict(noted)
    for key, program in noted:
        index.note(key, program)
    index.forget(lambda key: key not in gone)
    found = {level.words: set[AggregateKey]() for level in LEVELS}
    for level, _, alike in index.similar(namespace, wanted):
        found[level.words] |= set(alike)
    alive = {key: program for key, program in last.items() if key not in gone}
    for level in LEVELS:
        assert found[level.words] == {
            key
            for key, program in alive.items()
            if level.key_of(program) == level.key_of(wanted) and (across or key.namespace == namespace)
        }


@given(programs, programs)
def test_more_similar_containers_are_similar_at_every_weaker_level(one: Program, other: Program) -> None:
    first, second, third = (level.key_of(one) == level.key_of(other) for level in LEVELS)
    assert first == (one == other)
    assert not first or (second and third)


words = st.lists(st.text(max_size=3), max_size=2)


@given(words, words, words, words)
def test_a_trimmed_container_runs_the_same_as_the_whole_one(
    command: list[str], args: list[str], other_command: list[str], other_args: list[str]
) -> None:
    whole = {"name": "a", "image": "x", "command": command, "args": args}
    [trimmed] = pod_with_programs({"metadata": {"name": "p"}, "spec": {"containers": [whole]}})["spec"]["containers"]
    assert program_of(trimmed) == program_of(whole)
    assert "command" not in trimmed and "args" not in trimmed
    other = program_of({**whole, "command": other_command, "args": other_args})
    assert (other == program_of(whole)) == ((command, args) == (other_command, other_args))


@given(st.none() | sizes, sizes)
def test_a_loan_lowers_nothing_and_leaves_the_lower_bounds_of_samples_alone(
    own: Estimate | None, lent: Estimate
) -> None:
    found = with_loan(own, lent)
    known = own.target if own is not None else {}
    assert found.target.keys() == known.keys() | lent.target.keys()
    for name in found.target:
        assert found.lower[name] <= found.target[name] <= found.upper[name]
        if own is not None and name in known:
            assert found.target[name] == max(own.target[name], lent.target.get(name, 0))
            assert found.lower[name] == own.lower[name]
            assert found.upper[name] >= own.upper[name]
        else:
            assert (found.target[name], found.lower[name]) == (lent.target[name], lent.lower[name])
    assert raises(own, lent) == (found.target != known)


def used(minutes: int, millicores: int, memory: int) -> AggregateState:
    state = AggregateState(CONFIG)
    for minute in range(minutes):
        state.add_cpu(millicores, START + minute * 60)
    if minutes:
        state.add_peak(memory, START)
    return state


@given(st.integers(0, 120), st.sampled_from(LEVELS))
def test_own_samples_suffice_from_the_confidence_of_the_loan_on_and_after_an_hour(minutes: int, level: Any) -> None:
    state = used(minutes, 100, 10**8)
    span = Span(state.first, state.last, state.count, state.last)
    trust = confidence(state.first, state.last, state.count, CONFIG.confidence_interval_cpu)
    enough = minutes > 0 and (trust >= level.trust or minutes * 60 >= lasts(CONFIG))
    assert suffices(span, level.trust, CONFIG, START + minutes * 60) == enough


@given(st.integers(0, 3000), st.integers(1, 10**5), st.integers(1, 10**11))
def test_a_recommendation_from_similar_containers_has_wider_bounds(minutes: int, millicores: int, memory: int) -> None:
    cluster = ClusterState(CONFIG, Fleet(CONFIG))
    cluster.add_pod(("n", "p"), {"app": "1"}, "Running")
    cluster.add_container(("n", "p"), "a")
    handle: Any = cluster.pod(("n", "p")).containers["a"]  # type: ignore[union-attr]
    at = [START + minute * 60 for minute in range(minutes)]
    cluster.fleet.ingest_cpu([handle.handle] * minutes, at, [millicores] * minutes)  # type: ignore[union-attr]
    cluster.fleet.ingest_memory([handle.handle] * minutes, at, [memory] * minutes)  # type: ignore[union-attr]
    index = Likeness()
    index.note(AggregateKey("n", "a", "app=1"), Program("a", "x:1", ""))
    lending = Lending(cluster, index)
    state = cluster.aggregate(AggregateKey("n", "a", "app=1"))
    assert state is not None
    trust = confidence(state.first, state.last, state.count, CONFIG.confidence_interval_cpu)
    alike = (Program("a", "x:1", ""), Program("b", "x:2", ""), Program("a", "x", "one"))
    for level, program in zip(LEVELS, alike, strict=True):
        loan = lending.loan("n", program, START)
        assert lending.loan("m", program, START) is None
        if trust < LENDS_FROM:
            assert loan is None
            continue
        assert loan is not None and loan.trust == level.trust * min(1.0, trust) and loan.likeness == level.words
        own, lent = (
            estimate(state, CONFIG, minimums(CONFIG, 1)),
            estimate(loan.state, CONFIG, minimums(CONFIG, 1), loan.trust),
        )
        assert lent.target == own.target
        for name in ("cpu", "memory"):
            assert lent.lower[name] <= own.lower[name] and own.upper[name] <= lent.upper[name]


entries = st.lists(
    st.fixed_dictionaries(
        {
            "containerName": st.sampled_from("abc"),
            "target": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.just("1")),
            "uncappedTarget": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.just("1")),
        }
    ),
    max_size=3,
)


@given(entries, st.sampled_from(["True", "False", None]))
def test_recommendations_from_similar_containers_do_not_change_running_pods(given: Any, status: str | None) -> None:
    conditions = [{"type": FROM_SIMILAR, "status": status}] if status else []
    vpa = {"status": {"conditions": conditions, "recommendation": {"containerRecommendations": given}}}
    found: Any = own_only(vpa)
    if status != "True":
        assert found is vpa
        return
    left = found["status"]["recommendation"].get("containerRecommendations") or []
    assert not any(borrowed_resources(entry) for entry in left)
    assert [entry["containerName"] for entry in left] == [
        entry["containerName"]
        for entry in given
        if not entry["target"] or entry["target"].keys() & entry["uncappedTarget"].keys()
    ]
