import { createMesh } from '@shardwise/collectives';
import { fromData, manualSeed, nn, setRank, type Tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  GridBlock,
  gridCrossEntropy,
  GridEmbedding,
  GridLinear,
  ownRows,
  type RankGrid,
  twoDimensional,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

const [sequences, tokens, vocabulary, channels] = [4, 3, 6, 4];
const paddingIdx = 2;

export const outcome = z.object({
  loss: z.number(),
  /** Of the whole table. Shape: [vocabulary, channels]. */
  gradient: z.array(z.number()),
  /** Initial values of the whole layers. */
  values: z.array(z.number()),
  /** This rank's part of what a block with dropout makes of equal sequences, in training and then in evaluation. */
  dropped: z.array(z.number()),
  kept: z.array(z.number()),
});
export type Outcome = z.infer<typeof outcome>;
export type Whole = Omit<Outcome, 'dropped' | 'kept'>;

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
export async function main(context: RankContext): Promise<Outcome> {
  const { group } = await join(context);
  const axes = ['row', 'column'].map((name) => ({ name, size: 2 }));
  setRank({ device: currentSession().backend, mesh: await createMesh(group, axes) });
  const grid: RankGrid = twoDimensional();
  const whole = layers(context.rank);
  const table = await GridEmbedding.from(whole.table, grid);
  const head = await GridLinear.from(whole.head, grid);
  const { ids, targets } = batch();
  const logits = head.forward(table.forward(ownRows(ids, grid)));
  const loss = gridCrossEntropy(logits, ownRows(targets, grid.next), grid.next);
  return { ...(await outcomeOf(loss, table, head)), ...(await attended(table, grid)) };
}

/** The same on one rank. */
export async function alone(): Promise<Whole> {
  const { table, head } = layers();
  const { ids, targets } = batch();
  const logits = head.forward(table.forward(ids));
  return outcomeOf(nn.functional.crossEntropy(logits, targets), table, head);
}
