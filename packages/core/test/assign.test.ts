import { cpu } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SGD } from '../src/optim/sgd.ts';
import { setRank } from '../src/rank.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

const devices = { interpreter: async () => interpreter(), cpu: () => cpu() };

function vector(values: readonly number[]): Tensor {
  return fromData(Float32Array.from(values), [values.length], 'f32').makeResident();
}

async function numbers(x: Tensor): Promise<number[]> {
  return Array.from(await x.data(), Number);
}

/** One statement of a random program over some numbered leaves. */
type Line =
  | { readonly kind: 'copy'; readonly to: number; readonly from: number }
  | { readonly kind: 'add'; readonly to: number; readonly from: number }
  | { readonly kind: 'keep'; readonly from: number }
  | { readonly kind: 'realize' };

const leafCount = 4;
const leaf = fc.nat(leafCount - 1);
const line: fc.Arbitrary<Line> = fc.oneof(
  fc.record({ kind: fc.constant('copy' as const), to: leaf, from: leaf }),
  fc.record({ kind: fc.constant('add' as const), to: leaf, from: leaf }),
  fc.record({ kind: fc.constant('keep' as const), from: leaf }),
  fc.record({ kind: fc.constant('realize' as const) }),
);

/** Computes what the program means: each line takes effect before the next one. */
function eager(program: readonly Line[]): number[][] {
  const leaves = initial();
  const kept: number[][] = [];
  for (const each of program) {
    if (each.kind === 'realize') continue;
    const from = [...(leaves[each.from] ?? [])];
    if (each.kind === 'keep') kept.push(from);
    else if (each.kind === 'copy') leaves[each.to] = from;
    else leaves[each.to] = (leaves[each.to] ?? []).map((value, i) => value + (from[i] ?? 0));
  }
  return [...leaves, ...kept];
}

function initial(): number[][] {
  return Array.from({ length: leafCount }, (_, i) => [i + 1, 10 * (i + 1)]);
}

async function lazy(program: readonly Line[]): Promise<number[][]> {
  const leaves = initial().map(vector);
  const kept: Tensor[] = [];
  for (const each of program) {
    if (each.kind === 'realize') {
      await tensor(0).add(1).item();
      continue;
    }
    const from = leaves[each.from] as Tensor;
    if (each.kind === 'keep') kept.push(from.detach().retain());
    else {
      const to = leaves[each.to] as Tensor;
      to.assign(each.kind === 'copy' ? from : to.add(from));
    }
  }
  const found: number[][] = [];
  for (const each of [...leaves, ...kept]) found.push(await numbers(each));
  return found;
}

describe.each(Object.entries(devices))('assignments on the %s', (_, device) => {
  it('take effect in the order in which they are written (random programs)', async () => {
    setRank({ device: await device() });
    const property = fc.asyncProperty(fc.array(line, { maxLength: 12 }), async (program) => {
      expect(await lazy(program)).toEqual(eager(program));
    });
    await fc.assert(property, { numRuns: 200 });
  });

  it('of one leaf to another mean its contents then, not after an optimizer’s step of the same run', async () => {
    setRank({ device: await device() });
    const [target, online] = [vector([0, 0]), vector([1, 2]).requiresGrad_()];
    const optimizer = new SGD([online], { lr: 1 });
    online.square().sum().backward();
    target.assign(online);
    await optimizer.step();
    expect(await numbers(target)).toEqual([1, 2]);
    expect(await numbers(online)).toEqual([-1, -2]);
  });

  it('swap two leaves', async () => {
    setRank({ device: await device() });
    const [a, b] = [vector([1, 2]), vector([3, 4])];
    const before = a.detach();
    a.assign(b);
    b.assign(before);
    expect([await numbers(a), await numbers(b)]).toEqual([
      [3, 4],
      [1, 2],
    ]);
  });

  it('leave a detached copy as it was, also one that was computed before', async () => {
    setRank({ device: await device() });
    const weight = vector([1, 2]);
    const [early, late] = [await weight.detach().realize(), weight.detach()];
    weight.assign(weight.mul(2));
    await weight.realize();
    expect([await numbers(early), await numbers(late)]).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });
});
