/** The style of the report. The colours have enough contrast in the light and in the dark scheme. */
export const pageStyle = `
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1a1d23;--soft:#5d6573;--line:#e3e6eb;--lane:#f1f3f6;--blue:#3574d4;--orange:#e08a1e;--green:#2f9e6e;--violet:#8457d6;--red:#d4483b;--teal:#1f94a6;--pink:#c9518f;--grey:#a8afbb}
@media (prefers-color-scheme:dark){:root{--page:#14171c;--card:#1c2027;--text:#e6e9ee;--soft:#98a1b0;--line:#2d333d;--lane:#232830;--blue:#6ea3f2;--orange:#f0a848;--green:#56c596;--violet:#a98af0;--red:#f07a6e;--teal:#4fbccd;--pink:#ea86b8;--grey:#69717f}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1180px;margin:0 auto;padding:32px 24px 48px}
header{margin-bottom:20px}
h1{font-size:26px;line-height:1.2;margin:0;letter-spacing:-.01em;display:flex;align-items:center;gap:12px;flex-wrap:wrap}
h2{font-size:15px;margin:0;font-weight:600}
code{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.sub{color:var(--soft);margin:6px 0 0}
.chip{font-size:13px;font-weight:600;padding:2px 10px;border-radius:99px;border:1px solid currentColor}
.chip.running{color:var(--blue)}.chip.finished{color:var(--green)}.chip.stopped{color:var(--orange)}.chip.failed{color:var(--red)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-bottom:12px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:12px 16px}
.tile b{display:block;font-size:22px;line-height:1.25;font-weight:600;letter-spacing:-.01em}
.tile span{color:var(--soft);font-size:13px}
.cards{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:12px}
.card{padding:14px 16px 10px;min-width:0}
.wide{grid-column:1/-1}
.head{display:flex;justify-content:space-between;gap:12px;flex-wrap:wrap;margin-bottom:6px}
.legend{display:flex;gap:14px;flex-wrap:wrap;color:var(--soft);font-size:13px}
.legend i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}
.plot{overflow-x:auto}
.chart{display:block;width:100%;min-width:420px;height:auto;overflow:visible}
.wide .chart{min-width:760px}
.chart text{font-size:11.5px;fill:var(--soft)}
.chart .rank{font-size:13px;font-weight:600;fill:var(--text)}
.grid{stroke:var(--line)}.axis{stroke:var(--grey)}.lane{fill:var(--lane)}
.chart .label{font-size:10.5px;fill:var(--card);pointer-events:none}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.cursor{stroke:var(--soft);stroke-dasharray:3 3;visibility:hidden}
.box:hover{filter:brightness(1.15);stroke:var(--text);stroke-width:1}
.note{color:var(--soft);font-size:13px;margin:6px 0 4px}
table{border-collapse:collapse;width:100%}
th{font-weight:400;text-align:left;color:var(--soft);white-space:nowrap;vertical-align:top}
th,td{padding:5px 16px 5px 0;border-top:1px solid var(--line)}
tr:first-child>*{border-top:0}td{width:100%}
.compared{width:auto}.compared td{width:auto;white-space:nowrap}.compared thead th,.compared tbody tr:first-child>*{border-top:0}.compared thead th{font-weight:600}
#tip{position:fixed;pointer-events:none;visibility:hidden;background:var(--card);border:1px solid var(--line);border-radius:8px;box-shadow:0 4px 16px #0003;padding:8px 12px;font-size:13px;max-width:420px;white-space:pre-line;z-index:9}
#tip b{display:block;font-weight:600}
#tip i{display:inline-block;width:9px;height:9px;border-radius:3px;margin-right:7px}
@media (max-width:760px){main{padding:20px 12px}.cards{grid-template-columns:minmax(0,1fr)}.compared{font-size:12px}.compared th,.compared td{padding-right:8px}.compared tbody th{white-space:normal}}
@media print{.card,.tile{break-inside:avoid}}
`;
