import {
  arange,
  fromData,
  manualSeed,
  type MeshAxis,
  nn,
  optim,
  type Tensor,
} from '@shardwise/core';
import {
  GridBlock,
  gridCrossEntropy,
  GridEmbedding,
  GridLayerNorm,
  GridLinear,
  ownRows,
  type RankGrid,
  threeDimensional,
  twoAndAHalfDimensional,
  twoDimensional,
} from '@shardwise/strategies';

export const steps = 20;
export const sizes = { batch: 8, tokens: 8, channels: 8, heads: 2, hidden: 32, vocabulary: 16 };

export interface GridTask {
  readonly grid: '2D' | '2.5D' | '3D';
  readonly axes: readonly MeshAxis[];
}

interface Run {
  readonly losses: readonly number[];
  readonly norms: readonly number[];
}

export const grids: Readonly<Record<GridTask['grid'], () => RankGrid>> = {
  '2D': () => twoDimensional(),
  '2.5D': () => twoAndAHalfDimensional(),
  '3D': () => threeDimensional(),
};

class Block extends nn.Module {
  readonly norm1 = new nn.LayerNorm(sizes.channels);
  readonly attention = new nn.MultiheadAttention(sizes.channels, sizes.heads);
  readonly norm2 = new nn.LayerNorm(sizes.channels);
  readonly up = new nn.Linear(sizes.channels, sizes.hidden);
  readonly down = new nn.Linear(sizes.hidden, sizes.channels);

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    const y = x.add(this.attention.forward(this.norm1.forward(x), { causal: true }));
    return y.add(this.down.forward(this.up.forward(this.norm2.forward(y)).gelu()));
  }
}

export class Gpt extends nn.Module {
  readonly tokens = new nn.Embedding(sizes.vocabulary, sizes.channels);
  readonly positions = new nn.Embedding(sizes.tokens, sizes.channels);
  readonly blocks = new nn.ModuleList([new Block(), new Block()]);
  readonly norm = new nn.LayerNorm(sizes.channels);
  readonly head = new nn.Linear(sizes.channels, sizes.vocabulary);

  /** Shape: ids i32 [B, T] -> [B, T, V]. */
  forward(ids: Tensor): Tensor {
    let x = this.tokens.forward(ids).add(this.positions.forward(arange(sizes.tokens)));
    for (const block of this.blocks) x = block.forward(x);
    return this.head.forward(this.norm.forward(x));
  }
}

/** The same model on a grid, with the same names of parameters. */
export class GridGpt extends nn.Module {
  readonly tokens: GridEmbedding;
  readonly positions: GridEmbedding;
  readonly blocks: nn.ModuleList<GridBlock>;
  readonly norm: GridLayerNorm;
  readonly head: GridLinear;

  constructor(
    embeddings: readonly [GridEmbedding, GridEmbedding],
    blocks: readonly GridBlock[],
    norm: GridLayerNorm,
    head: GridLinear,
  ) {
    super();
    [this.tokens, this.positions] = embeddings;
    this.blocks = new nn.ModuleList([...blocks]);
    this.norm = norm;
    this.head = head;
  }

  static async from(model: Gpt, grid: RankGrid): Promise<GridGpt> {
    const blocks: GridBlock[] = [];
    for (const block of model.blocks) blocks.push(await GridBlock.from(block, grid));
    return new GridGpt(
      [
        await GridEmbedding.from(model.tokens, grid),
        await GridEmbedding.from(model.positions, grid),
      ],
      blocks,
      await GridLayerNorm.from(model.norm, grid),
      await GridLinear.from(model.head, grid),
    );
  }

  /** Shape: ids i32 [B', T] -> [B'', T, V']. */
  forward(ids: Tensor): Tensor {
    let x = this.tokens.forward(ids).add(this.positions.forward(arange(sizes.tokens)));
    for (const block of this.blocks) x = block.forward(x);
    return this.head.forward(this.norm.forward(x));
  }
}

export function batchOf(step: number): { ids: Tensor; targets: Tensor } {
  const at = (shift: number): Tensor =>
    fromData(
      Int32Array.from({ length: sizes.batch * sizes.tokens }, (_, index) => {
        const [row, column] = [Math.floor(index / sizes.tokens), (index % sizes.tokens) + shift];
        return (row * 5 + step * 7 + column * (3 + (row % 3))) % sizes.vocabulary;
      }),
      [sizes.batch, sizes.tokens],
      'i32',
    );
  return { ids: at(0), targets: at(1) };
}

async function train(model: nn.Module, pass: (step: number) => Tensor): Promise<Run> {
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const losses: number[] = [];
  const norms: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const loss = pass(step);
    loss.backward();
    const norm = optim.clipGradNorm(model.parameters(), 0.5);
    await optimizer.step();
    losses.push(await loss.item());
    norms.push(await norm.item());
  }
  return { losses, norms };
}

/** Trains the part of a rank of the grid. */
export async function trainOnGrid(name: GridTask['grid']): Promise<Run> {
  const grid = grids[name]();
  manualSeed(0);
  const model = await GridGpt.from(new Gpt(), grid);
  return train(model, (step) => {
    const { ids, targets } = batchOf(step);
    const logits = model.forward(ownRows(ids, grid));
    return gridCrossEntropy(logits, ownRows(targets, grid.next), grid.next);
  });
}

/** Does the same training on one rank. */
export async function trainAlone(): Promise<Run> {
  manualSeed(0);
  const model = new Gpt();
  return train(model, (step) => {
    const { ids, targets } = batchOf(step);
    return nn.functional.crossEntropy(model.forward(ids), targets);
  });
}
