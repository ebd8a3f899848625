import { fromData, manualSeed, nn, optim, type Tensor } from '@shardwise/core';
import {
  compose,
  contextParallel,
  type ContextParallelOptions,
  ddp,
  parallelize,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';

const [rows, width, heads] = [2, 4, 2];

/** Attention of tokens, and of tokens to a second sequence if there is one. */
class Attending extends nn.Module {
  readonly queries = new nn.Linear(width, width);
  readonly keys = new nn.Linear(width, 2 * width);

  /** Shape: x [B, T, C], seen [B, S], source [B, S, C] -> [B, T, C]. */
  forward(x: Tensor, seen?: Tensor, source: Tensor = x): Tensor {
    const inHeads = (all: Tensor): Tensor =>
      all.reshape([rows, all.shape[1] ?? 0, -1, width / heads]).transpose(1, 2);
    const [k, v] = inHeads(this.keys.forward(source)).chunk(2, 1);
    if (k === undefined || v === undefined) return x;
    const mask = seen === undefined ? {} : { mask: seen.ne(0).reshape([rows, 1, 1, -1]) };
    return nn.functional
      .scaledDotProductAttention(inHeads(this.queries.forward(x)), k, v, mask)
      .transpose(1, 2)
      .flatten(2);
  }
}

function tokens(length: number, phase = 0): Tensor {
  const numbers = Array.from({ length: rows * length * width }, (_, i) => Math.sin(i + phase));
  return fromData(Float32Array.from(numbers), [rows, length, width], 'f32');
}

function ones(...shape: readonly number[]): Tensor {
  const size = shape.reduce((product, each) => product * each, 1);
  return fromData(new Int32Array(size).fill(1), shape, 'i32').ne(0);
}

/** What each of two ranks throws. */
async function errorsOf(
  optionsOf: (rank: number) => ContextParallelOptions,
  passes: (
    forward: (...inputs: Parameters<Attending['forward']>) => Promise<void>,
    rank: number,
  ) => Promise<void>,
): Promise<readonly string[]> {
  return onRanks(
    2,
    async ({ rank }) => {
      manualSeed(0);
      try {
        const strategy = compose(contextParallel(optionsOf(rank)), ddp({ axis: 'cp' }));
        const parallel = await parallelize(new Attending(), strategy);
        const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
        await passes(async (...inputs) => {
          optimizer.zeroGrad();
          const loss = parallel
            .forward(...inputs)
            .square()
            .mean();
          loss.backward();
          await optimizer.step();
          await loss.item();
        }, rank);
      } catch (error) {
        return String(error);
      }
      return 'none';
    },
    { axes: [{ name: 'cp', size: 2 }] },
  );
}

type Case = readonly [...Parameters<typeof errorsOf>, RegExp];

const same = (): ContextParallelOptions => ({});
const once =
  (...inputs: Parameters<Attending['forward']>): Case[1] =>
  (forward) =>
    forward(...inputs);
const two: NonNullable<ContextParallelOptions['sequences']> = (x, _, source) =>
  [x, source].filter((each) => each instanceof Object) as never;

const cases: Readonly<Record<string, Case>> = {
  'sequences of another length on one rank': [
    same,
    async (forward, rank) => {
      await forward(tokens(8 + 4 * rank));
      await forward(tokens(8 + 4 * rank));
    },
    /CollectiveMismatchError/,
  ],
  'sequences of another length on one rank in a later step': [
    same,
    async (forward, rank) => {
      await forward(tokens(8));
      await forward(tokens(8));
      await forward(tokens(8 + 4 * rank));
    },
    /CollectiveMismatchError/,
  ],
  'other tokens on one rank': [
    same,
    async (forward, rank) => {
      await forward(tokens(8, rank));
      await forward(tokens(8, rank));
    },
    /CollectiveMismatchError.*Give all ranks of 'cp' the same batches/,
  ],
  'another method on one rank': [
    (rank) => ({ method: rank === 0 ? 'ring' : 'allGather' }),
    once(tokens(8)),
    /CollectiveMismatchError.*method/,
  ],
  'another order on one rank': [
    (rank) => ({ order: rank === 0 ? 'headTail' : 'contiguous' }),
    once(tokens(8)),
    /CollectiveMismatchError.*order/,
  ],
  'a second sequence that only one rank names': [
    (rank) => (rank === 0 ? {} : { sequences: two }),
    once(tokens(8), undefined, tokens(12)),
    /CollectiveMismatchError.*cutSequences/,
  ],
  'a mask of a part': [same, once(tokens(8), ones(rows, 4)), /\[2, 4\].*a part already/],
  'a mask of queries and keys': [
    same,
    once(tokens(8), ones(rows, 1, 8, 8)),
    /a mask of shape \[2, 1, 8, 8\].*keyRanges/,
  ],
  'a mask of the queries of one sequence and the keys of another': [
    () => ({ sequences: two }),
    once(tokens(8), ones(8, 12), tokens(12)),
    /a mask of shape \[8, 12\].*keyRanges/,
  ],
  'a sequence without a dim of tokens': [
    () => ({ sequences: (x) => [x, ones(3)] as never }),
    once(tokens(8)),
    /a tensor of shape \[3\] as a sequence.*no dim of tokens/,
  ],
};

it.each(Object.keys(cases))('refuses %s on all ranks', async (name) => {
  const [optionsOf, passes, says] = cases[name] ?? expect.fail(name);
  const errors = await errorsOf(optionsOf, passes);
  expect(errors).toHaveLength(2);
  for (const error of errors) expect(error).toMatch(says);
});
