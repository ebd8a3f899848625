import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import type { DType } from '@shardwise/core/spec';
import { typed } from '@shardwise/testing';
import type { RankOutcome } from '@shardwise/testing/ranks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { slowly, titled, unavailable } from './availability.ts';
import type { HostRunOptions } from './host-ranks.ts';
import { contribution, type HostTask } from './host-task.ts';
import { TwoHosts } from './two-hosts.ts';

const ELEMENTS = 100_003;

/** Returns the result of four ranks on one host, in memory. */
async function onOneHost(dtype: DType): Promise<Uint8Array> {
  const [result = new Uint8Array(0)] = await Promise.all(
    createLoopbackTransports(4).map(async (transport) => {
      const buffer = typed(dtype, contribution(transport.rank, ELEMENTS));
      await createGroup(transport).allReduce(buffer, 'sum');
      return buffer.bytes;
    }),
  );
  return result;
}

describe.skipIf(unavailable !== undefined)(titled('2 hosts x 2 ranks'), slowly, () => {
  let two: TwoHosts;
  beforeAll(async () => {
    two = await TwoHosts.create();
  });
  afterAll(() => two[Symbol.asyncDispose]());

  const play = async (task: HostTask, options?: HostRunOptions): Promise<readonly RankOutcome[]> =>
    (await two.ranks.run(task, options)).outcomes;

  it.each<readonly [string, DType, HostRunOptions]>([
    ['the default algorithm', 'f32', {}],
    ['the default algorithm', 'bf16', {}],
    ['the hierarchical algorithm', 'f32', { algorithm: 'allReduce=hierarchical' }],
    ['two phases', 'f32', { algorithm: 'allReduce=two-phase' }],
    ['tcp between all ranks', 'f32', { sharedMemory: false }],
  ])('a sum by %s of %s has the bits of one host', async (_, dtype, options) => {
    const expected = await onOneHost(dtype);
    const outcomes = await play({ kind: 'reduce', dtype, elements: ELEMENTS }, options);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: 'fulfilled' });
      const bytes = outcome.status === 'fulfilled' ? outcome.value : undefined;
      expect(bytes instanceof Uint8Array && Buffer.compare(bytes, expected)).toBe(0);
    }
  });

  it.each([
    ['two-phase', 2],
    ['hierarchical', 1],
  ])(
    'over a slow link, an all-reduce in the way %s sends its bytes %i times from each host',
    async (algorithm, times) => {
      const elements = 1 << 19;
      const bytes = 4 * elements;
      await Promise.all(two.hosts.map((host) => host.setRate('400mbit')));
      const before = await Promise.all(two.hosts.map((host) => host.traffic()));
      const task = { kind: 'reduce', dtype: 'f32', elements } as const;
      const outcomes = await play(task, { algorithm: `allReduce=${algorithm}` });
      const after = await Promise.all(two.hosts.map((host) => host.traffic()));
      await Promise.all(two.hosts.map((host) => host.setRate(undefined)));
      expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 'fulfilled'));
      for (const [host, { sentBytes }] of after.entries()) {
        const ratio = (sentBytes - (before[host]?.sentBytes ?? 0)) / (times * bytes);
        expect(ratio).toBeGreaterThan(1);
        expect(ratio).toBeLessThan(1.1);
      }
    },
  );
});
