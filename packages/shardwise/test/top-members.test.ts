import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CollectiveError, ConfigError } from '@shardwise/core/spec';
import { describe, expect, it, onTestFinished } from 'vitest';
import { coloured, uncoloured } from '../src/terminal/paint.ts';
import { startCoordinator } from '../src/together/coordinator/start-coordinator.ts';
import type { MemberStatus, RunStatus } from '../src/together/protocol/run-status.ts';
import { membersLines } from '../src/top/members/members-lines.ts';
import { readStatus, statusAddress } from '../src/top/members/members-source.ts';
import { topOfMembers } from '../src/top/members/top-of-members.ts';

const memberOf = (number: number, more: Partial<MemberStatus> = {}): MemberStatus => ({
  number,
  name: `machine-${number}`,
  place: 'training',
  updates: 40,
  samplesPerSecond: 12.5,
  share: 0.25,
  link: 'relay',
  linkMs: 31,
  loss: 2.5,
  ...more,
});

const statusOf = (completed: number, loss: number, more: Partial<RunStatus> = {}): RunStatus => ({
  completed,
  members: [
    memberOf(1, { name: 'laptop', share: 0.62, samplesPerSecond: 31, loss }),
    memberOf(2, {
      name: 'page',
      share: 0.3,
      samplesPerSecond: 15.2,
      link: 'both',
      linkMs: 4.2,
      loss: loss + 0.1,
    }),
    memberOf(4, { name: 'desk', place: 'auditing', share: 0.08, updates: 7, loss: loss + 0.2 }),
    memberOf(5, {
      place: 'waiting for the state',
      share: 0,
      updates: 0,
      samplesPerSecond: 0,
      linkMs: null,
      loss: null,
    }),
  ],
  relayedBytes: 12_400_000,
  audits: { share: 0.02, updates: 120, made: 3, missed: 0, disputed: 0 },
  ...more,
});

const history = [5, 4, 3.4, 3, 2.8, 2.7, 2.65].map((loss, at) => statusOf(41 + at, loss));
const view = {
  url: 'ws://127.0.0.1:8970/',
  status: history.at(-1) ?? statusOf(47, 2.65),
  history,
};

describe('the members of a run', () => {
  it('are shown as on the page of their coordinator', () => {
    expect(membersLines(view, { columns: 120, rows: 40 }, uncoloured)).toMatchInlineSnapshot(`
      [
        "run      ws://127.0.0.1:8970/",
        "members  4 of whom 2 train",
        "rounds   47",
        "loss     2.7500  █▅▃▂▁▁▁",
        "speed    59 samples/s  ▁▁▁▁▁▁▁",
        "relay    11.8 MiB passed on",
        "audits   3 of 120 updates made again, which was 2.4 % of all computing; 0 could not be; 0 disputed",
        "",
        "member         place                  rounds  samples/s  share              link   round trip    loss",
        "laptop (1)     training                   40         31   62 %  ■■■■■■····  relay     31.0 ms  2.6500",
        "page (2)       training                   40         15   30 %  ■■■·······  both      4.20 ms  2.7500",
        "desk (4)       auditing                    7         13    8 %  ■·········  relay     31.0 ms  2.8500",
        "machine-5 (5)  waiting for the state       0        0.0    0 %  ··········  relay",
      ]
    `);
  });

  it('are colours where somebody should look', () => {
    const lines = membersLines(view, { columns: 120, rows: 40 }, coloured).join('\n');
    expect(lines).toContain('\u001B[36m  auditing');
    expect(lines).toContain('\u001B[33m  waiting for the state');
  });

  it('fit into the terminal, however many they are', () => {
    const members = Array.from({ length: 500 }, (_, at) => memberOf(at, { name: 'ä'.repeat(64) }));
    const many = { ...view, status: statusOf(3, 1, { members }) };
    const lines = membersLines(many, { columns: 60, rows: 20 }, uncoloured);
    expect(lines).toHaveLength(19);
    expect(lines.at(-1)).toMatch(/^and 4\d\d more$/);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(60);
  });

  it('without anybody are none', () => {
    const status = statusOf(0, 1, { members: [] });
    const lines = membersLines(
      { ...view, status, history: [status] },
      { columns: 80, rows: 24 },
      uncoloured,
    );
    expect(lines.join('\n')).toContain('0 of whom 0 train');
  });
});

describe('the status of a coordinator', () => {
  it('is read from the address that members join by', async () => {
    const coordinator = await startCoordinator({
      host: '127.0.0.1',
      port: 0,
      tokens: ['a token that members know'],
      audit: 0,
      maxMembers: 3,
      roundTimeoutMs: 60_000,
      bytesPerSecond: 1e8,
      maxBufferedBytes: 1e8,
      onNotice: () => undefined,
    });
    onTestFinished(() => coordinator.close());
    for (const url of [coordinator.url, coordinator.pageUrl]) {
      expect(await readStatus(new URL(url))).toEqual(coordinator.status);
    }
    expect(statusAddress(new URL('wss://example.org/run/'))).toBe('https://example.org/run/status');
  });

  it('that is none, or too long, is an error', async () => {
    let answer = '{"completed":1}';
    const server = createServer((_, response) => response.end(answer)).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    onTestFinished(() => void server.close());
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    await expect(readStatus(url)).rejects.toThrow(ConfigError);
    answer = ' '.repeat(1 << 21);
    await expect(readStatus(url)).rejects.toThrow(ConfigError);
    await expect(readStatus(new URL('ws://127.0.0.1:1'))).rejects.toThrow(CollectiveError);
    const withPage = topOfMembers({ url, once: true, json: false, page: 'top.html' });
    await expect(withPage).rejects.toThrow('a coordinator that serves this page itself');
  });
});
