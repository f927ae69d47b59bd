"""Determines the types of all parts of an expression and reports type errors in cel-go's wording."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.api.cel.checking.messages import MessageTypes, no_messages
from podfit.api.cel.checking.validators import literal_problems
from podfit.api.cel.library.functions import Overload
from podfit.api.cel.parsing.syntax import (
    INSTANTIATION,
    BadExpression,
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Message,
    Node,
    Problems,
    Select,
    qualified_name,
)
from podfit.api.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Bindings,
    Type,
    assignable,
    list_of,
    map_of,
    most_general,
    optional_of,
    resolved,
    type_of,
)
from podfit.api.cel.values import Uint

_LITERALS = {bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}
_TYPE_NAMES = {
    "bool": type_of(BOOL),
    "bytes": type_of(BYTES),
    "double": type_of(DOUBLE),
    "int": type_of(INT),
    "list": type_of(list_of(DYN)),
    "map": type_of(map_of(DYN, DYN)),
    "null_type": type_of(NULL),
    "string": type_of(STRING),
    "type": type_of(type_of(DYN)),
    "uint": type_of(UINT),
    "optional_type": type_of(optional_of(DYN)),
    "google.protobuf.Timestamp": type_of(TIMESTAMP),
    "google.protobuf.Duration": type_of(DURATION),
}
TYPE_NAMES = frozenset(_TYPE_NAMES)
Functions = Mapping[str, list[Overload]]


def check(
    text: str,
    root: Node,
    variables: Mapping[str, Type],
    functions: Functions,
    messages: MessageTypes = no_messages,
) -> None:
    """Annotates the nodes with types and overloads. Raises BadExpression."""
    problems = Problems(text)
    checker = _Checker(variables, functions, problems, messages)
    checker.check(root)
    checker.settle()
    if not problems:
        literal_problems(root, problems)
    if problems:
        raise BadExpression(str(problems))
    if checker.messages_as_values:
        # cel-go accepts the type of a message as a value, but the programs of Kubernetes have no values of such types.
        raise BadExpression(f"reference to undefined type: {checker.messages_as_values[0]}", INSTANTIATION)


class _Checker:
    def __init__(
        self, variables: Mapping[str, Type], functions: Functions, problems: Problems, messages: MessageTypes
    ) -> None:
        self._messages = messages
        self._scopes: list[Mapping[str, Type]] = [variables]
        self._functions, self._problems = functions, problems
        self._bound: Bindings = {}
        self._free = 0
        self._nodes: list[Node] = []
        self.messages_as_values: list[str] = []
        """The names of messages that are used as values."""

    def settle(self) -> None:
        """Resolves the type variables of all nodes; the type of an unknown value is dynamic."""
        for node in self._nodes:
            node.type = resolved(node.type, self._bound, to_dyn=True)

    def check(self, node: Node) -> Type:
        if node.type is not None:
            # A macro may use a subtree twice.
            known: Type = node.type
            return known
        found = self._type_of(node)
        node.type = found
        self._nodes.append(node)
        return found

    def _type_of(self, node: Node) -> Type:
        if isinstance(node, Literal):
            return _LITERALS[type(node.value)]
        if isinstance(node, Ident):
            return self._ident(node)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListNode):
            return self._list(node)
        if isinstance(node, MapNode):
            return self._map(node)
        if isinstance(node, Fold):
            return self._fold(node)
        assert isinstance(node, Message)
        return self._message(node)

    # --- names ----------------------------------------------------------------------------------------------------

    def _lookup(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        message = self._messages(name)
        if message is None:
            return _TYPE_NAMES.get(name)
        self.messages_as_values.append(name)
        return type_of(message)

    def _undeclared(self, node: Node, name: str) -> Type:
        self._problems.add(node.at, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    def _ident(self, node: Ident) -> Type:
        return self._lookup(node.name) or self._undeclared(node, node.name)

    def _select(self, node: Select) -> Type:
        if not node.test and (name := qualified_name(node)) and (found := self._lookup(name)) is not None:
            node.variable = name
            return found
        found = self._field(node, node.operand, node.name)
        return BOOL if node.test else found

    def _field(self, node: Node, operand: Node, name: str) -> Type:
        kind = resolved(self.check(operand), self._bound)
        optional = kind.kind == "optional"
        kind = resolved(kind.params[0], self._bound) if optional else kind
        found = ERROR
        if kind.kind == "map":
            found = kind.params[1]
        elif kind.kind == "object":
            if kind.fields is not None and name in kind.fields:
                found = kind.fields[name]
            else:
                self._problems.add(node.at, f"undefined field '{name}'")
        else:
            if kind.kind == "param":
                self._assign(DYN, kind)
            elif kind.kind not in ("dyn", "error"):
                self._problems.add(node.at, f"type '{kind}' does not support field selection")
            found = DYN
        found = resolved(found, self._bound)
        return optional_of(found) if optional else found

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            operand, field = node.args
            assert isinstance(field, Literal)
            found = self._field(node, operand, str(field.value))
            self.check(field)
            node.overloads = tuple(self._functions.get("_?._", ()))
            return found if found.kind == "optional" and operand.type.kind == "optional" else optional_of(found)
        for arg in node.args:
            self.check(arg)
        if node.target is None:
            return self._resolve(node, node.function)
        prefix = qualified_name(node.target)
        if prefix and f"{prefix}.{node.function}" in self._functions:
            node.function, node.target = f"{prefix}.{node.function}", None
            return self._resolve(node, node.function)
        self.check(node.target)
        return self._resolve(node, node.function)

    def _resolve(self, node: Call, name: str) -> Type:
        overloads = self._functions.get(name)
        if overloads is None:
            return self._undeclared(node, name)
        if name in ("_&&_", "_||_"):
            return self._logical(node)
        parts = node.args if node.target is None else [node.target, *node.args]
        given = [part.type for part in parts]
        result: Type | None = None
        matched = []
        for overload in overloads:
            if overload.member != (node.target is not None) or len(overload.params) != len(given):
                continue
            fresh = self._fresh(overload)
            wanted = [resolved(param, fresh) for param in overload.params]
            if not assignable(zip(given, wanted, strict=True), self._bound):
                continue
            matched.append(overload)
            kind = resolved(resolved(overload.result, fresh), self._bound)
            result = kind if result is None or result == kind else DYN
        if result is None:
            self._no_overload(node, name, given)
            return ERROR
        node.overloads = tuple(matched)
        return result

    def _fresh(self, overload: Overload) -> Bindings:
        """Replaces the type variables of a signature by new ones."""
        return {name: self._variable() for name in overload.free}

    def _variable(self) -> Type:
        self._free += 1
        return Type("param", name=f"_var{self._free}")

    def _logical(self, node: Call) -> Type:
        found = BOOL
        for arg in node.args:
            if not self._assign(arg.type, BOOL):
                shown = resolved(arg.type, self._bound)
                self._problems.add(arg.at, f"expected type 'bool' but found '{shown}'")
                found = ERROR
        node.overloads = tuple(self._functions[node.function])
        return found

    def _no_overload(self, node: Call, name: str, given: list[Type]) -> None:
        shown = [str(resolved(kind, self._bound, to_dyn=True)) for kind in given]
        signature = f"({', '.join(shown)})"
        if node.target is not None:
            signature = f"{shown[0]}.({', '.join(shown[1:])})"
        self._problems.add(node.at, f"found no matching overload for '{name}' applied to '{signature}'")

    def _assign(self, wanted: Type, given: Type) -> bool:
        return assignable([(wanted, given)], self._bound)

    # --- aggregates and comprehensions ----------------------------------------------------------------------------

    def _list(self, node: ListNode) -> Type:
        kind: Type | None = None
        for at, item in enumerate(node.items):
            found = self._unwrapped(item, at in node.optional)
            kind = self._joined(kind, found)
        return list_of(kind or self._variable())

    def _map(self, node: MapNode) -> Type:
        key: Type | None = None
        value: Type | None = None
        for one, other, optional in node.entries:
            key = self._joined(key, self.check(one))
            value = self._joined(value, self._unwrapped(other, optional))
        return map_of(key or self._variable(), value or self._variable())

    def _message(self, node: Message) -> Type:
        kind = self._messages(node.name)
        if kind is None or kind.fields is None:
            return self._undeclared(node, node.name)
        for name, value, optional, at in node.entries:
            found = self._unwrapped(value, optional)
            wanted = kind.fields.get(name)
            if wanted is None or not self._assign(wanted, found):
                shown = resolved(found, self._bound)
                expected = f"expected type of field '{name}' is '{wanted or ''}'"
                self._problems.add(at, f"{expected} but provided type is '{shown}'")
        return kind

    def _unwrapped(self, node: Node, optional: bool) -> Type:
        found = self.check(node)
        if not optional:
            return found
        kind = resolved(found, self._bound)
        if kind.kind == "optional":
            return kind.params[0]
        if kind.kind != "dyn":
            self._problems.add(node.at, f"expected type '{optional_of(kind)}' but found '{kind}'")
        return kind

    def _joined(self, before: Type | None, found: Type) -> Type:
        if before is None:
            return found
        if self._assign(before, found):
            return most_general(resolved(before, self._bound), resolved(found, self._bound))
        # Element types may differ only in the arguments of `format`: checked once all types are known.
        return DYN

    def _fold(self, node: Fold) -> Type:
        ranged = resolved(self.check(node.range), self._bound)
        accumulated = self.check(node.init)
        self._scopes.append({node.accumulator: accumulated})
        self._scopes.append(dict(zip(node.variables, self._elements(node, ranged), strict=True)))
        self._expect(node.condition, BOOL)
        self._expect(node.step, accumulated)
        self._scopes.pop()
        found = self.check(node.result)
        self._scopes.pop()
        return resolved(found, self._bound)

    def _elements(self, node: Fold, ranged: Type) -> tuple[Type, ...]:
        """The types of the one or two variables of a comprehension."""
        two = len(node.variables) == 2
        if ranged.kind == "list":
            return (INT, ranged.params[0]) if two else ranged.params
        if ranged.kind == "map":
            return ranged.params if two else ranged.params[:1]
        if ranged.kind not in ("dyn", "error", "param"):
            why = "cannot be range of a comprehension (must be list, map, or dynamic)"
            self._problems.add(node.range.at, f"expression of type '{ranged}' {why}")
            return (ERROR,) * len(node.variables)
        self._assign(DYN, ranged)
        return (DYN,) * len(node.variables)

    def _expect(self, node: Node, wanted: Type) -> None:
        found = self.check(node)
        if not self._assign(wanted, found):
            kinds = (resolved(kind, self._bound) for kind in (wanted, found))
            self._problems.add(node.at, "expected type '{}' but found '{}'".format(*kinds))
