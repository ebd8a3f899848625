import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  type DeepSpeedTask,
  offloadings,
  type Outcome,
  outcomes,
  precisions,
  stages,
} from './ranks/deepspeed.ts';

const RANKS = 2;
const timeoutMs = 240_000;
const found = new Map<string, readonly Outcome[]>();

async function run(data: DeepSpeedTask): Promise<void> {
  const world = createThreadsWorld({ size: RANKS, arenaBytes: 32 * 1024 * 1024 });
  const url = new URL('./ranks/deepspeed.ts', import.meta.url);
  const answers = await spawnRanks(RANKS, url, { world, data, timeoutMs });
  const ranks = z.array(outcomes).length(RANKS).parse(answers);
  for (const name of Object.keys(ranks[0] ?? {})) {
    found.set(
      name,
      ranks.map((rank) => rank[name] ?? expect.fail(name)),
    );
  }
}

beforeAll(async () => {
  await run({
    axes: [{ name: 'dp', size: 2 }],
    parts: ['compare', 'offload', 'measured', 'logged', 'oneBit'],
  });
  const axes = [
    { name: 'pp', size: 2 },
    { name: 'dp', size: 1 },
  ];
  await run({ axes, parts: ['inStages'] });
}, timeoutMs);

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
