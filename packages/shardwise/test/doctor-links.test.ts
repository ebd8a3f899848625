import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { describe, expect, it } from 'vitest';
import { judgeLinks } from '../src/doctor/links/judge-links.ts';
import { linkLines } from '../src/doctor/links/link-lines.ts';
import {
  type LinkReport,
  parseLinkReport,
  type RankFacts,
} from '../src/doctor/links/link-report.ts';
import { linksPage } from '../src/doctor/links/links-page.ts';
import { measureLinks } from '../src/doctor/links/measure-links.ts';

const facts: RankFacts = {
  host: 'one',
  node: 'v24.21.0',
  shardwise: '0.0.0',
  platform: 'linux-x64',
  device: 'cpu',
};

interface Differences {
  /** The facts of single ranks that differ. */
  readonly facts?: Readonly<Record<number, Partial<RankFacts>>>;
  /** Links by `from-to` that differ. */
  readonly links?: Readonly<Record<string, Partial<LinkReport['links'][number]>>>;
}

/** A report of healthy links between ranks of these hosts. */
function reportOf(
  hosts: readonly string[],
  { facts: own = {}, links = {} }: Differences = {},
): LinkReport {
  return {
    transport: 'TCP',
    ranks: hosts.map((host, rank) => ({ ...facts, host, ...own[rank] })),
    links: hosts.flatMap((_, from) =>
      hosts.slice(from + 1).map((_host, index) => {
        const to = from + 1 + index;
        const between = hosts[from] !== hosts[to];
        return {
          from,
          to,
          latencyUs: between ? 80 : 8,
          bytesPerSecond: between ? 1e9 : 8e9,
          clockAheadMs: 1,
          ...links[`${from}-${to}`],
        };
      }),
    ),
  };
}

function findingsOf(report: LinkReport): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    judgeLinks(report).map(({ name, level, found, todo }) => [name, { level, found, todo }]),
  );
}

describe('measuring links', () => {
  it('gives every rank each link once, with the facts of all ranks', async () => {
    const transports = createLoopbackTransports(3);
    const load = { smallMessages: 2, largeMessages: 1, largeBytes: 1000 };
    const all = await Promise.all(
      transports.map((transport, rank) =>
        measureLinks(createGroup(transport), { ...facts, host: `host-${rank}` }, load),
      ),
    );
    for (const { ranks, links } of all) {
      expect(ranks.map(({ host }) => host)).toEqual(['host-0', 'host-1', 'host-2']);
      expect(links.map(({ from, to }) => `${from}-${to}`)).toEqual(['0-1', '0-2', '1-2']);
      expect(links).toEqual(all[0]?.links);
      for (const { latencyUs, bytesPerSecond, clockAheadMs } of links) {
        expect(latencyUs).toBeGreaterThan(0);
        expect(bytesPerSecond).toBeGreaterThan(0);
        // The ranks of this test have one clock, which lay between the two looks at it.
        expect(Math.abs(clockAheadMs) * 1000).toBeLessThanOrEqual(latencyUs + 1);
      }
    }
  });
});

