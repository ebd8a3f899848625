import { fromData, LayoutError, type Mesh, nn, noGrad, stack, type Tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  type ActivationLayout,
  collectivesOfMove,
  countCollectives,
  moveOver,
  type ParallelStyle,
  prepareModuleInput,
  prepareModuleOutput,
  redistributeOver,
  shard,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import { installStyle } from '../src/tensor-parallel/install-style.ts';
import { axesOf, sumOverRanks, values } from './ranks/distributed-tensor-values.ts';

/** A redistribution along one axis. */
interface Change {
  readonly axis: string;
  readonly from: ActivationLayout;
  readonly to: ActivationLayout;
}

interface Case {
  readonly name: string;
  /** The changes are carried out in order, one for each axis of the mesh. */
  readonly changes: readonly Change[];
  readonly build: (x: Tensor) => Tensor;
}

const layouts: readonly ActivationLayout[] = [
  'invariant',
  'replicate',
  'partial',
  shard(0),
  shard(-1),
];
const wholeShape: readonly number[] = [4, 8];

function casesOfOneAxis(axis: string): Case[] {
  return changesOf(axis).map((change) => ({
    name: nameOf([change]),
    changes: [change],
    build: (x) => redistributeOver(x, axis, change.from, change.to),
  }));
}

/** Combines changes of a module's input along one axis with changes of its output along the other. */
function casesOfTwoAxes([first = '', second = '']: readonly string[]): Case[] {
  const outputs = changesOf(second);
  return changesOf(first).flatMap((input, index) => {
    const output = outputs[(index + 4) % outputs.length];
    if (output === undefined) return [];
    return {
      name: nameOf([input, output]),
      changes: [input, output],
      build: (x: Tensor) =>
        around(x, [
          [prepareModuleOutput({ from: output.from, to: output.to }), second],
          [prepareModuleInput({ from: input.from, to: input.to }), first],
        ]),
    };
  });
}

/** Returns all existing changes of layout. */
function changesOf(axis: string): Change[] {
  return layouts.flatMap((from) =>
    layouts
      .filter((to) => from !== to && exists(from, to))
      .map((to): Change => ({ axis, from, to })),
  );
}

function exists(from: ActivationLayout, to: ActivationLayout): boolean {
  try {
    collectivesOfMove(moveOver('tp', from, to));
    return true;
  } catch (error) {
    if (error instanceof LayoutError) return false;
    throw error;
  }
}

class Double extends nn.Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.mul(2);
  }
}

function around(x: Tensor, styles: readonly (readonly [ParallelStyle, string])[]): Tensor {
  const module = new Double();
  for (const [style, axis] of styles) {
    const { size, rank } = currentSession().mesh.group(axis);
    installStyle(style, module, { axis, size, rank }, 'double');
  }
  return module.forward(x);
}

/**
 * Expects that the directional derivative by autograd is that of central differences, and that the collectives run that
 * the plan of each change names, and no others.
 */
