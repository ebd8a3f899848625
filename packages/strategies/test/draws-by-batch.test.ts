import { createMesh } from '@shardwise/collectives';
import {
  manualSeed,
  type MeshAxis,
  nn,
  noGrad,
  ones,
  rand,
  randnLike,
  randomState,
  setRandomState,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { checkpoint } from '@shardwise/core/extend';
import {
  applyPlan,
  compose,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  planFor,
  sequenceParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

type Numbers = number[];

/** What this rank draws in the forward pass of a model. All ranks have the seed 1. */
interface Drawn {
  /** Of a dropout, of one in a sequence-parallel layer if there are some, and of a randn. */
  whole: Numbers;
  parts: Numbers;
  noise: Numbers;
  /** The first number that the default generator gives after the pass. */
  after: number;
}

interface Found {
  alone: Drawn;
  byStrategy: Record<string, Drawn>;
  /** The same pass from the same seed, called in another way. */
  again: Record<string, Numbers>;
  /** The results of passes with a checkpoint, and the gradients of their inputs. */
  recomputed: {
    output: Numbers;
    gradient: Numbers;
  }[];
  /** The loss of a pipeline, which drops elements of its output. */
  loss: number;
}

class Drops extends nn.Module {
  readonly weight = new nn.Parameter(new Float32Array(64).fill(1), [64]);
  readonly whole = new nn.Dropout(0.5);
  readonly parts = new nn.Dropout(0.5);

  /** Shape: x N -> N, N, N. */
  forward(x: Tensor): readonly [whole: Tensor, parts: Tensor, noise: Tensor] {
    const y = x.mul(this.weight);
    return [this.whole.forward(y), this.parts.forward(x), randnLike(x)];
  }
}

/** Its backward pass computes the dropout again. */
class Checkpointed extends nn.Module {
  readonly weight = new nn.Parameter(new Float32Array(64).fill(1), [64]);

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return checkpoint(() => nn.functional.dropout(x.mul(this.weight), 0.5));
  }
}

class TwoLayers extends nn.Module {
  readonly first = new nn.Linear(4, 4);
  readonly second = new nn.Linear(4, 64);

  /** Shape: x [B, 4] -> [B, 64]. */
  forward(x: Tensor): Tensor {
    return this.second.forward(this.first.forward(x));
  }
}

async function listOf(tensor: Tensor): Promise<number[]> {
  return Array.from(await tensor.data(), Number);
}

async function drawsOf(model: {
  forward(x: Tensor): ReturnType<Drops['forward']>;
}): Promise<Drawn> {
  manualSeed(1);
  const [whole, parts, noise] = model.forward(ones([64]));
  return {
    whole: await listOf(whole),
    parts: await listOf(parts),
    noise: await listOf(noise),
    after: await rand([1]).item(),
  };
}

async function otherCalls(): Promise<Record<string, number[]>> {
  const parallel = await parallelize(new Drops(), ddp());
  const { module } = parallel;
  const wholeOf = async (pass: () => ReturnType<Drops['forward']>): Promise<number[]> => {
    manualSeed(1);
    return listOf(pass()[0]);
  };
  const x = ones([64]);
  const state = await (async () => {
    manualSeed(1);
    parallel.forward(x);
    return randomState();
  })();
  const second = parallel.forward(x)[0];
  const saved = await listOf(second);
  setRandomState(JSON.parse(JSON.stringify(state)));
  const resumed = await listOf(parallel.forward(x)[0]);
  const calls = {
    module: await wholeOf(() => module.forward(x)),
    noSync: await wholeOf(() => parallel.noSync(() => parallel.forward(x))),
    noGrad: await wholeOf(() => noGrad(() => parallel.forward(x))),
    outside: await wholeOf(() => [nn.functional.dropout(x), x, x]),
    saved,
    resumed,
  };
  module.eval();
  const evaluated = await wholeOf(() => parallel.forward(x));
  module.train();
  parallel.detach();
  return { ...calls, evaluated, detached: await wholeOf(() => module.forward(x)) };
}

async function recomputed(strategy: Strategy): Promise<{ output: number[]; gradient: number[] }> {
  const parallel = await parallelize(new Checkpointed(), strategy);
  manualSeed(1);
  const x = ones([64]).requiresGrad_();
  const output = parallel.forward(x);
  output.sum().backward();
  if (x.grad === null) throw new TypeError('backward has left no gradient');
  return { output: await listOf(output), gradient: await listOf(x.grad) };
}

async function lossInStages(): Promise<number> {
  const stages = pipeline({
    axis: 'tp',
    microbatches: 2,
    cut: ['second'],
    loss: (output: Tensor) => nn.functional.dropout(output, 0.5).square().sum(),
  });
  const parallel = await parallelize(new TwoLayers(), compose(stages, ddp()));
  manualSeed(1);
  const loss = parallel.forward(ones([2, 4]));
  loss.backward();
  return loss.item();
}

/** Returns what a rank draws, with four ranks on one axis, and as 2 x 2. */
async function observe({ group, device }: RankInThread): Promise<Found> {
  const arrange = async (axes: readonly MeshAxis[]): Promise<void> => {
    setRank({ device, mesh: await createMesh(group, axes) });
  };
  const byStrategy: Record<string, Drawn> = {};
  const draw = async (name: string, strategy: Strategy, sharesDraws?: boolean): Promise<void> => {
    const model = new Drops();
    const plan = planFor(model, strategy);
    const parallel = await applyPlan(
      sharesDraws === undefined ? plan : { ...plan, sharesDraws },
      model,
    );
    byStrategy[name] = await drawsOf(parallel);
  };
  await arrange([{ name: 'dp', size: 4 }]);
  const alone = await drawsOf(new Drops());
  await draw('ddp', ddp());
  await draw('zero', zero({ stage: 2 }));
  await draw('fsdp', fsdp());
  await draw('shared', ddp(), true);
  await draw('tensorParallel', tensorParallel({}, { axis: 'dp' }));
  const again = await otherCalls();
  await arrange([
    { name: 'dp', size: 2 },
    { name: 'tp', size: 2 },
  ]);
  const parts = { parts: sequenceParallel({ dim: 0 }) };
  await draw('tensor and data parallel', compose(tensorParallel(parts), ddp()));
  await draw('hybrid sharding', fsdp({ axis: 'tp', replicas: 'dp' }));
  const checkpoints = [await recomputed(ddp()), await recomputed(fsdp())];
  const loss = await lossInStages();
  await arrange([
    { name: 'dp', size: 1 },
    { name: 'tp', size: 4 },
  ]);
  await draw('an axis of one rank', ddp());
  return { alone, byStrategy, again, recomputed: checkpoints, loss };
}

/** Returns how many of the lists differ from each other. */
function kinds(lists: readonly unknown[]): number {
  return new Set(lists.map((list) => JSON.stringify(list))).size;
}

describe('four ranks with the same seed', () => {
  let ranks: readonly Found[] = [];

  beforeAll(async () => {
    ranks = await onRanks(4, observe);
  });

  const drawsOf = (name: string) =>
    ranks.map(({ byStrategy }) => {
      const { [name]: own } = byStrategy;
      if (own === undefined) throw new RangeError(name);
      return own;
    });

  it.each(['ddp', 'zero', 'fsdp', 'hybrid sharding'])(
    'drop other elements of each part of the batch, and draw other noise, with %s',
    (name) => {
      const draws = drawsOf(name);
      expect(kinds(draws.map(({ whole }) => whole))).toBe(4);
      expect(kinds(draws.map(({ parts }) => parts))).toBe(4);
      expect(kinds(draws.map(({ noise }) => noise))).toBe(4);
      for (const { whole, noise } of draws) {
        const kept = whole.filter((value) => value === 2).length;
        expect(whole.filter((value) => value === 0)).toHaveLength(64 - kept);
        expect(kept).toBeGreaterThan(16);
        expect(kept).toBeLessThan(48);
        expect(new Set(noise).size).toBe(64);
      }
    },
  );

  it('four ranks with the same seed draw the same numbers for a part of the batch, however ranks are arranged in axes', () => {
    expect(drawsOf('hybrid sharding').map(({ whole }) => whole)).toEqual(
      drawsOf('fsdp').map(({ whole }) => whole),
    );
  });

  it('four ranks with the same seed draw the same for what ranks of tensor parallelism share, and not for other rows or parts', () => {
    const [a, b, c, d] = drawsOf('tensor and data parallel');
    expect(a?.whole).toEqual(b?.whole);
    expect(c?.whole).toEqual(d?.whole);
    expect(a?.noise).toEqual(b?.noise);
    expect(c?.noise).toEqual(d?.noise);
    expect(a?.whole).not.toEqual(c?.whole);
    expect(a?.noise).not.toEqual(c?.noise);
    expect(kinds([a, b, c, d].map((own) => own?.parts))).toBe(4);
  });

  it.each(['shared', 'tensorParallel', 'an axis of one rank'])(
    'draw what one rank draws if they share draws, or have one batch: %s',
    (name) => {
      drawsOf(name).forEach((own, rank) => expect(own).toEqual(ranks[rank]?.alone));
      expect(kinds(drawsOf(name))).toBe(1);
    },
  );

  it('four ranks with the same seed have the default generator in the same state after a pass, for initial values', () => {
    expect(kinds(drawsOf('ddp').map(({ after }) => after))).toBe(1);
  });

  it('four ranks with the same seed draw the same in calls of the module, in noSync and without gradients, and from a saved state', () => {
    for (const { again, byStrategy } of ranks) {
      for (const call of ['module', 'noSync', 'noGrad']) {
        expect(again[call], call).toEqual(byStrategy['ddp']?.whole);
      }
      expect(again['resumed']).toEqual(again['saved']);
      expect(again['saved']).not.toEqual(again['module']);
      expect(new Set(again['evaluated'])).toEqual(new Set([1]));
    }
  });

  it('four ranks with the same seed draw what one rank draws outside of the passes of a parallel model, and after detach()', () => {
    for (const { again, alone } of ranks) {
      expect(again['outside']).toEqual(alone.whole);
      expect(again['detached']).toEqual(alone.whole);
    }
  });

  it('four ranks with the same seed draw the same again where the backward pass computes a part of the forward pass again', () => {
    for (const { recomputed } of ranks) {
      expect(recomputed).toHaveLength(2);
      for (const { output, gradient } of recomputed) expect(gradient).toEqual(output);
    }
    expect(kinds(ranks.map(({ recomputed }) => recomputed[0]?.output))).toBe(2);
  });

  it('four ranks with the same seed draw different numbers in the loss of a pipeline for each of its batches', () => {
    const [a, b, c, d] = ranks.map(({ loss }) => loss);
    expect(a).toBe(b);
    expect(c).toBe(d);
    expect(a).not.toBe(c);
  });
});
