import { fromData, manualSeed, nn, type Tensor } from '@shardwise/core';
import {
  GridBlock,
  gridCrossEntropy,
  GridEmbedding,
  GridLinear,
  ownRows,
  type RankGrid,
  twoDimensional,
} from '@shardwise/strategies';
import { describeDifference } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

const [sequences, tokens, vocabulary, channels] = [4, 3, 6, 4];
const paddingIdx = 2;

interface Outcome {
  loss: number;
  /** Of the whole table. Shape: [vocabulary, channels]. */
  gradient: number[];
  /** Initial values of the whole layers. */
  values: number[];
  /** This rank's part of what a block with dropout makes of equal sequences, in training and then in evaluation. */
  dropped: number[];
  kept: number[];
}
type Whole = Omit<Outcome, 'dropped' | 'kept'>;

/** Ranks that did not agree on a seed: those of rank 0 count. */
function layers(rank = 0): { readonly table: nn.Embedding; readonly head: nn.Linear } {
  manualSeed(5 + rank);
  const table = new nn.Embedding(vocabulary, channels, { paddingIdx });
  return { table, head: new nn.Linear(channels, vocabulary) };
}

/** A third of the indices is padding. The first sequences have more targets that do not count than the last ones. */
function batch(): { readonly ids: Tensor; readonly targets: Tensor } {
  const count = sequences * tokens;
  const of = (at: (index: number) => number): Tensor =>
    fromData(
      Int32Array.from({ length: count }, (_, i) => at(i)),
      [sequences, tokens],
      'i32',
    );
  return {
    ids: of((i) => (i % 3 === 0 ? paddingIdx : (i * 5) % vocabulary)),
    targets: of((i) => (i < 5 ? -100 : (i * 7) % vocabulary)),
  };
}

/** Shape: -> this rank's part of [sequences, tokens, channels]. */
async function attended(
  table: GridEmbedding,
  grid: RankGrid,
): Promise<Pick<Outcome, 'dropped' | 'kept'>> {
  const block = await GridBlock.from(
    {
      norm1: new nn.LayerNorm(channels),
      attention: new nn.MultiheadAttention(channels, 2, { dropout: 0.5 }),
      norm2: new nn.LayerNorm(channels),
      up: new nn.Linear(channels, channels),
      down: new nn.Linear(channels, channels),
    },
    grid,
  );
  const equal = Int32Array.from({ length: sequences * tokens }, (_, i) => i % tokens);
  const ids = ownRows(fromData(equal, [sequences, tokens], 'i32'), grid);
  const values = async (): Promise<number[]> =>
    [...(await block.forward(table.forward(ids)).data())].map(Number);
  const dropped = await values();
  block.eval();
  return { dropped, kept: await values() };
}

async function valuesOf(module: nn.Module): Promise<number[]> {
  const values: number[] = [];
  for (const each of module.parameters()) values.push(...[...(await each.data())].map(Number));
  return values;
}

type Table = nn.Module & { readonly weight: nn.Parameter };

async function outcomeOf(loss: Tensor, table: Table, head: nn.Module): Promise<Whole> {
  const { weight } = table;
  loss.backward();
  const { grad } = weight.part;
  if (grad === null) throw new TypeError('the table has no gradient');
  return {
    loss: await loss.item(),
    gradient: [...(await weight.wholeOf(grad).data())].map(Number),
    values: [...(await valuesOf(table)), ...(await valuesOf(head))],
  };
}

/** The loss on a 2 × 2 grid, and the gradient of the table. */
async function onGrid({ rank }: RankInThread): Promise<Outcome> {
  const grid: RankGrid = twoDimensional();
  const whole = layers(rank);
  const table = await GridEmbedding.from(whole.table, grid);
  const head = await GridLinear.from(whole.head, grid);
  const { ids, targets } = batch();
  const logits = head.forward(table.forward(ownRows(ids, grid)));
  const loss = gridCrossEntropy(logits, ownRows(targets, grid.next), grid.next);
  return { ...(await outcomeOf(loss, table, head)), ...(await attended(table, grid)) };
}

/** The same on one rank. */
async function alone(): Promise<Whole> {
  const { table, head } = layers();
  const { ids, targets } = batch();
  const logits = head.forward(table.forward(ids));
  return outcomeOf(nn.functional.crossEntropy(logits, targets), table, head);
}

const tolerance = { rtol: 1e-5, atol: 1e-6 };

describe('layers on a 2 × 2 grid, of a batch with padding and targets that do not count', () => {
  let expected: Whole = { loss: NaN, gradient: [], values: [] };
  let ranks: readonly Outcome[] = [];

  beforeAll(async () => {
    [expected = expected] = await onRanks(1, alone);
    const axes = ['row', 'column'].map((name) => ({ name, size: 2 }));
    ranks = await onRanks(4, onGrid, { axes });
  });

  it('layers on a 2 × 2 grid, of a batch with padding and targets that do not count have the values of the first rank, though each rank has drawn others', () => {
    expect(expected.values).not.toHaveLength(0);
    for (const { values } of ranks) expect(values).toEqual(expected.values);
  });

  it('layers on a 2 × 2 grid, of a batch with padding and targets that do not count have the mean loss of the targets that count, on every rank', () => {
    for (const { loss } of ranks) {
      expect(describeDifference([loss], [expected.loss], tolerance)).toBeUndefined();
      expect(loss).toBe(ranks[0]?.loss);
    }
  });

  it('layers on a 2 × 2 grid, of a batch with padding and targets that do not count have the gradients of one rank, and none for the row of padding', () => {
    expect(expected.gradient).toContain(0);
    for (const { gradient } of ranks) {
      expect(describeDifference(gradient, expected.gradient, tolerance)).toBeUndefined();
    }
  });

  it('drop other weights of attention on each rank while they train, and none in an evaluation', () => {
    // Ranks of one column have the same features, here of equal sequences.
    for (const [first, second] of [
      [0, 2],
      [1, 3],
    ] as const) {
      expect(ranks[first]?.kept).toEqual(ranks[second]?.kept);
      expect(ranks[first]?.dropped).not.toEqual(ranks[second]?.dropped);
    }
    for (const { dropped, kept } of ranks) expect(dropped).not.toEqual(kept);
  });
});
