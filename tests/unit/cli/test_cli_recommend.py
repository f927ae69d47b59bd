"""`podfit recommend`: what is wrong with its command line is said before anything is read."""

from __future__ import annotations

import click
import pytest
import typer

from podfit.cli.recommending.asked import prometheus_config


@pytest.mark.parametrize(("history", "why"), [("8x", "is a time such as 8d"), ("1s", "between 10m and 90d")])
def test_a_history_is_checked_where_no_prometheus_is_named(
    history: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((typer.Exit, click.exceptions.Exit, SystemExit)):
        prometheus_config({"prometheus": "", "source": "auto", "history": history})
    assert why in capsys.readouterr().err
