"""The output of `-h`: plain text, whole option names at any width, and placeholders instead of Python's types. Options
that are numbers must be finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        _check_numbers(self.get_params(ctx), ctx)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write(self.get_params(ctx), formatter)


class Group(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        _check_numbers(self.get_params(ctx), ctx)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write(self.get_params(ctx), formatter)
        self.format_commands(ctx, formatter)


def plain(app: typer.Typer) -> None:
    """Gives every command of `app` this help, unless it has its own."""
    for command in app.registered_commands:
        if command.cls in (None, TyperCommand):
            command.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            group.cls = Group
            plain(group.typer_instance)


def _check_numbers(params: list[Any], ctx: Any) -> None:
    """Rejects `nan` and `inf`, which pass every minimum and maximum of an option."""
    for param in params:
        value = ctx.params.get(param.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise typer.BadParameter(f"{value} is not a finite number.", ctx=ctx, param=param)


def _write(params: list[Any], formatter: Any) -> None:
    shown = [param for param in params if not getattr(param, "hidden", False)]
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        rows = [(_name(param), _text(param)) for param in shown if param.param_type_name == kind]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    names = ", ".join(sorted(param.opts, key=len))
    if param.secondary_opts:
        return f"{names} / {', '.join(param.secondary_opts)}"
    return names if is_switch(param) else f"{names} {value_name(param)}"


def is_switch(param: Any) -> bool:
    return bool(getattr(param, "is_flag", False) or getattr(param, "count", False))


def value_name(param: Any) -> str:
    """The placeholder of an option's value: the one given, otherwise the option's last word (`--node-name NAME`)."""
    return str(param.metavar or max(param.opts, key=len).rpartition("-")[2].upper())


def _text(param: Any) -> str:
    notes = "; ".join(_notes(param))
    return f"{param.help or ''}  [{notes}]" if notes else param.help or ""


def _notes(param: Any) -> Iterator[str]:
    default = param.default
    if param.required:
        yield "required"
    elif default not in (None, "", False, 0, ()) and not callable(default) and not is_switch(param):
        yield f"default: {default:g}" if isinstance(default, float) else f"default: {default}"
    elif param.param_type_name == "option" and param.secondary_opts:
        yield f"default: {(param.opts if default else param.secondary_opts)[0].lstrip('-')}"
    least, most = getattr(param, "min", None), getattr(param, "max", None)
    if most is not None:
        yield f"{least or 0} to {most}"
    elif least:
        yield f"at least {least}"
