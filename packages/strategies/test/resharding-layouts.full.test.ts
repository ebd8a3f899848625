import { readFile } from 'node:fs/promises';
import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { checkpoints } from 'shardwise';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  initialOf,
  type LayoutName,
  layoutNames,
  ranksOf,
  trainAlone,
  halfOn,
  runHalf,
} from './layout-resharding.ts';
import { largestDifference, secondHalves } from './resharding.ts';
import { testMs } from './time-limits.ts';

// The other layouts are each saved and loaded once here. The slow test has all combinations, and the layouts in this
// list.
const slow: readonly LayoutName[] = [
  'TP × ZeroRedundancyOptimizer',
  'TP × ZeRO-2',
  'PP in a V',
  'PP × DDP',
  'PP × ZeRO-2',
  'PP × ZeRO-3',
  'TP × PP',
  '2.5D',
];
const quick = layoutNames.filter((name) => ranksOf(name) <= 4 && !slow.includes(name));
const stride = 4;
const pairs = quick.map((saved, index): readonly [LayoutName, LayoutName] => [
  saved,
  quick[(index + stride) % quick.length] ?? saved,
]);

describe('a training that is saved in one layout and continued in another', () => {
  let alone: readonly number[] = [];
  let losses: readonly (readonly number[])[] = [];
  const exported = new Map<LayoutName, Buffer>();

  beforeAll(async () => {
    setRank({ device: await cpu() });
    alone = await trainAlone();
    const found = await secondHalves(
      runHalf,
      pairs.map(([saved, loaded]) => ({ saved: halfOn(saved), loaded: halfOn(loaded) })),
    );
    losses = found.losses;
    for (const layout of quick) {
      const folder = initialOf(found.folderOf(halfOn(layout)));
      const path = `${folder}.safetensors`;
      await checkpoints.exportModel(folder, path);
      exported.set(layout, await readFile(path));
    }
  }, testMs);

  it.each(pairs.map(([saved, loaded], index) => ({ saved, loaded, index })))(
    'goes on as one rank does: $saved, then $loaded',
    ({ index }) => expect(largestDifference(losses[index] ?? [], alone)).toBeLessThan(1e-5),
  );

  it.each(quick)('is exported byte for byte as an uncut model is: %s', (layout) => {
    const whole = exported.get('one rank');
    expect(whole?.byteLength).toBeGreaterThan(0);
    expect(whole?.equals(exported.get(layout) ?? Buffer.of())).toBe(true);
  });
});
