"""Compiles a checked expression to Python functions that evaluate it and count the cost.

Each function takes the frame of one evaluation, a list: the cost so far, the cost of the next checkpoint, the function
to call there, and the values of variables. Costs are compared with the limit once per element of a comprehension and at
the end, which catches every evaluation that exceeds it: between two such points only a bounded number of steps is
executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from podfit.api.cel.cost.costs import cost_of
from podfit.api.cel.evaluation.fields import fields_of, optional_field, presence
from podfit.api.cel.evaluation.folds import Run, fold_of
from podfit.api.cel.evaluation.messages import message_run
from podfit.api.cel.evaluation.misfits import misused
from podfit.api.cel.library.functions import Overload, chosen
from podfit.api.cel.parsing.syntax import Call, Fold, Ident, ListNode, Literal, MapNode, Message, Node, OptMap, Select
from podfit.api.cel.values import NONE, Failed, Maybe, NoOverload, TypeValue, same

FIRST_SLOT = 3
"""The index of a variable, after the cost, the next checkpoint and its function."""
_UNSET: Any = object()
Names = Callable[[str], str]


class Compiler:
    """`raw` maps the name of an object's field to the key under which its value is stored."""

    def __init__(self, variables: Mapping[str, Any], raw: Names) -> None:
        self._scopes: list[dict[str, int]] = [{name: FIRST_SLOT + at for at, name in enumerate(variables)}]
        self.slots = FIRST_SLOT + len(variables)
        self._raw = raw
        self._kinds: dict[type[Node], Callable[..., Run]] = {
            Literal: self._literal,
            Ident: self._ident,
            Select: self._select,
            Call: self._call,
            OptMap: self._opt_map,
            ListNode: self._list,
            MapNode: self._map,
            Fold: self._fold,
            Message: lambda node: message_run(node, self.compile),
        }

    def compile(self, node: Node) -> Run:
        return self._kinds[type(node)](node)

    def _slot(self, name: str) -> int:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return -1

    def _literal(self, node: Literal) -> Run:
        value = node.value
        return lambda frame: value

    def _ident(self, node: Ident) -> Run:
        slot, name = self._slot(node.name), node.name
        if slot < 0:
            kind = TypeValue(name)
            return lambda frame: kind

        def run(frame: list[Any]) -> Any:
            frame[0] += 1
            return frame[slot]

        return run

    # --- fields ---------------------------------------------------------------------------------------------------

    def _select(self, node: Select) -> Run:
        if node.variable:
            return self._ident(Ident(node.at, node.variable))
        operand, key = self.compile(node.operand), self._key(node.operand, node.name)
        if node.test:
            return presence(operand, key)
        if node.operand.type.kind == "optional":
            return optional_field(operand, key)
        shown = node.name

        def run(frame: list[Any]) -> Any:
            value = operand(frame)
            frame[0] += 1
            if value.__class__ is not dict:
                value = fields_of(value)
            found = value.get(key, _UNSET)
            if found is _UNSET:
                raise Failed(f"no such key: {shown}")
            return found

        return run

    def _key(self, operand: Node, name: str) -> str:
        kind = operand.type.params[0] if operand.type.kind == "optional" else operand.type
        return self._raw(name) if kind.kind == "object" else name

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Run:
        special = _SPECIAL.get(node.function)
        parts = node.args if node.target is None else [node.target, *node.args]
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal)
            return optional_field(self.compile(node.args[0]), self._key(node.args[0], str(field.value)))
        runs = [self.compile(part) for part in parts]
        if special is not None:
            return special(*runs)
        if node.function == "@in" and (members := _constants(node.args[1])) is not None:
            return _member(runs[0], members)
        if len(node.overloads) == 1 and not any(part.type.kind in ("dyn", "error") for part in parts):
            return _direct(node.overloads[0], runs)
        return _dispatched(node.function, node.overloads, runs)

    def _opt_map(self, node: OptMap) -> Run:
        source, name = self.compile(node.source), node.binding.accumulator
        self._scopes.append({name: self._new_slot()})
        result = self.compile(node.binding.result)
        return _opt_mapped(source, self._scopes.pop()[name], result, node.flat)

    # --- aggregates -----------------------------------------------------------------------------------------------

    def _list(self, node: ListNode) -> Run:
        if not node.optional and (values := _constants(node)) is not None:
            return lambda frame: values
        items = [(self.compile(item), at in node.optional) for at, item in enumerate(node.items)]

        def run(frame: list[Any]) -> Any:
            made = []
            for item, optional in items:
                value = item(frame)
                if optional:
                    if not value.present:
                        continue
                    value = value.value
                made.append(value)
            frame[0] += 10
            return made

        return run

    def _map(self, node: MapNode) -> Run:
        entries = [(self.compile(key), self.compile(value), optional) for key, value, optional in node.entries]

        def run(frame: list[Any]) -> Any:
            made: dict[Any, Any] = {}
            for key, value, optional in entries:
                name, found = key(frame), value(frame)
                if not isinstance(name, (str, int)):
                    raise Failed("unsupported key type")
                if optional:
                    if not found.present:
                        continue
                    found = found.value
                made[name] = found
            frame[0] += 30
            return made

        return run

    def _fold(self, node: Fold) -> Run:
        ranged, init = self.compile(node.range), None
        if node.form == "bind":
            init = self.compile(node.init)
            self._scopes.append({node.accumulator: self._new_slot()})
            result = self.compile(node.result)
            slot = self._scopes.pop()[node.accumulator]
            return _bound(init, slot, result)
        slots = tuple(self._new_slot() for _ in node.variables)
        self._scopes.append(dict(zip(node.variables, slots, strict=True)))
        test = self.compile(node.test) if node.test is not None else None
        value = self.compile(node.value) if node.value is not None else None
        self._scopes.pop()
        return fold_of(node.form, ranged, slots, test, value)

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1


