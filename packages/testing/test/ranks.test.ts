import { RankFailure } from '@shardwise/testing/ranks';
import { settleRanks, spawnRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

const moduleUrl = new URL('./ranks-module.ts', import.meta.url);

describe('spawnRanks', () => {
  it('returns what every rank returned, in rank order', async () => {
    const results = await spawnRanks(3, moduleUrl, { data: { factor: 10 } });
    expect(results).toEqual([
      { rank: 0, size: 3, value: 0 },
      { rank: 1, size: 3, value: 10 },
      { rank: 2, size: 3, value: 20 },
    ]);
  });

  it("rejects with the failed rank's own stack first, and ends the others", async () => {
    const failures: [number, RankFailure][] = [];
    const ranks = spawnRanks(3, moduleUrl, {
      name: 'failing',
      onFailure: (rank, error) => failures.push([rank, error]),
    });
    const error: unknown = await ranks.catch((reason: unknown) => reason);
    if (!(error instanceof RankFailure)) throw new Error('expected a RankFailure');
    expect(error.rank).toBe(1);
    expect(error.message).toBe('rank 1: RangeError: out of tea');
    const [first, second] = error.stack?.split('\n') ?? [];
    expect(first).toBe('rank 1: RangeError: out of tea');
    expect(second).toContain('ranks-module.ts');
    expect(failures[0]).toEqual([1, error]);
  });

  it('refuses a module without the function', async () => {
    await expect(spawnRanks(1, moduleUrl, { name: 'missing' })).rejects.toThrow(
      'exports no function missing',
    );
  });

  it('notices a rank whose thread ends early', async () => {
    await expect(spawnRanks(2, moduleUrl, { name: 'leaving' })).rejects.toThrow(
      'rank 0: Error: The thread ended with code 7',
    );
  });

  it('ends ranks that take too long', async () => {
    await expect(spawnRanks(1, moduleUrl, { name: 'lasting', timeoutMs: 300 })).rejects.toThrow(
      'did not end within 300 ms',
    );
  });
});

describe('settleRanks', () => {
  it('waits for every rank and tells how each one ended', async () => {
    const [first, second] = await settleRanks(2, moduleUrl, { name: 'failing' });
    expect(first).toEqual({ status: 'fulfilled', value: 'done' });
    expect(second?.status === 'rejected' ? second.error.report : undefined).toMatchObject({
      name: 'RangeError',
      message: 'out of tea',
    });
  });
});
