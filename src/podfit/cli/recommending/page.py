"""The report as one self-contained HTML file: styles, script and charts inline. Opens offline."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape

from podfit.cli.printing.amounts import amount_text
from podfit.cli.recommending.charts import chart
from podfit.cli.recommending.texts import (
    change_text,
    confidence_text,
    cost_text,
    limit_text,
    summary,
    total_text,
    waste_text,
)
from podfit.vpa.model.times import to_rfc3339
from podfit.vpa.report.decide.findings import Finding, Report
from podfit.vpa.report.decide.sizing import RESOURCES

CHARTS = 200
"""Containers that get charts: those with the most waste. A page with thousands of them would not open."""
_STYLE = """
:root{--ink:#1b2430;--soft:#5c6875;--line:#dde3ea;--paper:#fff;--card:#f6f8fa;--used:#2563eb;--mean:#93b4f5;
--request:#b45309;--limit:#dc2626;--fits:#15803d}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#98a3b0;--line:#2c3440;--paper:#12161c;--card:#1a2029;
--used:#7aa7ff;--mean:#2e4778;--request:#f0a44b;--limit:#f87171;--fits:#4ade80}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 22px 60px}h1{font-size:24px;margin:0 0 4px}
.soft{color:var(--soft)}.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:20px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 18px;min-width:150px}
.tile b{display:block;font-size:22px}.warn{border-left:4px solid var(--limit);background:var(--card);padding:10px 14px;
margin:12px 0}.legend{position:sticky;top:0;background:var(--paper);padding:6px 0;margin:0}
.legend span{margin-right:18px;white-space:nowrap}
.legend i{display:inline-block;width:22px;height:0;border-top:3px solid;
vertical-align:middle;margin-right:6px}input{font:inherit;color:inherit;background:var(--card);border:1px solid
var(--line);border-radius:6px;padding:6px 10px;width:300px;max-width:100%}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin:14px 0 30px}
td a{color:inherit;text-decoration-color:var(--line)}th,td{text-align:left;padding:6px 10px;
border-bottom:1px solid var(--line);vertical-align:top}th{font-size:12px;color:var(--soft);cursor:pointer;
white-space:nowrap}th[aria-sort=ascending]::after{content:" ↑"}th[aria-sort=descending]::after{content:" ↓"}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.risk{color:var(--limit);font-weight:600}section.box{border:1px solid var(--line);border-radius:8px;
padding:14px 18px;margin:16px 0;scroll-margin-top:40px}section.box h2{font-size:16px;margin:0 0 6px}
.pair{display:flex;flex-wrap:wrap;gap:14px}.pair figure{flex:1 1 460px;margin:6px 0}figcaption{font-size:12px;
color:var(--soft)}svg.chart{width:100%;height:auto;display:block}.grid{stroke:var(--line)}
.tick{fill:var(--soft);font-size:10.5px}.beyond{fill:var(--ink);font-size:10.5px}.used{fill:none;stroke:var(--used);stroke-width:1.4}
.mean{fill:var(--mean);opacity:.45}.request{stroke:var(--request);stroke-width:1.6}.limit{stroke:var(--limit);
stroke-width:1.6}.fits{stroke:var(--fits);stroke-width:2;stroke-dasharray:6 4}ul{margin:6px 0;padding-left:20px}
"""
_SCRIPT = """
const box=document.getElementById('find'),rows=[...document.querySelectorAll('[data-name]')];
box.addEventListener('input',()=>{
for(const row of rows)row.hidden=!row.dataset.name.includes(box.value.toLowerCase())});
const heads=document.querySelectorAll('th');
heads.forEach((head,at)=>head.addEventListener('click',()=>{
const body=document.querySelector('tbody'),up=head.getAttribute('aria-sort')!=='ascending',sign=up?1:-1;
heads.forEach(one=>one.removeAttribute('aria-sort'));head.setAttribute('aria-sort',up?'ascending':'descending');
const key=row=>{const value=row.children[at].dataset.v;
return value===undefined?row.children[at].textContent:value===''?null:+value};
[...body.children].sort((a,b)=>{const x=key(a),y=key(b);
return x===null||y===null?(x===null)-(y===null):sign*(x<y?-1:x>y?1:0)}).forEach(row=>body.append(row))}));
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def as_page(report: Report) -> str:
    return "".join(_parts(report))


def _parts(report: Report) -> Iterator[str]:
    title = f"Recommendations{f' for {report.cluster}' if report.cluster else ''}"
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
    )
    sources = ", ".join(report.sources) or "no usage"
    words = f"{to_rfc3339(report.made)} · from {sources} · policy {report.policy}"
    yield f'<p class="soft">{escape(words)}</p>'
    yield from _words(report)
    yield _tiles(report)
    yield '<p><input id="find" type="search" placeholder="Show only names with …" aria-label="Filter by name"></p>'
    measured = [at for at, finding in enumerate(report.findings) if finding.evidence is not None]
    shown = measured[:CHARTS]
    yield _table(report, set(shown))
    yield _legend() if shown else ""
    for at in shown:
        yield _box(report.findings[at], at)
    left = len(measured) - len(shown)
    if left:
        yield f'<p class="soft">Charts of {left} more containers are left out: those above waste the most.</p>'
    yield f"</main><script>{_SCRIPT}</script></body></html>\n"


