"""Estimates the maximum cost of an expression before it runs, as cel-go and Kubernetes do.

`estimated` walks the checked expression. Sizes come from its literals and, by the path of a value (`self`, `spec`,
`@items`, …), from the declarations of the variables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podfit.api.cel.cost.estimate_calls import CALLS, STANDARD
from podfit.api.cel.cost.sizes import FREE, LIST_COST, MAP_COST, MOST, ONE, STRUCT_COST, UNKNOWN, Operand, Range, SizeOf
from podfit.api.cel.library.functions import Overload
from podfit.api.cel.parsing.syntax import (
    ACCUMULATOR,
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Message,
    Node,
    OptMap,
    Select,
)
from podfit.api.cel.types import Type

_SCALARS = ("bool", "double", "duration", "int", "timestamp", "uint")
_CONSTANTS = (bool, float, int, type(None))


def estimated(root: Node, size_of: SizeOf) -> int:
    """The maximum cost of one evaluation."""
    return _Estimator(size_of).cost(root).high


@dataclass(frozen=True, slots=True)
class _Entry:
    """The sizes of the elements of a list or a map."""

    container: str
    key: Range
    value: Range


@dataclass(frozen=True, slots=True)
class _Local:
    path: tuple[str, ...]
    size: Range | None
    entry: _Entry | None = None


class _Estimator:
    def __init__(self, size_of: SizeOf) -> None:
        self._size_of = size_of
        self._costs: dict[int, Range] = {}
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entry] = {}
        self._locals: dict[str, list[_Local]] = {}
        self._kinds: dict[type[Node], Callable[..., Range]] = {
            Literal: lambda node: FREE,
            Ident: self._ident,
            Select: self._select,
            Call: self._call,
            OptMap: self._call,
            ListNode: self._list,
            MapNode: self._map,
            Fold: self._fold,
            Message: lambda node: Range(STRUCT_COST, STRUCT_COST),
        }

    def cost(self, node: Node) -> Range:
        # A subtree that a macro uses twice is estimated once.
        known = self._costs.get(id(node))
        if known is None:
            known = self._costs[id(node)] = self._kinds[type(node)](node)
        return known

    # --- names ----------------------------------------------------------------------------------------------------

    def _local(self, name: str) -> _Local | None:
        found = self._locals.get(name)
        return found[-1] if found else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _path(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(id(node), ())

    def _ident(self, node: Ident) -> Range:
        local = self._local(node.name)
        self._paths[id(node)] = (node.name,) if local is None else local.path
        return ONE

    def _select(self, node: Select) -> Range:
        if node.variable:
            self._paths[id(node)] = (node.variable,)
            return ONE
        if node.test:
            return self.cost(node.operand)
        cost = self.cost(node.operand)
        if node.operand.type.kind in ("map", "object", "param"):
            cost += ONE
        self._paths[id(node)] = (*self._path(node.operand), node.name)
        return cost

    # --- sizes ----------------------------------------------------------------------------------------------------

    def _size(self, node: Node) -> Range | None:
        known = self._sizes.get(id(node)) or _literal_size(node)
        if known is not None:
            return known
        found = self._size_of(self._path(node))
        if found is not None:
            self._sizes[id(node)] = found
            return found
        if _scalar(node.type):
            return ONE
        local = self._local(node.name) if isinstance(node, Ident) else None
        return local.size if local is not None else None

    def _size_or_unknown(self, node: Node) -> Range:
        return self._size(node) or UNKNOWN

    def _entry(self, node: Node) -> _Entry | None:
        found = self._entries.get(id(node))
        if found is None and isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.entry
        return found

    def _operand(self, node: Node) -> Operand:
        path = self._path(node)
        if path and path[0] in (ACCUMULATOR, "__result__"):
            path = ()
        return Operand(path, node.type, self._size(node), self._size_of, node)

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            cost = self.cost(node.args[0]) + ONE
            self._copy(node, node.args[0])
            return cost
        costs = [self.cost(arg) for arg in node.args]
        args = [self._operand(arg) for arg in node.args]
        if not node.overloads:
            return FREE
        before, target = FREE, None
        if node.target is not None:
            before, target = self.cost(node.target), self._operand(node.target)
        low, high, size = MOST, 0, None
        for overload in node.overloads:
            cost, found = self._overload(node, overload, target, args, costs)
            low, high = min(low, cost.low), max(high, cost.high)
            if found is not None:
                size = found if size is None else size.union(found)
            size = self._indexed(node, overload, size)
            size = size or self._size(node)
        if size is not None:
            self._sizes[id(node)] = size
        return before + Range(low, high)

    def _indexed(self, node: Call, overload: Overload, size: Range | None) -> Range | None:
        """The element that an index selects."""
        step = {"index_list": "@items", "index_map": "@values"}.get(overload.id)
        if step is None:
            return size
        self._paths[id(node)] = (*self._path(node.args[0]), step)
        entry = self._entry(node.args[0])
        return entry.value if entry is not None else None

    def _overload(
        self, node: Call, overload: Overload, target: Operand | None, args: list[Operand], costs: list[Range]
    ) -> tuple[Range, Range | None]:
        total = FREE
        for cost in costs:
            total += cost
        estimate = CALLS.get(overload.id) or CALLS.get(node.function)
        found = estimate(overload.id, target, args) if estimate is not None else None
        if found is not None:
            return found[0] + total, found[1]
        if overload.id in ("logical_and", "logical_or"):
            return Range(costs[0].low, (costs[0] + costs[1]).high), None
        if overload.id == "conditional":
            return self._conditional(node, costs)
        if overload.id in ("add_string", "add_bytes", "add_list"):
            return self._added(node, overload, total)
        standard = STANDARD.get(overload.id)
        found = standard(overload.id, target, args) if standard is not None else None
        return (ONE + total, None) if found is None else (found[0] + total, found[1])

    def _conditional(self, node: Call, costs: list[Range]) -> tuple[Range, Range]:
        _, yes, no = node.args
        self._set_entry(node, self._union(self._entry(yes), self._entry(no)))
        size = self._size_or_unknown(yes).union(self._size_or_unknown(no))
        return costs[0] + costs[1].union(costs[2]), size

    def _added(self, node: Call, overload: Overload, total: Range) -> tuple[Range, Range]:
        left, right = node.args
        size = self._size_or_unknown(left) + self._size_or_unknown(right)
        self._set_entry(node, self._union(self._entry(left), self._entry(right)))
        cost = ONE if overload.id == "add_list" else size.scaled(0.1)
        return cost + total, size

    # --- aggregates and comprehensions ----------------------------------------------------------------------------

    def _set_entry(self, node: Node, entry: _Entry | None) -> None:
        if entry is not None:
            self._entries[id(node)] = entry

    def _union(self, one: _Entry | None, other: _Entry | None) -> _Entry | None:
        if one is None or other is None:
            return None
        return _Entry(one.container, one.key.union(other.key), one.value.union(other.value))

    def _copy(self, node: Node, source: Node) -> None:
        if (size := self._size(source)) is not None:
            self._sizes[id(node)] = size
        self._set_entry(node, self._entry(source))

    def _spread(self, nodes: list[Node]) -> Range:
        if not nodes:
            return FREE
        found = Range(MOST, 0)
        for node in nodes:
            found = found.union(self._size_or_unknown(node))
        return found

    def _list(self, node: ListNode) -> Range:
        total = FREE
        for item in node.items:
            total += self.cost(item)
        self._entries[id(node)] = _Entry("list", ONE, self._spread(node.items))
        return total + Range(LIST_COST, LIST_COST)

    def _map(self, node: MapNode) -> Range:
        total = FREE
        for key, value, _ in node.entries:
            total = total + self.cost(key) + self.cost(value)
        keys, values = [entry[0] for entry in node.entries], [entry[1] for entry in node.entries]
        self._entries[id(node)] = _Entry("map", self._spread(keys), self._spread(values))
        return total + Range(MAP_COST, MAP_COST)

    def _fold(self, node: Fold) -> Range:
        total = self.cost(node.range) + self.cost(node.init)
        self._push(node.accumulator, _Local(self._path(node.init), self._size(node.init), self._entry(node.init)))
        if node.form == "bind":
            total += self.cost(node.result)
            self._locals[node.accumulator].pop()
            self._copy(node, node.result)
            return total
        for name, local in zip(node.variables, self._elements(node), strict=True):
            self._push(name, local)
        each = self.cost(node.condition) + self.cost(node.step)
        for name in node.variables:
            self._locals[name].pop()
        total += self.cost(node.result)
        self._locals[node.accumulator].pop()
        count = self._size_or_unknown(node.range)
        if isinstance(node.init, Literal):
            if (size := self._size(node.init)) is not None:
                self._sizes[id(node)] = size
        else:
            self._sizes[id(node)] = count
            self._set_entry(node, self._entry(node.step))
        return total + count * each

    def _elements(self, node: Fold) -> list[_Local]:
        entry, path = self._entry(node.range), self._path(node.range)
        container = entry.container if entry is not None else node.range.type.kind
        key = entry.key if entry is not None else None
        value = entry.value if entry is not None else None
        if len(node.variables) == 2:
            steps = ("@indices", "@items") if container == "list" else ("@keys", "@values")
            return [_Local((*path, steps[0]), key), _Local((*path, steps[1]), value)]
        if container == "list":
            return [_Local((*path, "@items"), value)]
        return [_Local((*path, "@keys"), key)]


def _scalar(kind: Type) -> bool:
    return kind.kind in _SCALARS or (kind.kind == "optional" and _scalar(kind.params[0]))


def _literal_size(node: Node) -> Range | None:
    if isinstance(node, Literal):
        size = 1 if isinstance(node.value, _CONSTANTS) else len(node.value)
    elif isinstance(node, ListNode):
        size = len(node.items)
    elif isinstance(node, MapNode):
        size = len(node.entries)
    else:
        return None
    return Range(size, size)
