import { arange, fromData, manualSeed, nn, optim, type Strategy, Tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { stateOf } from '../../../test/support/model-values.ts';
import { compose, contextParallel, ddp, fsdp, parallelize, zero } from '@shardwise/strategies';

/** A training whose sequences ranks cut. */
export interface AttentionTask {
  readonly method: 'ring' | 'allGather' | 'ulysses' | 'usp';
  readonly order: 'headTail' | 'contiguous';
  /** The ranks of `cp`. The others are those of `dp`. */
  readonly cp: number;
  readonly shared: 'ddp' | 'zero' | 'fsdp';
  readonly rows: number;
  /** The number of tokens of each step. */
  readonly lengths: readonly number[];
  readonly heads: number;
  readonly groups: number;
  readonly causal: boolean;
  /** The number of last keys that a query sees. Null: all. */
  readonly window: number | null;
  /** The length of packed documents, of which the last may be shorter. Null: each row is one. */
  readonly documents: number | null;
  /** Whether the last tokens of each row are padding that no query sees. */
  readonly masked: boolean;
  /** Whether queries also attend to a memory that all ranks have. */
  readonly memory: boolean;
  /**
   * The number of tokens of a second sequence in each step, which attends to itself and to which the queries attend. The ranks have
   * parts of it, too. Null: there is none.
   */
  readonly sources: readonly number[] | null;
}

/** The losses of all steps, and the weights after the last. */
export interface Trained {
  readonly losses: readonly number[];
  readonly weights: readonly number[];
}

const vocabulary = 11;
const width = 4;

/** A model that knows nothing of ranks. It numbers its tokens itself. */
class Attending extends nn.Module {
  readonly tokens: nn.Embedding;
  readonly positions: nn.Embedding;
  readonly queries: nn.Linear;
  readonly keys: nn.Linear;
  readonly memory: nn.Linear | null;
  readonly head: nn.Linear;
  readonly #task: AttentionTask;

  constructor(task: AttentionTask) {
    super();
    const { heads, groups } = task;
    this.tokens = new nn.Embedding(vocabulary, heads * width);
    this.positions = new nn.Embedding(64, heads * width);
    this.queries = new nn.Linear(heads * width, heads * width);
    this.keys = new nn.Linear(heads * width, 2 * groups * width);
    this.memory =
      task.memory || task.sources !== null
        ? new nn.Linear(heads * width, 2 * groups * width)
        : null;
    this.head = new nn.Linear(heads * width, vocabulary);
    this.#task = task;
  }

  /**
   * Shape: ids i32 [B, T], keyRanges i32 [B, T, 2], seen [B, T], memory [B, S, C], hidden [B, S] -> [B, T, V].
   */
  forward(ids: Tensor, keyRanges: Tensor, seen: Tensor, memory: Tensor, hidden: Tensor): Tensor {
    const { causal, window, documents, masked, sources } = this.#task;
    const [rows = 0, length = 0] = ids.shape;
    const x = this.tokens.forward(ids).add(this.positions.forward(arange(length)));
    const intoHeads = (all: Tensor): Tensor =>
      all.reshape([rows, all.shape[1] ?? 0, -1, width]).transpose(1, 2);
    const [k, v] = intoHeads(this.keys.forward(x)).chunk(2, 1);
    const q = intoHeads(this.queries.forward(x));
    if (k === undefined || v === undefined) return x;
    const attended = nn.functional.scaledDotProductAttention(q, k, v, {
      causal,
      ...(documents === null && window === null ? {} : { keyRanges }),
      ...(masked ? { mask: seen.ne(0).reshape([rows, 1, 1, length]) } : {}),
    });
    let y = attended.transpose(1, 2).flatten(2).add(x);
    if (this.memory !== null) {
      const attendTo = (queries: Tensor, source: Tensor, ofQueries: boolean): Tensor => {
        const [mk, mv] = intoHeads(layer.forward(source)).chunk(2, 1);
        if (mk === undefined || mv === undefined) return x;
        // The first two keys of the second sequence are hidden, or queries see keys up to their own place.
        const options =
          sources === null
            ? {}
            : causal && ofQueries
              ? { causal }
              : { mask: hidden.ne(0).reshape([rows, 1, 1, -1]) };
        return nn.functional
          .scaledDotProductAttention(queries, mk, mv, options)
          .transpose(1, 2)
          .flatten(2);
      };
      const layer = this.memory;
      const source = sources === null ? memory : attendTo(intoHeads(memory), memory, false);
      y = y.add(attendTo(q, source, true));
    }
    return this.head.forward(y);
  }
}

interface Batch {
  readonly ids: Tensor;
  readonly labels: Tensor;
  readonly keyRanges: Tensor;
  readonly seen: Tensor;
  readonly memory: Tensor;
  readonly hidden: Tensor;
}

/** The rows of one rank of `dp`, or of all. */
function batchOf(task: AttentionTask, step: number, first: number, count: number): Batch {
  const { rows, documents, window, causal } = task;
  const length = task.lengths[step] ?? 0;
  const numbers = (size: number, factor: number): number[] =>
    Array.from({ length: rows * size }, (_, i) => (i * factor + i * i + 3 * step) % vocabulary);
  const own = (data: readonly number[], shape: readonly number[], dtype: 'i32' | 'f32'): Tensor => {
    const size = shape.slice(1).reduce((a, b) => a * b, 1);
    const part = data.slice(first * size, (first + count) * size);
    const array = dtype === 'i32' ? Int32Array.from(part) : Float32Array.from(part);
    return fromData(array, [count, ...shape.slice(1)], dtype);
  };
  const ranges = Array.from({ length: rows * length }, (_, i) => {
    const place = i % length;
    const size = documents ?? length;
    const start = place - (place % size);
    const end = Math.min(start + size, length);
    return [
      window === null ? start : Math.max(start, place - window + 1),
      causal ? place + 1 : end,
    ];
  });
  // Labels of some tokens do not count, more in the first half of a row.
  const labels = numbers(length, 5).map((label, i) =>
    i % length < length / 3 && i % 2 === 0 ? -100 : label,
  );
  const seen = Array.from({ length: rows * length }, (_, i) =>
    Number(i % length < length - 1 - (Math.floor(i / length) % 2)),
  );
  const channels = task.heads * width;
  const sourced = task.sources?.[step] ?? 3;
  return {
    ids: own(numbers(length, 7), [rows, length], 'i32'),
    labels: own(labels, [rows, length], 'i32'),
    keyRanges: own(ranges.flat(), [rows, length, 2], 'i32'),
    seen: own(seen, [rows, length], 'i32'),
    memory: own(
      Array.from({ length: rows * sourced * channels }, (_, i) => Math.sin(i)),
      [rows, sourced, channels],
      'f32',
    ),
    hidden: own(
      Array.from({ length: rows * sourced }, (_, i) => Number(i % sourced > 1)),
      [rows, sourced],
      // Integers of as many tokens as a rank has would be taken for a part of the first sequence.
      'f32',
    ),
  };
}

async function train(
  task: AttentionTask,
  model: Attending,
  forward: (batch: Batch) => Tensor,
  [first, count]: readonly [number, number],
): Promise<Trained> {
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.3 });
  const losses: number[] = [];
  for (let step = 0; step < task.lengths.length; step++) {
    optimizer.zeroGrad();
    const batch = batchOf(task, step, first, count);
    const loss = nn.functional.crossEntropy(
      forward(batch).reshape([-1, vocabulary]),
      batch.labels.flatten(),
    );
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  const weights = Object.values(await stateOf(model)).flat();
  return { losses, weights };
}

