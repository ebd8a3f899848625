/** The style of the page. The colours have enough contrast in the light and in the dark scheme. */
export const pageStyle = `
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1a1d23;--soft:#5d6573;--line:#d9dde4;--lane:#e9ecf1;--kept:#c3c9d3;--accent:#2f63ba;--on-accent:#fff;--error:#b3261e;--s0:#3574d4;--s1:#e08a1e;--s2:#2f9e6e;--s3:#8457d6;--s4:#d4483b;--s5:#1f94a6;--s6:#c9518f;--s7:#7a8b2a}
@media (prefers-color-scheme:dark){:root{--page:#14171c;--card:#1c2027;--text:#e6e9ee;--soft:#98a1b0;--line:#343b47;--lane:#272d37;--kept:#4a5362;--accent:#6ea3f2;--on-accent:#10141a;--error:#f28b82;--s0:#6ea3f2;--s1:#f0a848;--s2:#56c596;--s3:#a98af0;--s4:#f07a6e;--s5:#4fbccd;--s6:#ea86b8;--s7:#b3c458}}
*{box-sizing:border-box}
[hidden]{display:none!important}
html,body{height:100%}
body{margin:0;display:flex;flex-direction:column;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;font-variant-numeric:tabular-nums}
header{display:flex;align-items:center;gap:8px 20px;flex-wrap:wrap;padding:12px 20px;border-bottom:1px solid var(--line);background:var(--card)}
h1{font-size:18px;margin:0;letter-spacing:-.01em}
h2{font-size:15px;margin:20px 0 0;font-weight:600}
label{color:var(--soft);font-size:13px}
input,select,textarea,button{font:inherit;color:inherit;background:var(--page);border:1px solid var(--line);border-radius:8px;padding:5px 9px}
select{max-width:100%}
button{cursor:pointer;background:var(--card)}
button.main{background:var(--accent);border-color:var(--accent);color:var(--on-accent);font-weight:600}
button:disabled{opacity:.5;cursor:default}
:focus-visible{outline:2px solid var(--accent);outline-offset:1px}
#key-form{display:flex;gap:8px;align-items:center}
main{flex:1;min-height:0;display:grid;grid-template-columns:minmax(0,1fr) 400px}
.chat{display:flex;flex-direction:column;min-height:0;min-width:0}
#messages{flex:1;overflow-y:auto;padding:20px;display:flex;flex-direction:column;gap:12px}
.message{max-width:min(100%,720px);white-space:pre-wrap;overflow-wrap:anywhere}
.message.user{align-self:flex-end;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:8px 14px}
.message.error{color:var(--error)}
.message small{display:block;color:var(--soft);font-size:12px;margin-top:2px}
.message.assistant:empty::before{content:"…";color:var(--soft)}
#ask{padding:12px 20px 16px;border-top:1px solid var(--line);background:var(--card)}
#text{width:100%;resize:vertical;display:block}
.controls{display:flex;flex-wrap:wrap;align-items:center;gap:8px 16px;margin-top:8px}
.controls input{width:78px}
.buttons{margin-left:auto;display:flex;gap:8px}
.engine{border-left:1px solid var(--line);padding:16px 20px;overflow-y:auto;background:var(--card)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(100px,1fr));gap:8px;margin:0}
.tiles div{border:1px solid var(--line);border-radius:8px;padding:6px 10px}
.tiles dt{color:var(--soft);font-size:12px}
.tiles dd{margin:0;font-size:17px;font-weight:600;line-height:1.4;white-space:nowrap}
.soft{color:var(--soft);font-size:13px;margin:2px 0 8px}
#blocks{display:grid;grid-template-columns:repeat(auto-fill,minmax(10px,1fr));gap:2px}
#blocks i{aspect-ratio:1;border-radius:2px;background:var(--lane)}
.legend{display:flex;flex-wrap:wrap;gap:4px 14px;margin-top:8px}
.legend i,#sequences i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px;background:var(--lane)}
i.kept{background:var(--kept)!important}
i.s0{background:var(--s0)!important}i.s1{background:var(--s1)!important}i.s2{background:var(--s2)!important}i.s3{background:var(--s3)!important}
i.s4{background:var(--s4)!important}i.s5{background:var(--s5)!important}i.s6{background:var(--s6)!important}i.s7{background:var(--s7)!important}
i.shared{box-shadow:inset 0 0 0 2px var(--text)}
#sequences{list-style:none;margin:0;padding:0;font-size:13px}
#sequences li{border-top:1px solid var(--line);padding:4px 0}
@media (max-width:820px){html,body{height:auto}main{display:block}.engine{border-left:0;border-top:1px solid var(--line)}#messages{min-height:180px;max-height:55vh}}
`;
