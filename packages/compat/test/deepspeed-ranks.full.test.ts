import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { offloadings, type Outcome, precisions, stages, trainOnRank } from './deepspeed-ranks.ts';

/** What each rank has found, by name. */
const found = new Map<string, readonly Outcome[]>();

beforeAll(async () => {
  const inStages = [
    { name: 'pp', size: 2 },
    { name: 'dp', size: 1 },
  ];
  for (const ranks of [
    await onRanks(
      2,
      (rank) => trainOnRank(rank, 'compare', 'offload', 'measured', 'logged', 'oneBit'),
      onCpu,
    ),
    await onRanks(2, (rank) => trainOnRank(rank, 'inStages'), { ...onCpu, axes: inStages }),
  ]) {
    for (const name of Object.keys(ranks[0] ?? {})) {
      found.set(
        name,
        ranks.map((rank) => rank[name] ?? expect.fail(name)),
      );
    }
  }
}, 240_000);

function expectSame(name: string): void {
  const ranks = found.get(name) ?? expect.fail(name);
  for (const { engine, words, parameters, expected } of ranks) {
    expect(engine.length).toBeGreaterThan(0);
    expect(engine).toEqual(words);
    expect(parameters).toEqual(expected);
    expect(engine.every(Number.isFinite)).toBe(true);
  }
}

describe('the engine of initialize()', () => {
  describe.each(stages)('at stage %i', (stage) => {
    it.each(precisions)('trains in %s with the bits of the library’s own words', (precision) => {
      expectSame(`${stage} ${precision}`);
      const [first] = found.get(`${stage} ${precision}`) ?? [];
      // The two warmup steps of learning rate 0 change nothing, and the later ones do.
      expect(first?.engine.at(-1)).not.toBe(first?.engine[0]);
    });
  });

  describe.each(offloadings)('at stage %i with %s on the host', (stage, offloads) => {
    it.each(precisions)('trains in %s with the bits of the library’s own words', (precision) => {
      expectSame(`${stage} ${precision} with ${offloads} on the host`);
    });

    it('trains with the losses of states on the device', () => {
      const ranks = found.get(`${stage} f32 with ${offloads} on the host`) ?? expect.fail();
      const device = found.get(`${stage} f32`) ?? expect.fail();
      for (const [rank, { engine }] of ranks.entries()) {
        for (const [index, loss] of engine.entries()) {
          expect(loss).toBeCloseTo(device[rank]?.engine[index] ?? Number.NaN, 6);
        }
      }
    });
  });

  it.each([0, 3])('trains with the same bits at stage %i if updates are measured', (stage) => {
    expectSame(`measured at stage ${stage}`);
  });

  it.each([0, 3])('logs the calls of stage %i that the library’s own logger logs', (stage) => {
    expectSame(`logged at stage ${stage}`);
  });

  it('trains by 1-bit Adam with the bits of the library’s own words', () => {
    expectSame('OneBitAdam');
  });

  it('trains a pipeline with the bits of the library’s own words', () => {
    expectSame('pipeline');
  });
});