def _constants(node: Node) -> list[Any] | None:
    """The values of a list of literals."""
    if not isinstance(node, ListNode):
        return None
    found = []
    for item in node.items:
        if not isinstance(item, Literal):
            return None
        found.append(item.value)
    return found


def _member(item: Run, members: list[Any]) -> Run:
    plain = {value for value in members if type(value) is str}

    def run(frame: list[Any]) -> bool:
        value = item(frame)
        if type(value) is str:
            return value in plain
        for member in members:  # noqa: SIM110
            if same(member, value):
                return True
        return False

    return run


def _bound(init: Run, slot: int, result: Run) -> Run:
    def run(frame: list[Any]) -> Any:
        frame[slot] = init(frame)
        return result(frame)

    return run


def _opt_mapped(source: Run, slot: int, result: Run, flat: bool) -> Run:
    """Compiles `optMap`. Its expansion contains the source twice, so its cost counts twice; it is evaluated once."""

    def run(frame: list[Any]) -> Any:
        before = frame[0]
        found = source(frame)
        frame[0] += frame[0] - before + 2
        if frame[0] > frame[1]:
            frame[2](frame)
        if type(found) is not Maybe:
            raise NoOverload
        if not found.present:
            return NONE
        frame[slot] = found.value
        value = result(frame)
        frame[0] += 0 if flat else 1
        return value if flat else Maybe(value)

    return run


# --- operators with short-circuit evaluation --------------------------------------------------------------------------


def _and(left: Run, right: Run) -> Run:
    def run(frame: list[Any]) -> bool:
        try:
            first = left(frame)
        except Failed as error:
            if right(frame) is False:
                return False
            raise error from None
        if first is False:
            return False
        second = right(frame)
        if second is False:
            return False
        if first is not True or second is not True:
            raise NoOverload
        return True

    return run


def _or(left: Run, right: Run) -> Run:
    def run(frame: list[Any]) -> bool:
        try:
            first = left(frame)
        except Failed as error:
            if right(frame) is True:
                return True
            raise error from None
        if first is True:
            return True
        second = right(frame)
        if second is True:
            return True
        if first is not False or second is not False:
            raise NoOverload
        return False

    return run


def _conditional(test: Run, yes: Run, no: Run) -> Run:
    def run(frame: list[Any]) -> Any:
        found = test(frame)
        if found is True:
            return yes(frame)
        if found is False:
            return no(frame)
        raise NoOverload

    return run


def _not(operand: Run) -> Run:
    def run(frame: list[Any]) -> bool:
        value = operand(frame)
        frame[0] += 1
        if type(value) is not bool:
            raise NoOverload
        return not value

    return run


def _optional_or(value: bool) -> Callable[[Run, Run], Run]:
    """Compiles `or` and `orValue`: the second operand is evaluated only if the first is empty."""

    def made(left: Run, right: Run) -> Run:
        def run(frame: list[Any]) -> Any:
            first = left(frame)
            frame[0] += 1
            if type(first) is not Maybe:
                raise NoOverload
            if first.present:
                return first.value if value else first
            return right(frame)

        return run

    return made


_SPECIAL: dict[str, Callable[..., Run]] = {
    "_&&_": _and,
    "_||_": _or,
    "_?_:_": _conditional,
    "!_": _not,
    "or": _optional_or(False),
    "orValue": _optional_or(True),
}


# --- functions --------------------------------------------------------------------------------------------------------


def _direct(overload: Overload, runs: list[Run]) -> Run:
    """Compiles a call whose overload is resolved statically."""
    function, cost = overload.run, cost_of(overload)
    if isinstance(cost, int) and len(runs) == 2:
        left, right = runs

        def binary(frame: list[Any]) -> Any:
            one, other = left(frame), right(frame)
            frame[0] += cost
            return function(one, other)

        return binary
    if isinstance(cost, int) and len(runs) == 1:
        operand = runs[0]

        def unary(frame: list[Any]) -> Any:
            value = operand(frame)
            frame[0] += cost
            return function(value)

        return unary

    def run(frame: list[Any]) -> Any:
        values = tuple([part(frame) for part in runs])
        result = function(*values)
        frame[0] += cost if isinstance(cost, int) else cost(values, result)
        return result

    return run


def _dispatched(name: str, overloads: tuple[Overload, ...], runs: list[Run]) -> Run:
    """Compiles a call whose overload depends on the values."""
    costs = {overload.id: cost_of(overload) for overload in overloads}

    def run(frame: list[Any]) -> Any:
        values = [part(frame) for part in runs]
        try:
            overload = chosen(overloads, values)
        except NoOverload:
            return misused(name, values)
        result = overload.run(*values)
        cost = costs[overload.id]
        frame[0] += cost if isinstance(cost, int) else cost(tuple(values), result)
        return result

    return run
