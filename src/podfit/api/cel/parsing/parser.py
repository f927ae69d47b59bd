"""Parses an expression. Size and depth are limited as in cel-go, so that later passes may recurse."""

from __future__ import annotations

from podfit.api.cel.parsing.lexer import RESERVED, WORDS, Token, tokens_of
from podfit.api.cel.parsing.macros import MacroError, expanded
from podfit.api.cel.parsing.syntax import (
    BadExpression,
    Call,
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
from podfit.api.cel.values import INT_MIN
from podfit.api.text.depth import allow_depth

MOST_CHARACTERS, MOST_DEPTH = 100_000, 250
_STARTS = (
    "'[', '{', '(', %s'.', '-', '!', %s'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
)
_OPERAND, _OPTIONAL, _ARGUMENT = ("{" + _STARTS % more + "}" for more in (("", ""), ("", "'?', "), ("')', ", "")))
_RELATIONS = {"<", "<=", ">=", ">", "==", "!=", "in"}
_SUMS, _PRODUCTS = {"+", "-"}, {"*", "/", "%"}


def parsed(text: str) -> Node:
    """Parses the text of an expression. Raises BadExpression."""
    allow_depth()
    problems = Problems(text)
    if len(text) > MOST_CHARACTERS:
        problems.add(-1, f"expression code point size exceeds limit: size: {len(text)}, limit {MOST_CHARACTERS}")
        raise BadExpression(str(problems))
    parser = _Parser(tokens_of(text, problems), problems)
    try:
        node = parser.whole()
    except _Stop:
        pass
    else:
        if not problems:
            return node
    raise BadExpression(str(problems))


class _Stop(Exception):
    """Raised internally at an error after which the rest cannot be parsed."""


class _Parser:
    def __init__(self, tokens: list[Token], problems: Problems) -> None:
        self._tokens, self._at, self._problems = tokens, 0, problems
        self._nested = 0
        self._depths: dict[Node, int] = {}

    # --- tokens ---------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _is(self, *signs: str) -> bool:
        token = self._tokens[self._at]
        return token.kind == "sign" and token.text in signs

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _accept(self, sign: str) -> bool:
        if self._is(sign):
            self._at += 1
            return True
        return False

    def _expect(self, sign: str, wanted: str = "") -> Token:
        """Consumes a sign. `wanted`: the alternatives for the error message, if there are more than this sign."""
        if self._is(sign):
            return self._take()
        token = self._next
        if token.kind != "end" and self._tokens[self._at + 1].text == sign:
            raise self._wrong(f"extraneous input '{token.text}' expecting {wanted or repr(sign)}")
        if not wanted:
            raise self._wrong(f"missing '{sign}' at '{token.text}'")
        raise self._wrong(f"mismatched input '{token.text}' expecting {wanted}")

    def _wrong(self, message: str) -> _Stop:
        self._problems.add(self._next.at, f"Syntax error: {message}")
        return _Stop()

    def _too_deep(self, message: str) -> _Stop:
        self._problems.add(-1, message)
        return _Stop()

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _deep(self, node: Node, *parts: Node, step: int = 1) -> Node:
        """Records the depth of a node, and rejects a node that is too deep."""
        depth = step
        for part in parts:
            depth = max(depth, self._depths.get(part, 0) + step)
        if depth > MOST_DEPTH:
            raise self._too_deep("max recursion depth exceeded")
        self._depths[node] = depth
        return node

    def whole(self) -> Node:
        node = self._expression()
        token = self._next
        if token.kind != "end":
            last = self._tokens[self._at + 1].kind == "end"
            raise self._wrong(f"{'extraneous' if last else 'mismatched'} input '{token.text}' expecting <EOF>")
        return node

    def _expression(self) -> Node:
        self._nested += 1
        if self._nested > MOST_DEPTH:
            raise self._too_deep(f"expression recursion limit exceeded: {MOST_DEPTH}")
        node = self._logical("||")
        if self._is("?"):
            at = self._take().at
            yes = self._logical("||")
            self._expect(":", "':'")
            no = self._expression()
            node = self._deep(Call(at, "_?_:_", [node, yes, no]), node, yes, no)
        self._nested -= 1
        return node

    def _logical(self, sign: str) -> Node:
        """Balances long chains into trees with a depth of the logarithm of their length."""
        terms, places = [self._logical("&&") if sign == "||" else self._binary(0)], []
        while self._is(sign):
            places.append(self._take().at)
            terms.append(self._logical("&&") if sign == "||" else self._binary(0))
        return terms[0] if not places else self._balanced(f"_{sign}_", terms, places, 0, len(places) - 1)

    def _balanced(self, function: str, terms: list[Node], places: list[int], low: int, high: int) -> Node:
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self._balanced(function, terms, places, low, middle - 1)
        right = terms[middle + 1] if middle == high else self._balanced(function, terms, places, middle + 1, high)
        return self._deep(Call(places[middle], function, [left, right]), left, right, step=0)

    def _binary(self, level: int) -> Node:
        """Parses relations, sums and products: each level binds more tightly than the one before."""
        signs = (_RELATIONS, _SUMS, _PRODUCTS)[level]
        node = self._binary(level + 1) if level < 2 else self._unary()
        while self._next.kind in ("sign", "word") and self._next.text in signs:
            token = self._take()
            right = self._binary(level + 1) if level < 2 else self._unary()
            function = "@in" if token.text == "in" else f"_{token.text}_"
            node = self._deep(Call(token.at, function, [node, right]), node, right)
        return node

    def _unary(self) -> Node:
        if not self._is("!", "-"):
            return self._member()
        first = self._take()
        count = 1
        while self._accept(first.text):
            count += 1
        if first.text == "-" and count % 2 and (number := self._negative(first.at)) is not None:
            return self._member(number)
        node = self._member()
        if count % 2 == 0:
            return node
        return self._deep(Call(first.at, "!_" if first.text == "!" else "-_", [node]), node, step=0)

    def _negative(self, at: int) -> Node | None:
        """Parses a number after a minus sign as one literal: the smallest integer has no positive counterpart."""
        token = self._next
        if token.kind != "literal" or type(token.value) not in (int, float):
            return None
        self._take()
        return Literal(at, -token.value)  # type: ignore[operator]

    def _member(self, node: Node | None = None) -> Node:
        node = self._primary() if node is None else node
        while self._is(".", "["):
            token = self._take()
            node = self._indexed(node, token.at) if token.text == "[" else self._selected(node, token.at)
        return node

    def _indexed(self, node: Node, at: int) -> Node:
        optional = self._accept("?")
        index = self._expression_or(_OPTIONAL)
        self._expect("]")
        return self._deep(Call(at, "_[?_]" if optional else "_[_]", [node, index]), node, index)

    def _selected(self, node: Node, at: int) -> Node:
        optional = self._accept("?")
        token = self._next
        if token.kind != "word" or token.text in WORDS or token.text == "in":
            shown = "" if token.kind == "end" else token.text
            raise self._wrong(f"no viable alternative at input '.{shown}'")
        self._take()
        if self._is("(") and not optional:
            opened = self._take().at
            args = self._arguments(")")
            return self._call(opened, token.text, args, node)
        if optional:
            field = Literal(token.at, token.text)
            return self._deep(Call(at, "_?._", [node, field]), node)
        if self._is("{") and (name := qualified_name(node)):
            return self._message(f"{name}.{token.text}")
        return self._deep(Select(at, node, token.text), node)

    def _call(self, at: int, function: str, args: list[Node], target: Node | None) -> Node:
        parts = [*args] if target is None else [target, *args]
        try:
            macro = expanded(at, function, args, target)
        except MacroError as error:
            self._problems.add(error.at, str(error))
            macro = None
        return self._deep(macro or Call(at, function, args, target), *parts, step=0 if target is None else 1)

    def _arguments(self, closing: str) -> list[Node]:
        args: list[Node] = []
        if self._accept(closing):
            return args
        args.append(self._expression_or(_ARGUMENT))
        while self._accept(","):
            args.append(self._expression())
        self._expect(closing)
        return args

    def _expression_or(self, wanted: str) -> Node:
        if self._next.kind == "end":
            raise self._wrong(f"mismatched input '<EOF>' expecting {wanted}")
        return self._expression()

    # --- operands -------------------------------------------------------------------------------------------------

    def _primary(self) -> Node:
        token = self._next
        if token.kind == "literal":
            self._take()
            if type(token.value) is int and token.value == -INT_MIN:
                self._problems.add(token.at, "invalid int literal")
            return Literal(token.at, token.value)
        if token.kind == "word" and token.text != "in":
            return self._word()
        if self._is("(", "[", "{", "."):
            self._take()
            if token.text == "(":
                node = self._expression()
                self._expect(")")
                return node
            if token.text == "[":
                return self._list(token.at)
            if token.text == "{":
                return self._map(token.at)
            if self._next.kind == "word":
                return self._word()
        follows = self._tokens[self._at + 1] if self._next.kind == "sign" else None
        lone = follows is not None and (follows.kind in ("word", "literal") or follows.text in "[{(.-!")
        raise self._wrong(f"{'extraneous' if lone else 'mismatched'} input '{self._next.text}' expecting {_OPERAND}")

    def _word(self) -> Node:
        token = self._take()
        if token.text in WORDS:
            return Literal(token.at, WORDS[token.text])
        if token.text in RESERVED:
            self._problems.add(token.at, f"reserved identifier: {token.text}")
        if self._is("("):
            at = self._take().at
            return self._call(at, token.text, self._arguments(")"), None)
        if self._is("{"):
            return self._message(token.text)
        return Ident(token.at, token.text)

    def _message(self, name: str) -> Node:
        node = Message(self._take().at, name)
        while not self._is("}"):
            optional = self._accept("?")
            word = self._next
            if word.kind != "word" or word.text in WORDS:
                wanted = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"
                raise self._wrong(f"mismatched input '{word.text or '<EOF>'}' expecting {wanted}")
            self._take()
            at = self._next.at
            self._expect(":")
            node.entries.append((word.text, self._expression(), optional, at))
            if not self._accept(","):
                break
        self._expect("}", "{'}', ','}")
        return self._deep(node, *(value for _, value, _, _ in node.entries), step=0)

    def _list(self, at: int) -> Node:
        items: list[Node] = []
        optional: list[int] = []
        while not self._is("]"):
            if self._accept("?"):
                optional.append(len(items))
            items.append(self._expression())
            if not self._accept(","):
                break
            if self._next.kind == "end":
                raise self._wrong("missing ']' at '<EOF>'")
        self._expect("]", "{']', ','}")
        return self._deep(ListNode(at, items, frozenset(optional)), *items, step=0)

    def _map(self, at: int) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._is("}"):
            optional = self._accept("?")
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
            if not self._accept(","):
                break
        self._expect("}", "{'}', ','}")
        return self._deep(MapNode(at, entries), *(part for entry in entries for part in entry[:2]), step=0)
