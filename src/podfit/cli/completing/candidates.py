"""Candidates for the last word of a command line: commands, options, and values, which may come from the cluster."""

from __future__ import annotations

import typer
import typer.main

from podfit.cli.clusters import named
from podfit.cli.completing.cluster import Cluster
from podfit.cli.completing.directives import FOLDERS, NO_FILES, NO_SPACE
from podfit.cli.completing.line import Line, long_name, read
from podfit.cli.printing.helping import is_switch
from podfit.cli.printing.output import DATA, OBJECTS, PAGES, TABLES

Found = tuple[list[str], int]

FORMATS = {"top": TABLES, "events": TABLES, "describe": PAGES, "resize": OBJECTS, "clusters": OBJECTS, "ls": OBJECTS}
CHOICES = {
    "--dry-run": ("none", "client", "server"),
    "--image-fallback": ("host",),
    "--runtime": ("process", "fake"),
    "--store": ("sqlite", "memory", "etcd="),
    "--deferred-resize-policy": ("wait", "preempt"),
    "--only": ("machine", "cluster"),
    "--types": ("Normal", "Warning"),
}
FIRST = {
    "top": ("pods", "nodes", "vpa"),
    "explain": ("pod", "resize", "vpa"),
    "completion": ("bash", "zsh", "fish"),
}
WORKLOADS = ("deployment", "statefulset", "daemonset", "replicaset", "job", "cronjob")
DESCRIBED = ("pods", "nodes", "vpa", "deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs")
_FILES = ("kubeconfig", "authority", "file", "record")
_FOLDERS = ("dir", "path")


def complete(app: typer.Typer, words: list[str]) -> Found:
    line, word = read(typer.main.get_command(app), words[:-1]), words[-1]
    if line.pending:
        return _starting(word, *_values(line, line.pending, word))
    if word.startswith("--") and "=" in word:
        name, _, value = word.partition("=")
        param = line.option(name)
        return _starting(value, *_values(line, long_name(param), value)) if param is not None else ([], NO_FILES)
    if line.group and not line.arguments and not word.startswith("-"):
        return _starting(word, [f"{name}\t{command.get_short_help_str(80)}" for name, command in line.group.items()])
    if word.startswith("-") and not line.only_arguments:
        return _starting(word, *_options(line))
    return _starting(word, *_arguments(line, word))


def _starting(word: str, found: list[str], directive: int = NO_FILES) -> Found:
    return [candidate for candidate in found if candidate.startswith(word)], directive


def _options(line: Line) -> Found:
    if line.path[:1] == ["vpa"] and len(line.path) == 2:
        return [f"{flag}=" for flag in _autoscaler_flags(line.path[1])], NO_FILES | NO_SPACE
    found = []
    for param in line.command.params:
        if param.param_type_name == "option" and not param.hidden:
            found += [f"{name}\t{param.help}" for name in sorted((*param.opts, *param.secondary_opts), key=len)]
    return found, NO_FILES


def _autoscaler_flags(component: str) -> list[str]:
    from importlib import import_module

    from podfit.vpa.flags import described

    config = getattr(import_module(f"podfit.vpa.{component}.config"), f"{component.title()}Config")
    return [flag for flag, _, _ in described(config())]


def _values(line: Line, option: str, word: str) -> Found:
    cluster = Cluster.of(line.options)
    kind = option.rpartition("-")[2]
    param = line.option(option)
    if option == "--output":
        return [choice for choice in FORMATS.get(line.path[-1], DATA) if choice], NO_FILES
    if option in CHOICES:
        return list(CHOICES[option]), NO_FILES
    if option == "--namespace":
        return cluster.names("namespaces"), NO_FILES
    if option == "--name":
        return [policy.name for policy in named()], NO_FILES
    if option == "--context":
        return cluster.contexts(), NO_FILES
    if option == "--container":
        return cluster.containers(line.arguments), NO_FILES
    if option == "--for":
        return _slashed(cluster, word, ("pod", "node", *WORKLOADS))
    if kind in _FILES:
        return [], 0
    if kind in _FOLDERS:
        return [], FOLDERS
    assert param is None or not is_switch(param)
    return [], NO_FILES


def _arguments(line: Line, word: str) -> Found:
    command, typed = line.path[-1] if line.path else "", line.arguments
    cluster = Cluster.of(line.options)
    if command in FIRST and not typed:
        return list(FIRST[command]), NO_FILES
    if command == "describe":
        return _described(cluster, typed, word)
    if command == "resize":
        return _targets(cluster, typed, word)
    if command == "explain":
        named = typed[1:]
        return (cluster.names("vpa", named), NO_FILES) if typed[0] == "vpa" else _targets(cluster, named, word)
    return [], NO_FILES


def _described(cluster: Cluster, typed: list[str], word: str) -> Found:
    if "/" in word:
        return _slashed(cluster, word, ())
    if not typed:
        return list(DESCRIBED), NO_FILES
    return (cluster.names(typed[0], typed[1:]), NO_FILES) if "/" not in typed[0] else ([], NO_FILES)


def _targets(cluster: Cluster, typed: list[str], word: str) -> Found:
    """Pods by name, workloads as TYPE/NAME; after TYPE alone, its names."""
    if "/" in word:
        return _slashed(cluster, word, ())
    if typed and "/" not in typed[0] and cluster.knows(typed[0]):
        return cluster.names(typed[0], typed[1:]), NO_FILES
    pods = cluster.names("pods", typed)
    kinds = [f"{kind}/" for kind in WORKLOADS]
    matching = any(name.startswith(word) for name in pods)
    return [*pods, *kinds], NO_FILES if matching else NO_FILES | NO_SPACE


def _slashed(cluster: Cluster, word: str, kinds: tuple[str, ...]) -> Found:
    kind, slash, _ = word.partition("/")
    if not slash:
        return [f"{plural}/" for plural in kinds], NO_FILES | NO_SPACE
    return [f"{kind}/{name}" for name in cluster.names(kind)], NO_FILES