async function expectExact({ name, changes, build }: Case, { group }: RankInThread): Promise<void> {
  const { mesh } = currentSession();
  const shape = changes.reduce<readonly number[]>(
    (sizes, { axis, from }) => partShape(sizes, axis, from),
    wholeShape,
  );
  const count = shape.reduce((product, size) => product * size, 1);
  const place = placeOf(changes, mesh, ({ from }) => isAlike(from));
  const base = values(count, 10 + place);
  const direction = values(count, 1000 + place);
  const weightSeed = 3 + placeOf(changes, mesh, ({ to }) => to === 'invariant');

  /** Computes this rank's term of the loss. If the result is the same on all ranks, so is this term. */
  const loss = (x: Tensor): Tensor => {
    const y = build(x);
    const weights = fromData(values(y.numel, weightSeed), y.shape, 'f32');
    // If the result is one term of a partial sum, the loss must be linear, so that the losses of the terms add up to
    // that of the sum.
    const isTerm = changes.some(({ to }) => to === 'partial');
    return (isTerm ? y : y.add(y.mul(y).mul(0.3))).mul(weights).sum();
  };
  const moved = (step: number): Tensor => {
    const x = Float32Array.from(base, (value, index) => value + step * (direction[index] ?? 0));
    return noGrad(() => loss(fromData(x, shape, 'f32')));
  };
  const step = 1e-2;
  let sides: readonly (number | bigint)[] = [];
  const inForward = await countCollectives(async () => {
    sides = [...(await stack([moved(step), moved(-step)]).data())];
  });
  const x = fromData(base, shape, 'f32').requiresGrad_();
  let gradient: readonly number[] = [];
  const inAll = await countCollectives(async () => {
    loss(x).backward();
    gradient = await valuesOf(x.grad ?? expect.fail('no gradient'));
  });
  const [ahead = 0, behind = 0] = sides.map(Number);
  const along = direction.reduce((sum, value, i) => sum + value * (gradient[i] ?? NaN), 0);
  const terms = [
    along / copies(changes, mesh, ({ from }) => from === 'invariant'),
    (ahead - behind) / (2 * step) / copies(changes, mesh, ({ to }) => to === 'invariant'),
  ];
  const [analytic = NaN, numeric = NaN] = await sumOverRanks(terms, group);
  const error = Math.abs(analytic - numeric) / Math.max(1, Math.abs(numeric));
  expect(error, `${name}: ${analytic} and ${numeric}`).toBeLessThan(2e-3);
  const promised = changes.map(({ from, to }) => collectivesOfMove(moveOver('tp', from, to)));
  const present = (names: readonly (string | null)[]): string[] =>
    names.filter((each) => each !== null).toSorted();
  expect(namesOf(inForward, 2), name).toEqual(present(promised.map(({ forward }) => forward)));
  expect(namesOf(inAll, 1), name).toEqual(
    present(promised.flatMap(({ forward, backward }) => [forward, backward])),
  );
}

/** Lists the collectives of one pass by name. A name occurs once for each time that the collective ran. */
function namesOf(found: Readonly<Record<string, number>>, passes: number): string[] {
  return Object.entries(found)
    .flatMap(([name, times]) => Array.from({ length: times / passes }, () => name))
    .toSorted();
}

function isAlike(layout: ActivationLayout): boolean {
  return layout === 'invariant' || layout === 'replicate';
}

/** Returns a number that is the same for ranks at the same coordinates of the axes for which `isSame` is false. */
function placeOf(
  changes: readonly Change[],
  mesh: Mesh,
  isSame: (change: Change) => boolean,
): number {
  return changes.reduce(
    (place, change) => place * 7 + (isSame(change) ? 0 : mesh.coordinate(change.axis) + 1),
    1,
  );
}

function copies(
  changes: readonly Change[],
  mesh: Mesh,
  isOne: (change: Change) => boolean,
): number {
  return changes.filter(isOne).reduce((product, { axis }) => product * mesh.group(axis).size, 1);
}

function partShape(
  shape: readonly number[],
  axis: string,
  layout: ActivationLayout,
): readonly number[] {
  if (typeof layout === 'string') return shape;
  const dim = layout.shard < 0 ? layout.shard + shape.length : layout.shard;
  return shape.with(dim, (shape[dim] ?? 0) / currentSession().mesh.group(axis).size);
}

function nameOf(changes: readonly Change[]): string {
  return changes
    .map(({ axis, from, to }) => `${axis}: ${JSON.stringify(from)} to ${JSON.stringify(to)}`)
    .join(', ');
}

/** The layout of an activation changes. On 2 x 2 ranks, it changes once along each axis. */
describe.each([2, 4])('redistributions of an activation on %i ranks', (size) => {
  const axes = axesOf(size);
  const names = axes.map(({ name }) => name);
  const cases = names.length === 1 ? casesOfOneAxis(names[0] ?? '') : casesOfTwoAxes(names);

  it('have the derivatives of what they compute as gradients, and run the collectives that their plans name', async () => {
    expect(cases).toHaveLength(16);
    await onRanks(
      size,
      async (rank) => {
        for (const each of cases) await expectExact(each, rank);
      },
      { axes },
    );
  });
});