describe('the verdict on links', () => {
  it('is green where all links of a kind are alike', () => {
    expect(findingsOf(reportOf(['one', 'one', 'two', 'two']))).toEqual({
      links: { level: 'green', found: '954 MiB/s to 7.45 GiB/s, TCP' },
      versions: { level: 'green', found: 'all ranks have shardwise 0.0.0 and Node v24.21.0' },
      'clock skew': { level: 'green', found: 'at most 1.00 ms' },
    });
  });

  it('names a slow link, but no host for a single one', () => {
    const report = reportOf(['one', 'one', 'one'], { links: { '1-2': { bytesPerSecond: 3e9 } } });
    expect(findingsOf(report)).toMatchObject({
      links: {
        level: 'yellow',
        found: '2.79 GiB/s to 7.45 GiB/s, TCP; slow: ranks 1-2 2.79 GiB/s, 0.01 ms',
        todo: expect.stringContaining('Measure again'),
      },
    });
  });

  it('names the host whose links are slow', () => {
    const late = { latencyUs: 900 };
    const links = { '0-2': late, '1-2': late, '2-3': late };
    expect(findingsOf(reportOf(['a', 'b', 'c', 'd', 'e'], { links }))).toMatchObject({
      links: {
        level: 'yellow',
        found: expect.stringContaining('ranks 0-2 (a to c) 954 MiB/s, 0.90 ms'),
        todo: 'Look at the network of c: most of the slow links are theirs',
      },
    });
  });

  it('names the versions that disagree, and the hosts that have them', () => {
    const node = reportOf(['a', 'b', 'c'], { facts: { 2: { node: 'v25.0.0' } } });
    expect(findingsOf(node)).toMatchObject({
      versions: { level: 'yellow', found: 'node: v24.21.0 on a, b; v25.0.0 on c' },
    });
    const own = reportOf(['a', 'b'], { facts: { 1: { shardwise: '0.1.0', device: 'other' } } });
    expect(findingsOf(own)).toMatchObject({
      versions: {
        level: 'red',
        found: 'shardwise: 0.0.0 on a; 0.1.0 on b. device: cpu on a; other on b',
        todo: expect.stringContaining('npm ci'),
      },
    });
  });

  it('names the hosts whose clocks differ from that of rank 0', () => {
    const links = { '0-1': { clockAheadMs: 2500 }, '0-2': { clockAheadMs: -70 } };
    expect(findingsOf(reportOf(['a', 'b', 'c'], { links }))).toMatchObject({
      'clock skew': { level: 'yellow', found: 'b is 2.50 s ahead of a, c is 70.0 ms behind a' },
    });
  });

  it('is green for a rank alone', () => {
    expect(findingsOf(reportOf(['one']))).toMatchObject({
      links: { level: 'green', found: 'one rank has none' },
      'clock skew': { level: 'green', found: 'one host, one clock' },
    });
  });
});

describe('the matrix of links', () => {
  it('shows bandwidth and latency between all ranks', () => {
    expect(`\n${linkLines(reportOf(['a', 'a', 'b']), 80).join('\n')}`).toMatchInlineSnapshot(`
      "
      bandwidth in GB/s
                0      1      2
      0         ·   8.00   1.00
      1      8.00      ·   1.00
      2      1.00   1.00      ·

      latency in µs
                0      1      2
      0         ·   8.00   80.0
      1      8.00      ·   80.0
      2      80.0   80.0      ·
      "
    `);
  });

  it('shows the worst links between hosts if the ranks do not fit into the width', () => {
    const hosts = Array.from({ length: 24 }, (_, rank) => `host-${rank >> 3}`);
    const lines = linkLines(reportOf(hosts, { links: { '0-9': { latencyUs: 123 } } }), 80);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(`\n${lines.join('\n')}`).toMatchInlineSnapshot(`
      "
      bandwidth in GB/s
             host-0 host-1 host-2
      host-0   8.00   1.00   1.00
      host-1   1.00   8.00   1.00
      host-2   1.00   1.00   8.00

      latency in µs
             host-0 host-1 host-2
      host-0   8.00    123   80.0
      host-1    123   8.00   80.0
      host-2   80.0   80.0   8.00
      "
    `);
  });

  it('is broken into several where many ranks of one host do not fit', () => {
    const lines = linkLines(reportOf(Array.from({ length: 20 }, () => 'one')), 80);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(lines.filter((line) => line === 'bandwidth in GB/s')).toHaveLength(1);
    // Two figures, of three bands with a title, a head, 20 rows and a gap each.
    expect(lines).toHaveLength(2 * 3 * 23);
  });

  it('is also a page, with text and colour for each link, which shows names as text', () => {
    const report = reportOf(['<b>', 'two']);
    const page = linksPage(report, judgeLinks(report));
    expect(page.match(/<rect/g)).toHaveLength(4);
    expect(page).toContain('<title>0 to 1: 1.00</title>');
    expect(page).not.toContain('<b>');
  });
});

describe('a report of links', () => {
  it('is read as it was written, and refused if it is no report', () => {
    const report = reportOf(['a', 'b']);
    expect(parseLinkReport(JSON.stringify(report))).toEqual(report);
    expect(() => parseLinkReport('{"ranks":[],"transport":"TCP","links":[{"from":-1}]}')).toThrow();
  });
});
