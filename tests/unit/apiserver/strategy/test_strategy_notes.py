"""Events of events.k8s.io: required fields of a new Event, and permitted updates."""

from __future__ import annotations

from typing import Any

from podfit.api.registry.kinds import kind_named
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.strategy.base import Strategy

WHEN = "2020-01-01T00:00:00.000000Z"
POD = {"kind": "Pod", "namespace": "d", "name": "p"}


def events() -> Strategy:
    return strategy_for(kind_named("Event", "events.k8s.io"))


def event(**fields: Any) -> dict[str, Any]:
    said = {"reportingController": "a.b/c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal"}
    return {
        "metadata": {"name": "e", "namespace": "d", "resourceVersion": "1"},
        "regarding": POD,
        "eventTime": WHEN,
        **said,
        **fields,
    }


def test_an_event_series_has_at_least_two_events_and_the_time_of_the_last() -> None:
    words = [
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value",
    ]
    strategy, bad = events(), event(series={"count": 1, "lastObservedTime": None})
    assert [str(each) for each in strategy.validate_create(bad)] == words
    assert [str(each) for each in strategy.validate_update(bad, event())] == words
    assert strategy.validate_update(bad, bad) == []
    good = event(series={"count": 2, "lastObservedTime": WHEN})
    assert strategy.validate_create(good) == [] == strategy.validate_update(good, event())


def test_an_event_of_the_older_form_can_be_updated() -> None:
    old = {
        "metadata": {"name": "e", "namespace": "d", "resourceVersion": "1"},
        "regarding": POD,
        "reason": "R",
        "deprecatedFirstTimestamp": "2020-01-01T00:00:00Z",
        "deprecatedCount": 3,
        "deprecatedSource": {"component": "c"},
    }
    new = {**old, "metadata": {**old["metadata"], "annotations": {"a": "b"}}}  # type: ignore[dict-item]
    assert events().validate_update(new, old) == []
    assert events().validate_create(new) != []


def test_recorded_fields_of_an_event_are_immutable() -> None:
    new = event(regarding={**POD, "uid": "u"}, reason="S", note="n", deprecatedSource={"host": "h"}, type="Warning")
    assert [str(each) for each in events().validate_update(new, event())] == [
        'involvedObject: Invalid value: {"Kind":"Pod","Namespace":"d","Name":"p","UID":"u","APIVersion":"",'
        '"ResourceVersion":"","FieldPath":""}: field is immutable',
        'reason: Invalid value: "S": field is immutable',
        'message: Invalid value: "n": field is immutable',
        'source: Invalid value: {"Component":"","Host":"h"}: field is immutable',
        'reason: Invalid value: "S": field is immutable',
        'type: Invalid value: "Warning": field is immutable',
    ]
