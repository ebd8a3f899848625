import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { slowly, titled, unavailable } from './availability.ts';
import type { HostRunOptions } from './host-ranks.ts';
import { TwoHosts } from './two-hosts.ts';

const silence = 'no heartbeat for \\d+ ms, the limit is 1500 ms';

describe.skipIf(unavailable !== undefined)(titled('2 hosts x 2 ranks'), slowly, () => {
  let two: TwoHosts;
  beforeEach(async () => {
    two = await TwoHosts.create();
  });
  afterEach(() => two[Symbol.asyncDispose]());

  /** Breaks something while all ranks reduce. Returns the messages of the errors of `survivors`. */
  const afterBreaking = async (
    breakIt: () => unknown,
    survivors: readonly number[],
    options?: HostRunOptions,
  ): Promise<readonly { readonly rank: number; readonly message: string }[]> => {
    const run = await two.ranks.run({ kind: 'forever', elements: 1 << 16 }, options);
    await run.ready;
    await breakIt();
    const brokenMs = performance.now();
    const outcomes = await run.outcomesOf(survivors);
    const passedMs = Math.round(performance.now() - brokenMs);
    console.log(`ranks ${survivors.join(', ')} have heard of it after ${passedMs} ms`);
    return outcomes.map((outcome, index) => ({
      rank: survivors[index] ?? -1,
      message: outcome?.status === 'rejected' ? outcome.error.message : 'it did not end',
    }));
  };

  it('a killed rank is named on both hosts', async () => {
    const kill = (): unknown => two.ranks.processes[3]?.kill('SIGKILL');
    for (const { message } of await afterBreaking(kill, [0, 1, 2])) {
      expect(message).toMatch(/allReduce #\d+ .*rank 3 of the world/);
    }
  });

  it('a stopped rank is named on both hosts, with the limit of its heartbeats', async () => {
    const stop = (): unknown => two.ranks.processes[2]?.kill('SIGSTOP');
    for (const { message } of await afterBreaking(stop, [0, 1, 3])) {
      expect(message).toMatch(new RegExp(`allReduce #\\d+ .*rank 2 of the world .*${silence}`));
    }
  });

  it.each<readonly [string, HostRunOptions]>([
    ['shared memory inside the hosts', {}],
    ['tcp between all ranks', { sharedMemory: false }],
  ])('%s: when a link is cut, every rank names one of the other host', async (_, options) => {
    const cut = (): unknown => two.hosts[1]?.cut();
    for (const { rank, message } of await afterBreaking(cut, [0, 1, 2, 3], options)) {
      const others = rank < 2 ? '[23]' : '[01]';
      expect(message).toMatch(
        new RegExp(`allReduce #\\d+ .*rank ${others} of the world .*${silence}`),
      );
    }
  });

  it('a link that comes back before the limit has cost nothing but time', async () => {
    await two.hosts[1]?.setRate('100mbit');
    const run = await two.ranks.run({ kind: 'reduce', dtype: 'f32', elements: 1 << 20 });
    await run.ready;
    await two.hosts[1]?.cut();
    await two.hosts[1]?.restore();
    const outcomes = await run.outcomes;
    expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 'fulfilled'));
  });

  it('ranks whose link is cut before they join are named with the time limit', async () => {
    await two.hosts[1]?.cut();
    const run = await two.ranks.run({ kind: 'forever', elements: 1 }, { joinTimeoutMs: 1000 });
    const [first] = await run.outcomesOf([0]);
    expect(first?.status === 'rejected' ? first.error.message : '').toMatch(
      /ranks 2, 3 did not join within 1000 ms/,
    );
  });
});
