"""Macros: expressions that look like calls and are expanded while parsing."""

from __future__ import annotations

from collections.abc import Callable

from podfit.api.cel.parsing.syntax import (
    ACCUMULATOR,
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    OptMap,
    Select,
)

_SORTED = "@__sortBy_input__"


class MacroError(Exception):
    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at


def expanded(at: int, name: str, args: list[Node], target: Node | None) -> Node | None:
    """The comprehension that a call expands to, or nothing for an ordinary call. Raises MacroError."""
    if target is None:
        return _has(at, args[0]) if name == "has" and len(args) == 1 else None
    if name == "bind" and isinstance(target, Ident) and target.name == "cel" and len(args) == 3:
        return _bind(at, _name(args[0], "cel.bind() variable names must be simple identifiers"), args[1], args[2])
    macro = _MACROS.get((name, len(args)))
    return None if macro is None else macro(at, target, args)


def _name(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.at, message)
    if node.name in (ACCUMULATOR, "__result__"):
        raise MacroError(node.at, "iteration variable overwrites accumulator variable")
    return node.name


def _has(at: int, node: Node) -> Node:
    if not isinstance(node, Select):
        raise MacroError(node.at, "invalid argument to has() macro")
    return Select(at, node.operand, node.name, test=True)


def _names(args: list[Node], count: int, message: str = "argument must be a simple name") -> tuple[str, ...]:
    names = tuple(_name(arg, message) for arg in args[:count])
    if len(set(names)) != len(names):
        raise MacroError(args[1].at, f"duplicate variable name: {names[0]}")
    return names


def _bind(at: int, name: str, value: Node, result: Node) -> Fold:
    nothing, never = ListNode(at, []), Literal(at, False)
    return Fold(at, "bind", nothing, ("#unused",), name, value, never, Ident(at, name), result)


def _quantifier(form: str, count: int) -> Callable[[int, Node, list[Node]], Node]:
    def made(at: int, target: Node, args: list[Node]) -> Node:
        names, test = _names(args, count), args[count]
        init: Node = Literal(at, form == "all" if form != "exists_one" else 0)
        condition: Node = Literal(at, True)
        result: Node = Ident(at, ACCUMULATOR)
        if form == "exists_one":
            more = Call(at, "_+_", [Ident(at, ACCUMULATOR), Literal(at, 1)])
            step = Call(at, "_?_:_", [test, more, Ident(at, ACCUMULATOR)])
            result = Call(at, "_==_", [result, Literal(at, 1)])
        else:
            so_far: Node = Ident(at, ACCUMULATOR)
            if form == "exists":
                so_far = Call(at, "!_", [so_far])
            condition = Call(at, "@not_strictly_false", [so_far])
            step = Call(at, "_&&_" if form == "all" else "_||_", [Ident(at, ACCUMULATOR), test])
        return Fold(at, form, target, names, ACCUMULATOR, init, condition, step, result, test)

    return made


def _to_list(at: int, target: Node, names: tuple[str, ...], test: Node | None, value: Node) -> Fold:
    step: Node = Call(at, "_+_", [Ident(at, ACCUMULATOR), ListNode(at, [value])])
    if test is not None:
        step = Call(at, "_?_:_", [test, step, Ident(at, ACCUMULATOR)])
    init, result = ListNode(at, []), Ident(at, ACCUMULATOR)
    return Fold(at, "list", target, names, ACCUMULATOR, init, Literal(at, True), step, result, test, value)


def _map(at: int, target: Node, args: list[Node]) -> Node:
    names = _names(args, 1, "argument is not an identifier")
    return _to_list(at, target, names, args[1] if len(args) == 3 else None, args[-1])


def _filter(at: int, target: Node, args: list[Node]) -> Node:
    names = _names(args, 1, "argument is not an identifier")
    return _to_list(at, target, names, args[1], Ident(args[0].at, names[0]))


def _transform_list(at: int, target: Node, args: list[Node]) -> Node:
    return _to_list(at, target, _names(args, 2), args[2] if len(args) == 4 else None, args[-1])


def _transform_map(form: str) -> Callable[[int, Node, list[Node]], Node]:
    def made(at: int, target: Node, args: list[Node]) -> Node:
        names, value, test = _names(args, 2), args[-1], args[2] if len(args) == 4 else None
        inserted = [value] if form == "entries" else [Ident(at, names[0]), value]
        step: Node = Call(at, "cel.@mapInsert", [Ident(at, ACCUMULATOR), *inserted])
        if test is not None:
            step = Call(at, "_?_:_", [test, step, Ident(at, ACCUMULATOR)])
        init, result = MapNode(at, []), Ident(at, ACCUMULATOR)
        return Fold(at, form, target, names, ACCUMULATOR, init, Literal(at, True), step, result, test, value)

    return made


def _sort_by(at: int, target: Node, args: list[Node]) -> Node:
    if isinstance(target, (Literal, MapNode)):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target.at, message)
    keys = _map(at, Ident(at, _SORTED), args)
    return _bind(at, _SORTED, target, Call(at, "@sortByAssociatedKeys", [keys], Ident(at, _SORTED)))


def _opt_map(flat: bool) -> Callable[[int, Node, list[Node]], Node]:
    word = "optFlatMap" if flat else "optMap"

    def made(at: int, target: Node, args: list[Node]) -> Node:
        name = _name(args[0], f"{word}() variable name must be a simple identifier")
        binding = _bind(at, name, Call(at, "value", [], target), args[1])
        some: Node = binding if flat else Call(at, "optional.of", [binding])
        parts = [Call(at, "hasValue", [], target), some, Call(at, "optional.none", [])]
        return OptMap(at, "_?_:_", parts, source=target, binding=binding, flat=flat)

    return made


_MACROS: dict[tuple[str, int], Callable[[int, Node, list[Node]], Node]] = {
    ("all", 2): _quantifier("all", 1),
    ("exists", 2): _quantifier("exists", 1),
    ("exists_one", 2): _quantifier("exists_one", 1),
    ("existsOne", 2): _quantifier("exists_one", 1),
    ("all", 3): _quantifier("all", 2),
    ("exists", 3): _quantifier("exists", 2),
    ("exists_one", 3): _quantifier("exists_one", 2),
    ("existsOne", 3): _quantifier("exists_one", 2),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map("map"),
    ("transformMap", 4): _transform_map("map"),
    ("transformMapEntry", 3): _transform_map("entries"),
    ("transformMapEntry", 4): _transform_map("entries"),
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map(False),
    ("optFlatMap", 2): _opt_map(True),
}
