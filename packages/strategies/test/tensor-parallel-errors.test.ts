import { cpu } from '@shardwise/backend-cpu';
import { createMesh, createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import {
  ConfigError,
  LayoutError,
  ones,
  setRank,
  ShapeError,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  headParallel,
  parallelize,
  redistributeOver,
  rowwiseParallel,
  shard,
  type StylePlan,
  tensorParallel,
  vocabParallelEmbedding,
} from '@shardwise/strategies';
import { beforeAll, describe, expect, it } from 'vitest';
import { TiedGpt, tiedStyles } from './ranks/tensor-parallel-models.ts';

beforeAll(async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  const axes = ['dp', 'tp'].map((name) => ({ name, size: 1 }));
  setRank({ device: await cpu(), mesh: await createMesh(group, axes) });
});

describe('styles that a model does not fit', () => {
  it.each<[string, StylePlan, RegExp]>([
    [
      'colwiseParallel of an Embedding',
      { tokens: colwiseParallel() },
      /colwiseParallel\(\) of the module 'tokens': a Embedding, and the style is for Linear\. Use a style for modules of this kind/,
    ],
    [
      'rowwiseParallel of an Embedding',
      { positions: rowwiseParallel() },
      /rowwiseParallel\(\) of the module 'positions': a Embedding, and the style is for Linear/,
    ],
    [
      'vocabParallelEmbedding of a Linear',
      { 'blocks.*.up': vocabParallelEmbedding() },
      /vocabParallelEmbedding\(\) of the module 'blocks\.0\.up': a Linear, and the style is for Embedding/,
    ],
    [
      'other heads than the module was built with',
      { 'blocks.*.attention': headParallel({ numHeads: 4, keyHeads: 2 }) },
      /headParallel\(\) of 'blocks\.0\.attention' with 4 heads over 2 key heads: a module of 8 heads over 4 key heads\. Give the numbers of heads/,
    ],
    [
      'a pattern that names no module',
      { 'layers.*.up': colwiseParallel() },
      /colwiseParallel\(\) of 'layers\.\*\.up': no module of this name; there are tokens, positions.*Name modules of the model/,
    ],
  ])('are refused, leaving the model as it was: %s', async (_, styles, message) => {
    const model = new TiedGpt();
    const before = model.parameters();
    // The valid styles come first.
    const all = { ...tiedStyles, ...styles };
    const refused = parallelize(model, tensorParallel(all));
    await expect(refused).rejects.toThrow(LayoutError);
    await expect(refused).rejects.toThrow(message);
    expect(model.parameters()).toEqual(before);
    await parallelize(model, tensorParallel(tiedStyles));
    expect(model.parameters().filter((parameter) => before.includes(parameter))).not.toEqual(
      before,
    );
  });
});

it('a padding index behind the vocabulary is refused, as the whole Embedding refuses it', async () => {
  const model = new TiedGpt();
  Reflect.set(model.tokens, 'paddingIdx', 24);
  expect(() => model.tokens.forward(ones([2]).to('i32'))).toThrow(/paddingIdx: 24/);
  const refused = parallelize(model, tensorParallel(tiedStyles));
  await expect(refused).rejects.toThrow(ConfigError);
  await expect(refused).rejects.toThrow(
    /vocabParallelEmbedding\(\) of 'tokens' with paddingIdx: 24: a value that is not a whole number from 0 to 23/,
  );
});

describe('an activation', () => {
  it.each([2, -3])('of two dims is not sharded along dim %i', (dim) => {
    const x = ones([2, 3]);
    for (const [from, to] of [
      ['invariant', shard(dim)],
      [shard(dim), 'invariant'],
    ] as const) {
      const change = (): Tensor => redistributeOver(x, 'tp', from, to);
      expect(change).toThrow(ShapeError);
      expect(change).toThrow(
        `an activation sharded over 'tp' along dim ${dim}: a tensor of 2 dims. Use a dim from -2 to 1`,
      );
    }
  });
});

describe('a model that was cut before', () => {
  const first: Readonly<Record<string, () => Strategy>> = {
    fsdp: () => fsdp(),
    'tensor parallelism': () => tensorParallel(tiedStyles),
    'tensor parallelism and DDP': () => compose(tensorParallel(tiedStyles), ddp()),
  };

  it.each(Object.keys(first))('is refused by tensor parallelism after %s', async (name) => {
    const model = new TiedGpt();
    await parallelize(model, first[name]?.() ?? fsdp());
    const refused = parallelize(model, tensorParallel(tiedStyles));
    await expect(refused).rejects.toThrow(ConfigError);
    await expect(refused).rejects.toThrow(
      /tensor parallelism of 'tokens\.weight' of shape \[24, 16\]: a strategy was applied to this model before: this rank has a part of shape \[24, 16\], sharded over '\w+'\. Apply tensor parallelism first, once/,
    );
  });
});
