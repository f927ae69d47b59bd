"""Finds similar containers: those with the same program, judged by name, image, command and arguments.

It is an index from programs to the aggregates of all containers that run them, so that no search scans the cluster. No
clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from podfit.vpa.model.objects.programs import Program
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """One degree of similarity, and the maximum confidence of a recommendation from such containers."""

    words: str
    trust: float
    key_of: Callable[[Program], Key]


LEVELS = (
    Level(
        "the same name, image, command and arguments", 0.01, lambda program: (program.name, program.image, program.run)
    ),
    Level("the same image (any tag), command and arguments", 0.003, lambda program: (program.repository, program.run)),
    Level("the same name and image (any tag)", 0.001, lambda program: (program.name, program.repository)),
)
"""From most to least similar. A confidence of 0.01 is that of a quarter of an hour of samples: the bounds are as
wide."""


class Likeness:
    """Aggregates by program. With `across`, containers of other namespaces are included."""

    def __init__(self, across: bool = False) -> None:
        self._across = across
        self._program: dict[AggregateKey, Program] = {}
        self._alike: dict[Key, list[AggregateKey]] = {}

    def note(self, key: AggregateKey, program: Program) -> None:
        """Records the program of an aggregate's containers. If they run several programs, the last one counts."""
        known = self._program.get(key)
        if known == program:
            return
        if known is not None:
            for sibling in self._keys(key.namespace, known):
                self._alike[sibling].remove(key)
        self._program[key] = program
        self._enter(key, program)

    def program(self, key: AggregateKey) -> Program | None:
        return self._program.get(key)

    def similar(self, namespace: str, program: Program) -> Iterator[tuple[Level, Key, Sequence[AggregateKey]]]:
        """Aggregates from most to least similar, those of the same namespace first. An aggregate may appear
        repeatedly."""
        for level in LEVELS:
            for scope in self._scopes(namespace):
                key = _key(scope, level, program)
                if key in self._alike:
                    yield level, key, self._alike[key]

    def forget(self, alive: Callable[[AggregateKey], bool]) -> None:
        kept = {key: program for key, program in self._program.items() if alive(key)}
        if len(kept) != len(self._program):
            self._program, self._alike = kept, {}
            for key, program in kept.items():
                self._enter(key, program)

    def _enter(self, key: AggregateKey, program: Program) -> None:
        for sibling in self._keys(key.namespace, program):
            self._alike.setdefault(sibling, []).append(key)

    def _keys(self, namespace: str, program: Program) -> list[Key]:
        return [_key(scope, level, program) for level in LEVELS for scope in self._scopes(namespace)]

    def _scopes(self, namespace: str) -> tuple[str, ...]:
        return (namespace, "") if self._across else (namespace,)


def _key(scope: str, level: Level, program: Program) -> Key:
    return (scope, level.words, *level.key_of(program))