/** Trains on one rank without a strategy. */
export function trainAlone(task: AttentionTask): Promise<Trained> {
  manualSeed(0);
  const model = new Attending(task);
  return train(
    task,
    model,
    ({ ids, keyRanges, seen, memory, hidden }) =>
      model.forward(ids, keyRanges, seen, memory, hidden),
    [0, task.rows],
  );
}

function strategyOf({ method, order, shared, sources }: AttentionTask, dp: number): Strategy {
  const over = dp === 1 ? { axis: 'cp' } : { axis: 'dp', replicas: 'cp' };
  const parts = {
    ddp: () => ddp(over),
    zero: () => zero({ stage: 2, ...over }),
    fsdp: () => fsdp(over),
  };
  // The second sequence is the fourth input of `forward`.
  const sequences = (...inputs: readonly unknown[]): readonly Tensor[] =>
    [inputs[0], inputs[3]].filter((input) => input instanceof Tensor);
  const cut = sources === null ? {} : { sequences };
  return compose(contextParallel({ method, order, arange: 'places', ...cut }), parts[shared]());
}

/** Trains as one of the ranks of `dp` and `cp`, which have been set. */
export async function trainInParts(task: AttentionTask): Promise<Trained> {
  const { mesh } = currentSession();
  const dp = mesh.group('dp').size;
  manualSeed(0);
  const model = new Attending(task);
  const parallel = await parallelize(model, strategyOf(task, dp));
  const share = task.rows / dp;
  return train(
    task,
    model,
    ({ ids, keyRanges, seen, memory, hidden }) =>
      parallel.forward(ids, keyRanges, seen, memory, hidden),
    [mesh.coordinate('dp') * share, share],
  );
}
