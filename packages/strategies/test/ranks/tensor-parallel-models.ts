import { arange, fromData, nn, type Tensor } from '@shardwise/core';
import {
  colwiseParallel,
  gptTensorParallel,
  headParallel,
  rowwiseParallel,
  sequenceParallel,
  shard,
  type StylePlan,
  vocabParallelCrossEntropy,
  vocabParallelEmbedding,
} from '@shardwise/strategies';
import type { StrategyModel } from '@shardwise/testing';
import { GPT } from '../../../../examples/gpt/model.ts';

export type TokenModel = nn.Module & { forward(ids: Tensor): Tensor };

export const sizes = { vocabulary: 24, tokens: 8, channels: 16, hidden: 64, heads: 4, layers: 2 };

/** The number of sequences in the batch of all ranks. */
export const sequences = 4;

class Block extends nn.Module {
  readonly norm1 = new nn.LayerNorm(sizes.channels);
  readonly attention: nn.MultiheadAttention;
  readonly dropout: nn.Dropout;
  readonly norm2 = new nn.LayerNorm(sizes.channels);
  readonly up = new nn.Linear(sizes.channels, sizes.hidden);
  readonly down = new nn.Linear(sizes.hidden, sizes.channels);

  constructor(dropout: number) {
    super();
    this.attention = new nn.MultiheadAttention(sizes.channels, 2 * sizes.heads, {
      keyHeads: sizes.heads,
      dropout,
    });
    this.dropout = new nn.Dropout(dropout);
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    const attended = this.attention.forward(this.norm1.forward(x), { causal: true });
    const y = x.add(this.dropout.forward(attended));
    return y.add(this.down.forward(this.up.forward(this.norm2.forward(y)).gelu()));
  }
}

/** A GPT with grouped queries and dropout. Its embedding and head share a weight. */
export class TiedGpt extends nn.Module {
  readonly tokens = new nn.Embedding(sizes.vocabulary, sizes.channels);
  readonly positions = new nn.Embedding(sizes.tokens, sizes.channels);
  readonly blocks: nn.ModuleList<Block>;
  readonly norm = new nn.LayerNorm(sizes.channels);
  readonly head = new nn.Linear(sizes.channels, sizes.vocabulary, { bias: false });

  constructor(dropout = 0) {
    super();
    this.blocks = new nn.ModuleList(Array.from({ length: sizes.layers }, () => new Block(dropout)));
    this.head.weight = this.tokens.weight;
  }

  /** Shape: ids i32 [B, T] -> [B, T, V]. */
  forward(ids: Tensor): Tensor {
    let x = this.tokens.forward(ids).add(this.positions.forward(arange(sizes.tokens)));
    for (const block of this.blocks) x = block.forward(x);
    return this.head.forward(this.norm.forward(x));
  }
}

const heads = { numHeads: 2 * sizes.heads, keyHeads: sizes.heads };

export const tiedStyles: StylePlan = {
  tokens: vocabParallelEmbedding(),
  'blocks.*.attention': headParallel(heads),
  'blocks.*.up': colwiseParallel(),
  'blocks.*.down': rowwiseParallel(),
  head: colwiseParallel(),
};

export const tiedSequenceStyles: StylePlan = {
  tokens: vocabParallelEmbedding({ output: shard(1) }),
  positions: sequenceParallel({ dim: 0, input: 'invariant' }),
  'blocks.*.norm*': sequenceParallel(),
  'blocks.*.attention': headParallel({ ...heads, input: shard(1), output: shard(1) }),
  'blocks.*.dropout': sequenceParallel(),
  'blocks.*.up': colwiseParallel({ input: shard(1) }),
  'blocks.*.down': rowwiseParallel({ output: shard(1) }),
  norm: sequenceParallel(),
  head: colwiseParallel({ input: shard(1) }),
};

const gpt = (): TokenModel =>
  new GPT({
    vocabularySize: sizes.vocabulary,
    contextLength: sizes.tokens,
    layers: sizes.layers,
    heads: sizes.heads,
    channels: sizes.channels,
  });

type Loss = (logits: Tensor, targets: Tensor) => Tensor;

export interface Training {
  readonly build: () => TokenModel;
  readonly styles: StylePlan;
  /** The loss of the parallel model's output. */
  readonly loss: Loss;
  /** The loss of all logits on one rank. */
  readonly reference: Loss;
}

const smoothing = { labelSmoothing: 0.1 };
const plain: Loss = (logits, targets) => nn.functional.crossEntropy(logits, targets);
const smooth: Loss = (logits, targets) => nn.functional.crossEntropy(logits, targets, smoothing);

export const trainings: Readonly<Record<string, Training>> = {
  'a GPT': {
    build: gpt,
    styles: gptTensorParallel({ heads: sizes.heads }),
    loss: plain,
    reference: plain,
  },
  'a GPT whose logits stay in parts': {
    build: gpt,
    styles: gptTensorParallel({ heads: sizes.heads, logits: 'parts' }),
    loss: (logits, targets) => vocabParallelCrossEntropy(logits, targets),
    reference: plain,
  },
  'a sequence-parallel GPT': {
    build: gpt,
    styles: gptTensorParallel({ heads: sizes.heads, sequenceParallel: true }),
    loss: plain,
    reference: plain,
  },
  'a sequence-parallel GPT that gathers again, whose logits stay in parts': {
    build: gpt,
    styles: gptTensorParallel({
      heads: sizes.heads,
      sequenceParallel: true,
      gatherAgain: true,
      logits: 'parts',
    }),
    loss: (logits, targets) => vocabParallelCrossEntropy(logits, targets),
    reference: plain,
  },
  'grouped queries, a shared embedding and smoothed labels': {
    build: () => new TiedGpt(),
    styles: tiedStyles,
    loss: (logits, targets) => vocabParallelCrossEntropy(logits, targets, smoothing),
    reference: smooth,
  },
  'the same, sequence-parallel': {
    build: () => new TiedGpt(),
    styles: tiedSequenceStyles,
    loss: (logits, targets) => vocabParallelCrossEntropy(logits, targets, smoothing),
    reference: smooth,
  },
};

/** Returns the sequences from `first` up to `stop` of a step's batch. Shape: ids and targets i32 [stop - first, T]. */
export function batchOf(
  step: number,
  first = 0,
  stop: number = sequences,
): { ids: Tensor; targets: Tensor } {
  const token = (row: number, column: number): number =>
    (row * 5 + step * 7 + column * (3 + (row % 3)) + ((row * column) % 4)) % sizes.vocabulary;
  const at = (shift: number): Tensor =>
    fromData(
      Int32Array.from({ length: (stop - first) * sizes.tokens }, (_, index) =>
        token(first + Math.floor(index / sizes.tokens), (index % sizes.tokens) + shift),
      ),
      [stop - first, sizes.tokens],
      'i32',
    );
  return { ids: at(0), targets: at(1) };
}

/** Converts a training to a model of the strategy contract. */
export function strategyModelOf({ build, loss, reference }: Training): StrategyModel {
  return {
    build,
    rows: sequences,
    batch: (step, first, stop) => {
      const { ids, targets } = batchOf(step, first, stop);
      return { x: ids, y: targets };
    },
    loss,
    lossAlone: reference,
  };
}
