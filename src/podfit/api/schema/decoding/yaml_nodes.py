"""Converts YAML events to JSON values without recursion in C: libyaml's own composer overflows the stack on deep input.

`compose` reads one document into a tree of nodes, `Builder` makes values from it. Depth and the expansion of aliases
are bounded as in Go's YAML decoder; input beyond a bound raises `YamlError`. Used by `yamls` only.
"""

from __future__ import annotations

from typing import Any

import yaml

from podfit.api.text.depth import MAX_DEPTH

TOO_DEEP = "exceeded max depth of 10000"
TAG = "tag:yaml.org,2002:"
MOST_EXPANDED = 3 << 20
"""Bytes of text that aliases may repeat: as many as a request body may have."""
_FEW, _MANY = 400_000, 4_000_000
_MERGE = TAG + "merge"


class YamlError(ValueError):
    """The text is not valid YAML; the message is Go's as far as known."""


class AliasNode(yaml.nodes.Node):
    """A reference to an anchored node; expanded later, because a node may contain an alias of itself."""

    def __init__(self, name: str, target: Any, mark: Any) -> None:
        super().__init__("", target, mark, mark)
        self.name = name


def compose(loader: Any) -> Any:
    """The root node of the first document; None if there is none."""
    loader.get_event()  # the start of the stream
    if loader.check_event(yaml.StreamEndEvent):
        return None
    loader.get_event()  # the start of the document
    anchors: dict[str, Any] = {}
    open_nodes: list[Any] = []
    root: Any = None
    while True:
        event = loader.get_event()
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            _close(open_nodes.pop())
        elif isinstance(event, yaml.DocumentEndEvent):
            return root
        else:
            node = _node(loader, event, anchors)
            if not open_nodes:
                root = node
            else:
                open_nodes[-1].value.append(node)
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append(node)
                if len(open_nodes) > MAX_DEPTH:
                    raise YamlError(f"yaml: {_line(node)}{TOO_DEEP}")


def _node(loader: Any, event: Any, anchors: dict[str, Any]) -> Any:
    start: Any = event.start_mark
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise YamlError(f"yaml: unknown anchor '{event.anchor}' referenced")
        return AliasNode(event.anchor, anchors[event.anchor], start)
    tag, implicit = event.tag, event.implicit
    if isinstance(event, yaml.ScalarEvent):
        if tag is None or tag == "!":
            tag = loader.resolve(yaml.ScalarNode, event.value, implicit)
        node: Any = yaml.ScalarNode(tag, event.value, start, None)
    else:
        kind = yaml.SequenceNode if isinstance(event, yaml.SequenceStartEvent) else yaml.MappingNode
        if tag is None or tag == "!":
            tag = loader.resolve(kind, None, implicit)
        node = kind(tag, [], start, None)
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node


def _close(node: Any) -> None:
    if isinstance(node, yaml.MappingNode):
        node.value = list(zip(node.value[::2], node.value[1::2], strict=True))


def _line(node: Any) -> str:
    line = node.start_mark.line
    return f"line {line + 1}: " if line else ""


class Builder:
    """Makes values from nodes. Each alias becomes a copy of its own, so that no two positions of a value share an
    object.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self.twice: list[tuple[int, str]] = []
        """Duplicate keys, with the line of the second value."""
        self._open: set[int] = set()
        """Aliases being expanded, by identity."""
        self._decoded = self._aliased = self._expanded = 0

    def build(self, node: Any, depth: int = 0) -> Any:
        self._count(node)
        if isinstance(node, AliasNode):
            return self._within(node, lambda: self.build(node.value, depth))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if depth >= MAX_DEPTH:
            raise YamlError(f"yaml: {TOO_DEEP}")
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, depth + 1) for item in node.value]
        out: dict[str, Any] = {}
        self._fill(out, node, depth + 1)
        return out

    def _count(self, node: Any) -> None:
        """Counts values, and enforces Go's limit on aliases: up to 99 % of a document may be copies, 10 % of a large
        one."""
        self._decoded += 1
        if not self._open:
            return
        self._aliased += 1
        if isinstance(node, yaml.ScalarNode):
            self._expanded += len(node.value)
        excessive = self._aliased > 100 and self._decoded > 1000 and self._aliased > self._allowed() * self._decoded
        if excessive or self._expanded > MOST_EXPANDED:
            raise YamlError("yaml: document contains excessive aliasing")

    def _allowed(self) -> float:
        beyond = min(max(self._decoded - _FEW, 0), _MANY - _FEW)
        return 0.99 - 0.89 * beyond / (_MANY - _FEW)

    def _within(self, alias: AliasNode, expand: Any) -> Any:
        if id(alias) in self._open:
            raise YamlError(f"yaml: anchor '{alias.name}' value contains itself")
        self._open.add(id(alias))
        try:
            return expand()
        finally:
            self._open.discard(id(alias))

    def _scalar(self, node: Any) -> Any:
        construct = self._loader.yaml_constructors.get(node.tag)
        # If the tag is unknown, or is that of a container, the value remains a string.
        return node.value if construct is None or node.tag in _CONTAINERS else construct(self._loader, node)

    def _fill(self, out: dict[str, Any], node: Any, depth: int) -> None:
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                self._merge(out, value_node, depth)
                continue
            key = _key(self.build(key_node, depth))
            value = self.build(value_node, depth)
            if key in out:
                self.twice.append((value_node.start_mark.line + 1, key))
            out[key] = value

    def _merge(self, out: dict[str, Any], node: Any, depth: int) -> None:
        """Handles `<<`: merges the keys of another map, or of several maps, of which the first takes precedence."""
        if isinstance(node, AliasNode) and isinstance(node.value, yaml.MappingNode):
            self._count(node)
            self._within(node, lambda: self._merge(out, node.value, depth))
        elif isinstance(node, yaml.MappingNode):
            self._count(node)
            if depth > MAX_DEPTH:
                raise YamlError(f"yaml: {TOO_DEEP}")
            self._fill(out, node, depth + 1)
        elif isinstance(node, yaml.SequenceNode):
            for item in reversed(node.value):
                target = item.value if isinstance(item, AliasNode) else item
                if not isinstance(target, yaml.MappingNode):
                    raise YamlError("yaml: map merge requires map or sequence of maps as the value")
                self._merge(out, item, depth)
        else:
            raise YamlError("yaml: map merge requires map or sequence of maps as the value")


_CONTAINERS = frozenset(TAG + name for name in ("seq", "omap", "pairs", "map", "set"))


def _key(value: Any) -> str:
    if value.__class__ is str:
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        raise YamlError(f"yaml: invalid map key: {_go_value(value)}")
    return "null" if value is None else str(value)


def _go_value(value: Any) -> str:
    """A value as Go's %#v prints it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_go_value(key)}:{_go_value(item)}" for key, item in value.items())
        return f"map[interface {{}}]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_value, value))}}}"
    if value is None or isinstance(value, bool):
        return {None: "interface {}(nil)", True: "true", False: "false"}[value]
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else str(value)
