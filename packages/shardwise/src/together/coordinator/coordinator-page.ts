import { escapeHtml } from '../../text/escape-html.ts';
import { pageStyle } from '../../report/page-style.ts';
import { formatBytes, formatLoss, formatMilliseconds } from '../../text/format.ts';
import { formatCost } from '../protocol/audit-text.ts';
import type { MemberStatus, RunStatus } from '../protocol/run-status.ts';

const AGAIN_SECONDS = 2;

/** Returns a page that shows a run and loads itself again. */
export function coordinatorPage({ completed, members, relayedBytes, audits }: RunStatus): string {
  const training = members.filter(({ place }) => place === 'training').length;
  const speed = members.reduce((sum, { samplesPerSecond }) => sum + samplesPerSecond, 0);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="refresh" content="${AGAIN_SECONDS}">
<title>${training} members train together · Shardwise</title>
<style>${pageStyle}progress{width:4rem}</style>
</head>
<body>
<main>
<header><h1>Training together</h1></header>
<div class="tiles">
${tile(String(members.length), 'members')}
${tile(String(training), 'of them train')}
${tile(String(completed), 'rounds')}
${tile(perSecond(speed), 'samples per second')}
${tile(formatBytes(relayedBytes), 'passed on')}
${audits.share === 0 ? '' : tile(formatCost(audits), `of computing for ${audits.made} audits`)}
</div>
<div class="card plot"><table class="compared">
<thead><tr><th>Member</th><th>Place</th><th>Rounds</th><th>Samples/s</th><th>Share</th><th>Link</th><th>Loss</th></tr></thead>
<tbody>
${members.map(row).join('\n')}
</tbody>
</table></div>
</main>
</body>
</html>
`;
}

function tile(value: string, label: string): string {
  return `<div class="tile"><b>${escapeHtml(value)}</b><span>${label}</span></div>`;
}

function row(member: MemberStatus): string {
  const { share } = member;
  const cells = [
    `${member.name} (${member.number})`,
    member.place,
    String(member.updates),
    perSecond(member.samplesPerSecond),
    null,
    linkText(member),
    member.loss === null ? '' : formatLoss(member.loss),
  ];
  const bar = `<progress value="${share.toFixed(3)}"></progress> ${Math.round(100 * share)} %`;
  return `<tr>${cells.map((cell) => `<td>${cell === null ? bar : escapeHtml(cell)}</td>`).join('')}</tr>`;
}

/** The way to the other members, and how far the coordinator is. */
function linkText({ link, linkMs }: MemberStatus): string {
  return linkMs === null ? link : `${link}, ${formatMilliseconds(linkMs)}`;
}

function perSecond(samples: number): string {
  return samples.toFixed(samples < 10 ? 1 : 0);
}
