"""Evaluates comprehensions: each form directly, at the cost of its macro's expansion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from podfit.api.cel.evaluation.misfits import not_iterable
from podfit.api.cel.values import LISTS, Failed, NoOverload

Run = Callable[[list[Any]], Any]
_Slots = tuple[int, ...]


def fold_of(form: str, ranged: Run, slots: _Slots, test: Run | None, value: Run | None) -> Run:
    bind = _bind_one if len(slots) == 1 else _bind_two
    if form in ("all", "exists"):
        assert test is not None
        return _quantified(form == "exists", ranged, slots, test, bind)
    if form == "exists_one":
        assert test is not None
        return _exactly_one(ranged, slots, test, bind)
    assert value is not None
    if form == "list":
        return _listed(ranged, slots, test, value, bind)
    return _mapped(form == "entries", ranged, slots, test, value, bind)


_Binding = Callable[[Any], Iterable[Any]]


def _bind_one(values: Any) -> Iterable[Any]:
    """The values of the variable: the elements of a list, or the keys of a map."""
    if isinstance(values, LISTS) or values.__class__ is dict:
        return values  # type: ignore[no-any-return]
    raise not_iterable(values)


def _bind_two(values: Any) -> Iterable[Any]:
    """The values of the two variables: positions and elements of a list, or keys and values of a map."""
    if isinstance(values, LISTS):
        return enumerate(values)
    if values.__class__ is dict:
        return values.items()
    raise not_iterable(values)


def _store(slots: _Slots) -> Callable[[list[Any], Any], None]:
    if len(slots) == 1:
        return lambda frame, item: frame.__setitem__(slots[0], item)

    def store(frame: list[Any], item: Any) -> None:
        frame[slots[0]], frame[slots[1]] = item

    return store


def _quantified(wanted: bool, ranged: Run, slots: _Slots, test: Run, bind: _Binding) -> Run:
    """Evaluates `all`, up to the first false, or `exists`, up to the first true. Errors count only if there is none."""
    first = slots[0]
    second = slots[1] if len(slots) == 2 else 0
    each = 4 if wanted else 3

    def run(frame: list[Any]) -> bool:
        failure: Failed | None = None
        for item in bind(ranged(frame)):
            frame[0] += each
            if frame[0] > frame[1]:
                frame[2](frame)
            if second:
                frame[first], frame[second] = item
            else:
                frame[first] = item
            try:
                found = test(frame)
            except Failed as error:
                failure = failure or error
                continue
            if type(found) is not bool:
                failure = failure or NoOverload()
            elif found is wanted:
                frame[0] += each
                return wanted
        frame[0] += 1
        if failure is not None:
            raise failure
        return not wanted

    return run


def _exactly_one(ranged: Run, slots: _Slots, test: Run, bind: _Binding) -> Run:
    store = _store(slots)

    def run(frame: list[Any]) -> bool:
        count = 0
        for item in bind(ranged(frame)):
            frame[0] += 1
            if frame[0] > frame[1]:
                frame[2](frame)
            store(frame, item)
            if _holds(test(frame)):
                frame[0] += 1
                count += 1
        frame[0] += 2
        return count == 1

    return run


def _holds(value: Any) -> bool:
    if type(value) is not bool:
        raise NoOverload
    return value is True


def _listed(ranged: Run, slots: _Slots, test: Run | None, value: Run, bind: _Binding) -> Run:
    store = _store(slots)

    def run(frame: list[Any]) -> list[Any]:
        made = []
        for item in bind(ranged(frame)):
            frame[0] += 1
            if frame[0] > frame[1]:
                frame[2](frame)
            store(frame, item)
            if test is None or _holds(test(frame)):
                frame[0] += 11
                made.append(value(frame))
        frame[0] += 1
        return made

    return run


def _mapped(entries: bool, ranged: Run, slots: _Slots, test: Run | None, value: Run, bind: _Binding) -> Run:
    store = _store(slots)

    def run(frame: list[Any]) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for item in bind(ranged(frame)):
            frame[0] += 1
            if frame[0] > frame[1]:
                frame[2](frame)
            store(frame, item)
            if test is None or _holds(test(frame)):
                frame[0] += 1 if entries else 2
                found = value(frame)
                for key, entry in found.items() if entries else ((item[0], found),):
                    if key in made:
                        raise Failed(f"insert failed: key {key} already exists")
                    made[key] = entry
        frame[0] += 1
        return made

    return run
