import { fromData, LayoutError, manualSeed, nn, statistics, type Tensor } from '@shardwise/core';
import {
  collectivesOf,
  colwiseParallel,
  parallelize,
  type ParallelStyle,
  planFor,
  rowwiseParallel,
  shard,
  tensorParallel,
} from '@shardwise/strategies';
import { describeDifference } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

const [tokens, channels] = [6, 8];

/** Scales channels, and shifts all of them by one learned number. */
class Scale extends nn.Module {
  factor = new nn.Parameter(
    Float32Array.from({ length: channels }, (_, i) => 1 + i),
    [channels],
  );
  shift = new nn.Parameter(Float32Array.of(0.5), [1]);

  /** Shape: x [.., C] -> [.., C]. */
  forward(x: Tensor): Tensor {
    return x.mul(this.factor).add(this.shift);
  }
}

class Model extends nn.Module {
  readonly up = new nn.Linear(channels, channels);
  readonly scale = new Scale();
  readonly down = new nn.Linear(channels, channels);

  /** Shape: x [tokens, C] -> []. */
  forward(x: Tensor): Tensor {
    return this.down
      .forward(this.scale.forward(this.up.forward(x)))
      .square()
      .mean();
  }
}

/** A style from outside: each rank scales the channels that it has. */
const scaleStyle: ParallelStyle = {
  name: 'scaleParallel',
  kind: { sizes: () => ({ input: channels, output: channels, dtype: 'f32' }) },
  parameters: { factor: { shard: 0 }, shift: 'replicate' },
  inputs: { forward: [{ from: shard(-1), to: shard(-1) }] },
  output: { from: shard(-1), to: shard(-1) },
};
const styles = { up: colwiseParallel(), scale: scaleStyle, down: rowwiseParallel() };

const batch = (): Tensor =>
  fromData(
    Float32Array.from({ length: tokens * channels }, (_, i) => Math.sin(i)),
    [tokens, channels],
    'f32',
  );

type Gradients = Readonly<Record<string, readonly number[]>>;

async function gradientsOf(model: nn.Module, loss: Tensor): Promise<Gradients> {
  loss.backward();
  const found: Record<string, readonly number[]> = {};
  for (const [name, { grad }] of model.namedParameters()) {
    found[name] = Array.from((await grad?.data()) ?? [], Number);
  }
  return found;
}

function build(): Model {
  manualSeed(1);
  return new Model();
}

const planned = (changed: Partial<ParallelStyle>): unknown => {
  const { shape: factor } = new Scale().factor;
  const parameters = [
    { name: 'scale.factor', shape: factor, dtype: 'f32', requiresGrad: true },
    { name: 'scale.shift', shape: [1], dtype: 'f32', requiresGrad: true },
  ] as const;
  const style = { scale: { ...scaleStyle, ...changed } };
  return tensorParallel(style).plan({ parameters }, [{ name: 'tp', size: 2 }]);
};

describe('a style that is a value of its own', () => {
  it('shards its parameters, sums the gradients of those that all ranks have, and has the gradients of one rank', async () => {
    const [alone = {}] = await onRanks(1, async () => {
      const model = build();
      return gradientsOf(model, model.forward(batch()));
    });
    const axes = [{ name: 'tp', size: 2 }];
    const ranks = await onRanks(
      2,
      async () => {
        const model = build();
        const parallel = await parallelize(model, tensorParallel(styles));
        return {
          part: model.scale.factor.part.shape,
          gradients: await gradientsOf(model, parallel.forward(batch())),
        };
      },
      { axes },
    );
    for (const { part, gradients } of ranks) {
      expect(part).toEqual([channels / 2]);
      expect(Object.keys(gradients)).toEqual(Object.keys(alone));
      for (const [name, values] of Object.entries(alone)) {
        const difference = describeDifference(gradients[name] ?? [], values, {
          rtol: 1e-5,
          atol: 1e-6,
        });
        expect(difference, name).toBeUndefined();
      }
    }
  });

  it('sends what its plan lists, and nothing else', async () => {
    const counts = await onRanks(
      2,
      async () => {
        const model = build();
        const strategy = tensorParallel(styles, { tokens });
        const listed = collectivesOf(planFor(model, strategy))
          .filter(({ when }) => when !== 'start')
          .reduce((sum, { bytes }) => sum + bytes, 0);
        const parallel = await parallelize(model, strategy);
        // The first pass also compares the batches of the ranks.
        await parallel.forward(batch()).item();
        const before = statistics().collectiveBytes;
        const x = batch().requiresGrad_();
        parallel.forward(x).backward();
        await x.grad?.data();
        return { listed, sent: statistics().collectiveBytes - before };
      },
      { axes: [{ name: 'tp', size: 2 }] },
    );
    for (const { listed, sent } of counts) expect(sent).toBe(listed);
  });

  it.each<[string, Partial<ParallelStyle>, string]>([
    [
      'a name that the module has not',
      { parameters: { factor: { shard: 0 }, shfit: 'replicate' } },
      "scaleParallel() of the module 'scale', with a layout of 'shfit': the parameters factor, shift. Use a name of these, or name 'shfit' in kind.optional",
    ],
    [
      'a dim that the parameter has not',
      { parameters: { factor: { shard: 1 } } },
      "dim 1 of 'scale.factor' over 2 ranks: shape [8]",
    ],
  ])('is refused for %s', (_, changed, message) => {
    expect(() => planned(changed)).toThrow(LayoutError);
    expect(() => planned(changed)).toThrow(message);
  });

  it('may name parameters that some modules are without', () => {
    const kind = { ...scaleStyle.kind, optional: ['bias'] };
    const parameters = { ...scaleStyle.parameters, bias: 'replicate' } as const;
    expect(() => planned({ kind, parameters })).not.toThrow();
  });
});
