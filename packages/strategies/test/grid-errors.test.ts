import { cpu } from '@shardwise/backend-cpu';
import { createGroup, createLoopbackTransports, createMesh } from '@shardwise/collectives';
import { LayoutError, type MeshAxis, nn, setRank, type Strategy } from '@shardwise/core';
import {
  ddp,
  fsdp,
  GridEmbedding,
  GridLinear,
  parallelize,
  threeDimensional,
  twoAndAHalfDimensional,
  twoDimensional,
  zero,
} from '@shardwise/strategies';
import { beforeEach, describe, expect, it } from 'vitest';
import { GridAttention } from '../src/tensor-parallel/multi-dimensional/grid-attention.ts';

/** Makes this thread rank 0 of a mesh. No case here gets as far as a collective. */
async function onMesh(axes: readonly MeshAxis[]): Promise<void> {
  const size = axes.reduce((product, axis) => product * axis.size, 1);
  const groups = createLoopbackTransports(size).map((transport) => createGroup(transport));
  const [mesh] = await Promise.all(groups.map((group) => createMesh(group, axes)));
  if (mesh === undefined) throw new RangeError('a mesh without ranks');
  setRank({ device: await cpu(), mesh });
}

describe('layers that a 2 × 2 grid does not divide', () => {
  beforeEach(() =>
    onMesh([
      { name: 'row', size: 2 },
      { name: 'column', size: 2 },
    ]),
  );

  it.each<[string, () => Promise<unknown>, string]>([
    [
      'output features',
      () => GridLinear.from(new nn.Linear(6, 5), twoDimensional()),
      'dim 0 of a tensor of shape [5, 6] over the axes column: 5 for 2 ranks. Make it a multiple of 2',
    ],
    [
      'input features',
      () => GridLinear.from(new nn.Linear(7, 4), twoDimensional()),
      'dim 1 of a tensor of shape [4, 7] over the axes row: 7 for 2 ranks. Make it a multiple of 2',
    ],
    [
      'a vocabulary',
      () => GridEmbedding.from(new nn.Embedding(9, 4), twoDimensional()),
      'dim 0 of a tensor of shape [9, 4] over the axes row: 9 for 2 ranks. Make it a multiple of 2',
    ],
    [
      'heads',
      () => GridAttention.from(new nn.MultiheadAttention(6, 3), twoDimensional()),
      'attention of 3 heads over 3 key heads on a 2D grid: 2 ranks divide the heads. Use as many key heads as heads, and a multiple of 2',
    ],
    [
      'heads that share keys',
      () => GridAttention.from(new nn.MultiheadAttention(8, 4, { keyHeads: 2 }), twoDimensional()),
      'attention of 4 heads over 2 key heads on a 2D grid: 2 ranks divide the heads. Use as many',
    ],
  ])('are refused with the numbers: %s', async (_, make, message) => {
    await expect(make()).rejects.toThrow(LayoutError);
    await expect(make()).rejects.toThrow(message);
  });
});

describe('a mesh whose axes are no grid', () => {
  it('a mesh whose axes are no grid is refused by the 2D and the 2.5D grid where rows and columns differ', async () => {
    await onMesh([
      { name: 'depth', size: 1 },
      { name: 'row', size: 2 },
      { name: 'column', size: 1 },
    ]);
    const found = 'over the axes row, column: 2 × 1 ranks. Give these axes of the mesh one size';
    expect(() => twoDimensional()).toThrow(`2D tensor parallelism ${found}`);
    expect(() => twoAndAHalfDimensional()).toThrow(`2.5D tensor parallelism ${found}`);
  });

  it('a mesh whose axes are no grid is refused by the 3D grid where one axis differs', async () => {
    await onMesh([
      { name: 'input', size: 1 },
      { name: 'weight', size: 2 },
      { name: 'output', size: 1 },
    ]);
    expect(() => threeDimensional()).toThrow(
      '3D tensor parallelism over the axes input, weight, output: 1 × 2 × 1 ranks. Give these axes of the mesh one size',
    );
  });

  it('a mesh whose axes are no grid is refused where an axis of the grid is missing, by the axes that there are', async () => {
    await onMesh([{ name: 'row', size: 2 }]);
    expect(() => twoDimensional()).toThrow(/'column'.*the axes row/);
  });
});

it.each<[string, () => Strategy]>([
  ['ddp', () => ddp()],
  ['zero', () => zero({ stage: 1 })],
  ['fsdp', () => fsdp()],
])(
  'a model on a grid is refused by %s, which would average what is a part',
  async (_, strategy) => {
    await onMesh(['dp', 'row', 'column'].map((name) => ({ name, size: 1 })));
    const layer = await GridLinear.from(new nn.Linear(4, 4), twoDimensional());
    await expect(parallelize(layer, strategy())).rejects.toThrow(
      /parameter weight is a part already: a strategy was applied to this model before/,
    );
  },
);
