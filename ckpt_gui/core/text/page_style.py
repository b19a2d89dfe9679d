"""How a report looks as a page: one style sheet for light and dark, and the head that forbids everything foreign."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #57606a; --line: #d0d7de; --paper: #ffffff; --code: #f3f5f7;
  --error: #b3261e; --warning: #8a5a00; --info: #1f5fa8; --good: #1a6b3c }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a2abb5; --line: #3b434c; --paper: #16191d;
  --code: #22272d; --error: #ff8f87; --warning: #e8b45a; --info: #7db8f5; --good: #74c994 } }
body { margin: 2.5rem auto; max-width: 56rem; padding: 0 1.25rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif }
h1 { font-size: 1.4rem; overflow-wrap: anywhere }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
code, pre { font: .88em/1.5 ui-monospace, monospace; background: var(--code); border-radius: 4px;
  overflow-wrap: anywhere }
code { padding: .1em .3em }
pre { padding: .75rem 1rem; white-space: pre-wrap }
p { margin: .4rem 0 }
ul { margin: .3rem 0; padding-left: 1.2rem }
b { font-weight: 600 }
.finding { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .9rem; margin: .9rem 0 }
.finding.e { border-color: var(--error) }
.finding.w { border-color: var(--warning) }
.finding.i { border-color: var(--info) }
.fix, .quiet { color: var(--soft) }
.error { color: var(--error) }
.warning { color: var(--warning) }
.info { color: var(--info) }
.good { color: var(--good) }
table { border-collapse: collapse; width: 100%; font-size: .92em }
td { padding: .3rem .6rem; border-top: 1px solid var(--line); vertical-align: top }
td:first-child { text-align: right; white-space: nowrap; color: var(--soft) }
.figures th { text-align: right; font-weight: 600; padding: .3rem .6rem; color: var(--soft) }
.figures td { text-align: right; font-variant-numeric: tabular-nums; color: var(--ink) }
.figures th:first-child, .figures td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere }
details, .leaf { margin: .15rem 0 .15rem 1rem }
summary { cursor: pointer; margin-left: -1rem }
.leaf { margin-left: 1rem }
.members { margin: .2rem 0 .4rem 1rem; font-size: .92em }
figure { margin: 1rem 0 }
figure svg { width: 100%; height: auto }
figcaption { color: var(--soft); font-size: .92em }
.verdict { margin-top: 2rem; font-weight: 600 }
"""
HEAD = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
)
