import { cpu } from '@shardwise/backend-cpu';
import { activationBytes, fromData, manualSeed, nn, type Tensor } from '@shardwise/core';
import {
  type AttentionSizes,
  collectivesOf,
  compose,
  contextParallel,
  type ContextMethod,
  ddp,
  explain,
  parallelize,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

/** One layer of attention. What its embeddings give is needed for nothing else. */
class Attending extends nn.Module {
  readonly queries: nn.Embedding;
  readonly keys: nn.Embedding;
  readonly values: nn.Embedding;
  readonly #width: number;

  constructor({ heads, keyHeads = heads, headWidth }: AttentionSizes) {
    super();
    this.queries = new nn.Embedding(4, heads * headWidth);
    this.keys = new nn.Embedding(4, keyHeads * headWidth);
    this.values = new nn.Embedding(4, keyHeads * headWidth);
    this.#width = headWidth;
  }

  /** Shape: ids i32 [B, T] -> []. */
  forward(ids: Tensor): Tensor {
    const [rows = 0, length = 0] = ids.shape;
    const [q, k, v] = [this.queries, this.keys, this.values].map((table) =>
      table.forward(ids).reshape([rows, length, -1, this.#width]).transpose(1, 2),
    );
    if (q === undefined || k === undefined || v === undefined) return ids;
    return nn.functional.scaledDotProductAttention(q, k, v, { causal: true }).sum();
  }
}

interface Costs {
  readonly forward: number;
  readonly backward: number;
  readonly kept: number;
}

/** What `explain` says before the first pass, and what a pass has sent and keeps. */
async function costsOf(
  ranks: number,
  method: ContextMethod,
  sizes: AttentionSizes,
): Promise<{ readonly said: Costs; readonly found: Costs }> {
  const [first] = await onRanks(
    ranks,
    async () => {
      manualSeed(0);
      const strategy = compose(contextParallel({ method, lossWeight: 'sum' }), ddp({ axis: 'cp' }));
      const parallel = await parallelize(new Attending(sizes), strategy);
      const text = explain(parallel.plan, { attention: sizes });
      const ofLayer = (what: string): number =>
        Number(new RegExp(`${what} +(\\d+) `).exec(text)?.[1] ?? NaN);
      const ids = Int32Array.from({ length: sizes.rows * sizes.tokens }, (_, i) => i % 4);
      const loss = parallel.forward(fromData(ids, [sizes.rows, sizes.tokens], 'i32'));
      const kept = activationBytes(loss);
      loss.backward();
      await loss.item();
      const sent = { forward: 0, backward: 0 };
      for (const { when, operation, axis, bytes, redistribution } of collectivesOf(parallel.plan)) {
        if (redistribution?.module !== 'attention.0') continue;
        if (when !== 'forward' && when !== 'backward') continue;
        const members = axis === 'cp' ? ranks : 2;
        const share = operation === 'sendRecv' ? 1 : (members - 1) / members;
        sent[when] += bytes * share;
      }
      return {
        said: {
          forward: ofLayer('sent in the forward pass'),
          backward: ofLayer('sent in the backward pass'),
          kept: ofLayer('kept for the backward pass'),
        },
        found: { ...sent, kept },
      };
    },
    {
      axes: [{ name: 'cp', size: ranks }],
      createDevice: () => cpu({ byteLength: 16 * 1024 * 1024 }),
    },
  );
  return first ?? expect.fail('no rank');
}

const sizes: AttentionSizes = { layers: 2, rows: 2, tokens: 64, heads: 8, headWidth: 8 };
const cases: readonly (readonly [number, ContextMethod, AttentionSizes])[] = [
  [2, 'ring', sizes],
  [4, 'ring', { ...sizes, keyHeads: 2 }],
  [2, 'ring', { ...sizes, tokens: 61 }],
  [4, 'allGather', { ...sizes, keyHeads: 2 }],
  [2, 'ulysses', sizes],
  [4, 'ulysses', { ...sizes, heads: 6, keyHeads: 3 }],
  [4, 'usp', { ...sizes, keyHeads: 2 }],
];

describe('before the first pass, explain', () => {
  it.each(cases)(
    'says what each of %i ranks sends and keeps by the method %s',
    async (ranks, method, own) => {
      const { said, found } = await costsOf(ranks, method, own);
      expect(said.forward).toBe(found.forward);
      expect(said.backward).toBe(found.backward);
      // A pass also keeps the ranges of keys.
      expect(Math.abs(found.kept / said.kept - 1)).toBeLessThan(0.04);
    },
  );
});
