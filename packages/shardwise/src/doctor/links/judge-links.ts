import { formatBytes, formatMilliseconds } from '../../text/format.ts';
import type { Finding } from '../host/finding.ts';
import type { Link, LinkReport, RankFacts } from './link-report.ts';

/** A link is slow if it moves less than this part of what the median link of its kind moves. */
const SLOW = 0.5;
/** Or if its messages take this many times as long. Short times vary more. */
const LATE = 5;
/** Clocks that differ by more spoil what logs and traces of several hosts say. */
const MAX_SKEW_MS = 50;

/** Says which links and hosts are slow, which versions disagree between hosts, and whose clocks are wrong. */
export function judgeLinks(report: LinkReport): readonly Finding[] {
  return [linksFinding(report), versionsFinding(report), clocksFinding(report)];
}

/** Whether a link leaves its host. Links of the two kinds are not compared with each other. */
function isBetweenHosts({ ranks }: LinkReport, { from, to }: Link): boolean {
  return ranks[from]?.host !== ranks[to]?.host;
}

function linksFinding(report: LinkReport): Finding {
  const { links, transport } = report;
  const name = 'links';
  const slow = [false, true].flatMap((between) => {
    const kind = links.filter((link) => isBetweenHosts(report, link) === between);
    const bandwidth = median(kind.map(({ bytesPerSecond }) => bytesPerSecond));
    const latency = median(kind.map(({ latencyUs }) => latencyUs));
    return kind.filter(
      ({ bytesPerSecond, latencyUs }) =>
        bytesPerSecond < SLOW * bandwidth || latencyUs > LATE * latency,
    );
  });
  const figures = { transport, links: links.length, slow: slow.map((link) => linkName(link)) };
  if (links.length === 0) return { name, level: 'green', found: 'one rank has none', figures };
  const between = links.filter((link) => isBetweenHosts(report, link));
  const rates = links.map(({ bytesPerSecond }) => bytesPerSecond);
  const range = `${formatBytes(Math.min(...rates))}/s to ${formatBytes(Math.max(...rates))}/s, ${transport}`;
  if (slow.length === 0) return { name, level: 'green', found: range, figures };
  const hosts = slowHosts(report, between, slow);
  const shown = slow.slice(0, MAX_SHOWN).map((link) => describeLink(report, link));
  const more = slow.length > MAX_SHOWN ? [`and ${slow.length - MAX_SHOWN} more`] : [];
  return {
    name,
    level: 'yellow',
    found: `${range}; slow: ${[...shown, ...more].join(', ')}`,
    todo:
      hosts.length > 0
        ? `Look at the network of ${hosts.join(', ')}: most of the slow links are theirs`
        : 'Measure again on quiet hosts. Then look at the network, or bind ranks to cores of one NUMA node',
    figures: { ...figures, slowHosts: hosts },
  };
}

const MAX_SHOWN = 4;

/** Returns the hosts of which more than half of the links to other hosts are slow, unless all hosts are such. */
function slowHosts(
  { ranks }: LinkReport,
  between: readonly Link[],
  slow: readonly Link[],
): readonly string[] {
  const hosts = [...new Set(ranks.map(({ host }) => host))];
  const found = hosts.filter((host) => {
    const own = between.filter(
      ({ from, to }) => ranks[from]?.host === host || ranks[to]?.host === host,
    );
    return own.filter((link) => slow.includes(link)).length > own.length / 2;
  });
  return found.length < hosts.length ? found : [];
}

function linkName({ from, to }: Link): string {
  return `${from}-${to}`;
}

function describeLink({ ranks }: LinkReport, link: Link): string {
  const [a, b] = [ranks[link.from]?.host, ranks[link.to]?.host];
  const hosts = a === b ? '' : ` (${a} to ${b})`;
  return `ranks ${linkName(link)}${hosts} ${formatBytes(link.bytesPerSecond)}/s, ${formatMilliseconds(link.latencyUs / 1000)}`;
}

const versions = {
  shardwise: 'red',
  node: 'yellow',
  platform: 'yellow',
  device: 'yellow',
} as const satisfies Partial<Record<keyof RankFacts, Finding['level']>>;

function versionsFinding({ ranks }: LinkReport): Finding {
  const name = 'versions';
  const facts = ['shardwise', 'node', 'platform', 'device'] as const;
  const differing = facts.filter((fact) => new Set(ranks.map((rank) => rank[fact])).size > 1);
  if (differing.length === 0) {
    const [first] = ranks;
    const found = `all ranks have shardwise ${first?.shardwise} and Node ${first?.node}`;
    return { name, level: 'green', found };
  }
  const texts = differing.map((fact) => {
    const values = [...new Set(ranks.map((rank) => rank[fact]))];
    const said = values.map((value) => {
      const hosts = new Set(ranks.filter((rank) => rank[fact] === value).map(({ host }) => host));
      return `${value} on ${[...hosts].join(', ')}`;
    });
    return `${fact}: ${said.join('; ')}`;
  });
  const isRed = differing.some((fact) => versions[fact] === 'red');
  return {
    name,
    level: isRed ? 'red' : 'yellow',
    found: texts.join('. '),
    todo: isRed
      ? 'Install the same version of shardwise on all hosts: npm ci'
      : 'Ranks work together, but their results may differ in the last digits. Use equal hosts for equal bits',
    figures: { differing },
  };
}

function clocksFinding({ ranks, links }: LinkReport): Finding {
  const name = 'clock skew';
  const ahead = new Map<string, number>();
  for (const { from, to, clockAheadMs } of links) {
    const host = ranks[to]?.host ?? '';
    if (from === 0 && host !== ranks[0]?.host && !ahead.has(host)) ahead.set(host, clockAheadMs);
  }
  if (ahead.size === 0) return { name, level: 'green', found: 'one host, one clock' };
  const worst = Math.max(...[...ahead.values()].map(Math.abs));
  const figures = { worstMs: worst };
  if (worst <= MAX_SKEW_MS) {
    return { name, level: 'green', found: `at most ${formatMilliseconds(worst)}`, figures };
  }
  const wrong = [...ahead].filter(([, ms]) => Math.abs(ms) > MAX_SKEW_MS);
  const texts = wrong.map(
    ([host, ms]) =>
      `${host} is ${formatMilliseconds(Math.abs(ms))} ${ms > 0 ? 'ahead of' : 'behind'} ${ranks[0]?.host}`,
  );
  const todo =
    'Synchronize the clocks, for example with chronyd. Logs and traces of hosts do not fit otherwise';
  return { name, level: 'yellow', found: texts.join(', '), todo, figures };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}
