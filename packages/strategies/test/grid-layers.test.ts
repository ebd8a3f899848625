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
import { assertAllclose } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';

const [sequences, tokens, vocabulary, channels] = [4, 3, 6, 4];
const paddingIdx = 2;

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

type Table = nn.Module & { readonly weight: nn.Parameter };

/** Returns the loss, the gradient of the whole table, of shape [vocabulary, channels], and values of the whole layers. */
async function outcomeOf(loss: Tensor, { weight }: Table, head: nn.Module) {
  loss.backward();
  const { grad } = weight.part;
  const values = await valuesOf(weight);
  for (const each of head.parameters()) values.push(...(await valuesOf(each)));
  const gradient = await valuesOf(weight.wholeOf(grad ?? expect.fail('the table has no gradient')));
  return { loss: await loss.item(), gradient, values };
}

const axes = ['row', 'column'].map((name) => ({ name, size: 2 }));

describe('layers on a 2 × 2 grid, of a batch with padding and targets that do not count', () => {
  it('have the values of the first rank, though each rank has drawn others, the mean loss of the targets that count, and the gradients of one rank, with none for the row of padding', async () => {
    const [alone = expect.fail()] = await onRanks(1, () => {
      const { table, head } = layers();
      const { ids, targets } = batch();
      const logits = head.forward(table.forward(ids));
      return outcomeOf(nn.functional.crossEntropy(logits, targets), table, head);
    });
    expect(alone.values).not.toHaveLength(0);
    expect(alone.gradient).toContain(0);
    const ranks = await onRanks(
      4,
      async ({ rank }) => {
        const grid = twoDimensional();
        const whole = layers(rank);
        const table = await GridEmbedding.from(whole.table, grid);
        const head = await GridLinear.from(whole.head, grid);
        const { ids, targets } = batch();
        const logits = head.forward(table.forward(ownRows(ids, grid)));
        const loss = gridCrossEntropy(logits, ownRows(targets, grid.next), grid.next);
        return outcomeOf(loss, table, head);
      },
      { axes },
    );
    for (const { loss, gradient, values } of ranks) {
      expect(values).toEqual(alone.values);
      expect(loss).toBe(ranks[0]?.loss);
      assertAllclose([loss], [alone.loss], { rtol: 1e-5, atol: 1e-6 });
      assertAllclose(gradient, alone.gradient, { rtol: 1e-5, atol: 1e-6 });
    }
  });

  it('drop other weights of attention on each rank while they train, and none in an evaluation', async () => {
    const ranks = await onRanks(
      4,
      async ({ rank }) => {
        const grid: RankGrid = twoDimensional();
        const table = await GridEmbedding.from(layers(rank).table, grid);
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
        const outputs = (): Promise<number[]> => valuesOf(block.forward(table.forward(ids)));
        const dropped = await outputs();
        block.eval();
        return { dropped, kept: await outputs() };
      },
      { axes },
    );
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
