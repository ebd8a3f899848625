import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { type MeshAxis, setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { adapters, cases, type LoraTask, type Outcome, outcomes, train } from './ranks/lora.ts';

const alone = new Map<string, Outcome>();
const found = new Map<string, readonly (Outcome | string | undefined)[]>();
const dtypes = ['f32', 'bf16'] as const;
const timeoutMs = 900_000;

const casesOfTwo = Object.entries(cases).filter(([, { axes }]) => axes.length === 1);
/** Cases of bases in fewer bits. DoRA and the other strategies compute with them in the same way. */
const inFewerBits = ['DDP', 'FSDP', 'tensor parallelism', 'a pipeline'];
/** Cases of a base in blocks of 4 bits, by the axes of their meshes. */
const inBlocks = {
  dp: ['DDP', 'ZeRO-3', 'FSDP'],
  tp: ['tensor parallelism'],
  pp: ['a pipeline'],
  'dp × tp': ['tensor parallelism beside FSDP'],
};
const casesOfFour = Object.entries(cases).filter(([, { axes }]) => axes.length === 2);

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (const dtype of dtypes) {
    for (const [adapter, options] of Object.entries(adapters)) {
      alone.set(`${adapter} ${dtype}`, await train({ options, dtype, shares: 1, place: 0 }));
    }
    for (const axis of ['dp', 'tp', 'pp']) {
      const names = casesOfTwo.flatMap(([name, { axes }]) =>
        axes.includes(axis) && (dtype === 'f32' || inFewerBits.includes(name)) ? name : [],
      );
      await trainOnRanks({ axes: [{ name: axis, size: 2 }], names, dtype });
    }
  }
  for (const [adapter, options] of Object.entries(adapters)) {
    alone.set(`${adapter} nf4`, await train({ options, dtype: 'nf4', shares: 1, place: 0 }));
  }
  for (const [axis, names] of Object.entries(inBlocks)) {
    const axes = axis.split(' × ').map((name) => ({ name, size: 2 }));
    await trainOnRanks({ axes, names, dtype: 'nf4' });
  }
  for (const [name, { axes }] of casesOfFour) {
    const mesh = axes.map((axis) => ({ name: axis, size: 2 }));
    await trainOnRanks({ axes: mesh, names: [name], dtype: 'f32' });
  }
}, timeoutMs);

async function trainOnRanks(data: LoraTask): Promise<void> {
  const size = data.axes.reduce((product, axis: MeshAxis) => product * axis.size, 1);
  const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
  const options = { world, data, timeoutMs };
  const url = new URL('./ranks/lora.ts', import.meta.url);
  const ranks = z
    .array(outcomes)
    .length(size)
    .parse(await spawnRanks(size, url, options));
  for (const key of Object.keys(ranks[0] ?? {})) {
    found.set(
      `${key} ${data.dtype}`,
      ranks.map((rank) => rank[key]),
    );
  }
}

function outcomesOf(name: string, adapter: string, dtype: string): readonly Outcome[] {
  const ranks = found.get(`${adapter} under ${name} ${dtype}`) ?? [];
  expect(ranks).not.toHaveLength(0);
  return ranks.map((each) =>
    typeof each === 'object' ? each : expect.fail(`${name}: ${each ?? 'nothing'}`),
  );
}

describe.each([...dtypes, 'nf4'] as const)('adapters of a frozen base in %s', (dtype) => {
  const all = dtype === 'f32' ? [...casesOfTwo, ...casesOfFour].map(([name]) => name) : inFewerBits;
  const names = dtype === 'nf4' ? Object.values(inBlocks).flat() : all;

  describe.each(Object.keys(adapters))('%s', (adapter) => {
    it.each(names)('trains under %s as on one rank', (name) => {
      const expected = alone.get(`${adapter} ${dtype}`) ?? expect.fail();
      const digits = dtype === 'bf16' ? 1 : 4;
      for (const rank of outcomesOf(name, adapter, dtype)) {
        for (const [step, loss] of expected.losses.entries()) {
          expect(rank.losses[step], `step ${step}`).toBeCloseTo(loss, digits);
        }
        expect(rank.mergedLoss).toBeCloseTo(expected.mergedLoss, digits);
        expect(rank.unmergedLoss).toBeCloseTo(expected.unmergedLoss, digits);
        expect(rank.loadedLoss).toBeCloseTo(rank.unmergedLoss, 6);
        expect(rank.forgottenLoss).toBeCloseTo(expected.forgottenLoss, digits);
        expect(Math.abs(rank.forgottenLoss - rank.loadedLoss)).toBeGreaterThan(0.02);
        expect(rank.changed).toEqual([]);
        expect(Object.keys(rank.trained)).toEqual(Object.keys(expected.trained));
        for (const [parameter, values] of Object.entries(expected.trained)) {
          for (const [index, value] of values.entries()) {
            expect(rank.trained[parameter]?.[index], parameter).toBeCloseTo(value, digits);
          }
        }
      }
    });

    it.each(names)('keeps gradients and states under %s of the adapters only', (name) => {
      for (const { gradientBytes, optimizerBytes, trainedBytes } of outcomesOf(
        name,
        adapter,
        dtype,
      )) {
        expect(optimizerBytes).toBe(trainedBytes);
        expect(gradientBytes).toBeGreaterThanOrEqual(trainedBytes);
        expect(gradientBytes).toBeLessThanOrEqual(trainedBytes * 2);
      }
    });
  });
});
