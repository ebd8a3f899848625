import { expect, test } from 'vitest';
import {
  algorithmsOf,
  crosses,
  hostsOf,
  mostSent,
  operations,
  recordCollective,
  timeOf,
  type OperationName,
} from '../explorers/record-collective.ts';
import { leastSent } from '../explorers/least-sent.ts';

const BYTES = 64 * 96;
interface Cost {
  readonly rounds: number;
  /** Of the whole: what the busiest rank sends, and what leaves the busiest host. */
  readonly rank: number;
  readonly host?: number;
}

/** Costs of n ranks on h hosts of r ranks, as the papers have them. */
const costs: Readonly<Record<string, (n: number, h: number, r: number) => Cost>> = {
  'allReduce ring': (n) => ({ rounds: 2 * (n - 1), rank: (2 * (n - 1)) / n }),
  'allReduce halving-doubling': (n) => ({ rounds: 2 * Math.log2(n), rank: (2 * (n - 1)) / n }),
  'allReduce two-phase': (n) => ({ rounds: 2, rank: (2 * (n - 1)) / n }),
  'allReduce direct': (n) => ({ rounds: 1, rank: n - 1 }),
  'allReduce hierarchical': (_, h, r) => ({
    rounds: 2 * h,
    rank: (2 * (r - 1) + Math.min(h - 1, 2)) / r,
    host: Math.min(h - 1, 2),
  }),
  'allGather ring': (n) => ({ rounds: n - 1, rank: (n - 1) / n }),
  'allGather bruck': (n) => ({ rounds: Math.log2(n), rank: (n - 1) / n }),
  'allGather hierarchical': (n, h, r) => ({
    rounds: h,
    rank: (h - 1 + (r - 1) * h) / n,
    host: (h - 1) / h,
  }),
  'broadcast tree': (n) => ({ rounds: Math.log2(n), rank: Math.log2(n) }),
  'broadcast chain': (n) => ({ rounds: n - 1, rank: 1 }),
  'broadcast hierarchical': (_, h, r) => ({
    rounds: Math.log2(h) + Math.log2(r),
    rank: Math.log2(h) + Math.log2(r),
    host: Math.log2(h),
  }),
  'reduceScatter ring': (n) => ({ rounds: n - 1, rank: (n - 1) / n }),
  'reduceScatter direct': (n) => ({ rounds: 1, rank: (n - 1) / n }),
  'reduceScatter hierarchical': (n, h, r) => ({
    rounds: 1 + h,
    rank: ((r - 1) * h + h) / n,
    host: 1,
  }),
};
const names = Object.keys(operations) as readonly OperationName[];
const cases = names.flatMap((operation) =>
  [
    [4, 1],
    [8, 2],
    [8, 4],
    [16, 4],
  ].flatMap(([ranks = 1, hosts = 1]) =>
    algorithmsOf(operation, hosts).map((algorithm) => ({ operation, algorithm, ranks, hosts })),
  ),
);

test.each(cases)(
  '$operation by $algorithm on $ranks ranks of $hosts hosts has the rounds and bytes of its cost',
  async ({ operation, algorithm, ranks, hosts: count }) => {
    const hosts = hostsOf(ranks, count);
    const messages = await recordCollective({ operation, algorithm, bytes: BYTES, hosts });
    const cost = costs[`${operation} ${algorithm}`]?.(ranks, count, ranks / count);
    expect(Math.max(...messages.map(({ round }) => round))).toBe(cost?.rounds);
    expect(mostSent(messages) / BYTES).toBeCloseTo(cost?.rank ?? Number.NaN, 9);
    expect(mostSent(messages)).toBeGreaterThanOrEqual(leastSent(operation, ranks, BYTES));
    if (cost?.host !== undefined) {
      const far = messages.filter((message) => crosses(message, hosts));
      const sent = mostSent(far, (rank) => hosts[rank] ?? rank);
      expect(sent / BYTES).toBeCloseTo(cost.host, 9);
    }
  },
);

test('between hosts a hierarchical all-reduce takes less time than a ring, and a ring of one host what its formula says', async () => {
  const inside = { latencyMs: 0.001, bytesPerSecond: 1e11 };
  const between = { latencyMs: 1, bytesPerSecond: 1e9 };
  const record = (algorithm: string, hosts: readonly number[]) =>
    recordCollective({ operation: 'allReduce', algorithm, bytes: BYTES, hosts });
  const hosts = hostsOf(8, 2);
  const network = { hosts, inside, between };
  expect(timeOf(await record('hierarchical', hosts), network)).toBeLessThan(
    timeOf(await record('ring', hosts), network),
  );
  const one = hostsOf(8, 1);
  const expected = 14 * (0.001 + (1000 * BYTES) / 8 / 1e11);
  expect(timeOf(await record('ring', one), { hosts: one, inside, between })).toBeCloseTo(
    expected,
    9,
  );
});

test('a recording that a page has no room for is refused before it begins', async () => {
  await expect(
    recordCollective({
      operation: 'allReduce',
      algorithm: 'direct',
      bytes: 1 << 24,
      hosts: hostsOf(16, 1),
    }),
  ).rejects.toThrow(/^16 ranks that send 16777216 bytes/);
});