def _words(report: Report) -> Iterator[str]:
    if report.missing:
        items = "".join(f"<li>{escape(item)}</li>" for item in report.missing)
        yield f'<div class="warn" id="partial"><b>This report is partial.</b><ul>{items}</ul></div>'
    if report.notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
        yield f'<ul class="soft">{items}</ul>'


def _tiles(report: Report) -> str:
    tiles = [
        (f"{total_text(report, 'cpu')} cores", "requested, not needed"),
        (f"{total_text(report, 'memory')} GiB", "requested, not needed"),
        *([(cost_text(report.monthly), "a month")] if report.prices.given else []),
        (str(report.at_risk), "containers at risk"),
        (str(len(report.findings)), "containers"),
        *([(str(report.without), "without usage")] if report.without else []),
    ]
    made = "".join(f'<div class="tile"><b>{escape(number)}</b>{escape(words)}</div>' for number, words in tiles)
    return f'<div class="tiles" title="{escape(summary(report))}">{made}</div>'


def _legend() -> str:
    rows = (
        ("used", "use, highest pod"),
        ("mean", "use, mean"),
        ("request", "request"),
        ("limit", "limit"),
        ("fits", "recommended"),
    )
    made = "".join(f'<span><i style="border-color:var(--{style})"></i>{words}</span>' for style, words in rows)
    return f'<p class="legend soft">{made}</p>'


def _table(report: Report, charted: Collection[int]) -> str:
    """The table of workloads, with links to the charts of those that have some."""
    heads = ["Workload", "Container", "Pods", "CPU", "Memory", "Wasted CPU", "Wasted memory"]
    heads += ["A month"] if report.prices.given else []
    heads += ["Risk", "Confidence"]
    numbers = {"Pods", "CPU", "Memory", "Wasted CPU", "Wasted memory", "A month"}
    top = "".join(f'<th class="{"n" if head in numbers else ""}">{head}</th>' for head in heads)
    rows = "".join(_row(report, finding, at if at in charted else None) for at, finding in enumerate(report.findings))
    return f'<div class="scroll"><table id="all"><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(report: Report, finding: Finding, chart_at: int | None) -> str:
    name = escape(str(finding.key))
    name = name if chart_at is None else f'<a href="#c{chart_at}">{name}</a>'
    cells = [
        f"<td>{name}</td>",
        f"<td>{escape(finding.container)}</td>",
        _number(str(finding.replicas), finding.replicas),
    ]
    for resource in RESOURCES:
        cells.append(
            _number(change_text(resource, finding.now, finding.recommended), finding.now.requests.get(resource))
        )
    cells += [_number(waste_text(finding, resource), finding.wasted(resource)) for resource in RESOURCES]
    cells += [_number(cost_text(cost := finding.monthly(report.prices)), cost)] if report.prices.given else []
    cells.append(f'<td class="risk">{escape(", ".join(finding.risks))}</td>')
    cells.append(f"<td>{escape(confidence_text(finding))}</td>")
    return f'<tr data-name="{escape(_name(finding))}">{"".join(cells)}</tr>'


def _number(text: str, value: float | None) -> str:
    """A table cell with its sort key: unknown values come last in any order."""
    return f'<td class="n" data-v="{"" if value is None else value}">{escape(text)}</td>'


def _name(finding: Finding) -> str:
    return f"{finding.key} {finding.container}".lower()


def _box(finding: Finding, at: int) -> str:
    figures = []
    for resource in RESOURCES:
        drawn = chart(finding, resource)
        if drawn:
            limits = limit_text(resource, finding.now, finding.recommended)
            words = f"{resource}: request {change_text(resource, finding.now, finding.recommended)}, limit {limits}"
            figures.append(f"<figure>{drawn}<figcaption>{escape(words)}</figcaption></figure>")
    reasons = "".join(f"<li>{escape(words)}</li>" for words in (*finding.why, *finding.notes))
    used = finding.evidence.used if finding.evidence is not None else {}
    seen = ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in used.items())
    risk = f' <span class="risk">{escape(", ".join(finding.risks))}</span>' if finding.risks else ""
    pods = f"{finding.replicas} pod{'' if finding.replicas == 1 else 's'}"
    return (
        f'<section class="box" id="c{at}" data-name="{escape(_name(finding))}">'
        f"<h2>{escape(str(finding.key))}, {escape(finding.container)}{risk}</h2>"
        f'<div class="soft">{pods}, used {escape(seen or "nothing")}, confidence '
        f"{escape(confidence_text(finding))}</div>"
        f'<div class="pair">{"".join(figures)}</div><ul>{reasons}</ul></section>'
    )
