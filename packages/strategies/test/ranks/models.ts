import { fromData, nn, type Tensor } from '@shardwise/core';

/** The number of items in the batch of all ranks. 1 to 4 ranks share it evenly. */
export const globalBatch = 36;

export interface Task {
  readonly build: () => nn.Module & { forward(x: Tensor): Tensor };
  /** Returns the items from `first` up to `stop` of a step's batch. */
  readonly batch: (step: number, first: number, stop: number) => { x: Tensor; y: Tensor };
  readonly loss: (output: Tensor, y: Tensor) => Tensor;
}

/** A model whose sizes no world divides, with a parameter of one element and a frozen one. */
class OddMlp extends nn.Module {
  readonly layers = new nn.ModuleList([
    new nn.Linear(7, 13),
    new nn.Linear(13, 13),
    new nn.Linear(13, 5),
  ]);
  readonly scale = new nn.Parameter(Float32Array.of(1), [1]);
  readonly temperature = new nn.Parameter(Float32Array.of(1), []);
  readonly unused = new nn.Linear(3, 2);

  constructor() {
    super();
    const [, second] = this.layers;
    second?.bias?.requiresGrad_(false);
  }

  /** Shape: x [B, 7] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    const [first, second, third] = this.layers;
    if (first === undefined || second === undefined || third === undefined) throw new RangeError();
    const hidden = first.forward(x).gelu();
    // The second layer is used twice.
    const deeper = second.forward(second.forward(hidden).tanh()).mul(this.scale);
    return third.forward(deeper).div(this.temperature.exp());
  }
}

class Block extends nn.Module {
  readonly norm1 = new nn.LayerNorm(12);
  readonly attention = new nn.MultiheadAttention(12, 3);
  readonly norm2 = new nn.LayerNorm(12);
  readonly up = new nn.Linear(12, 20);
  readonly down = new nn.Linear(20, 12);

  /** Shape: x [B, T, 12] -> [B, T, 12]. */
  forward(x: Tensor): Tensor {
    const h = this.norm1.forward(x);
    const attended = this.attention.forward(h, { causal: true });
    const y = x.add(attended);
    return y.add(this.down.forward(this.up.forward(this.norm2.forward(y)).gelu()));
  }
}

/** A model whose embedding and head share a weight. */
class TinyGpt extends nn.Module {
  readonly tokens = new nn.Embedding(11, 12);
  readonly positions = new nn.Parameter(
    Float32Array.from({ length: 6 * 12 }, (_, i) => Math.sin(i) / 10),
    [6, 12],
  );
  readonly blocks = new nn.ModuleList([new Block(), new Block(), new Block()]);
  readonly norm = new nn.LayerNorm(12);
  readonly head = new nn.Linear(12, 11, { bias: false });

  constructor() {
    super();
    this.head.weight = this.tokens.weight;
  }

  /** Shape: x i32 [B, 6] -> [B, 6, 11]. */
  forward(x: Tensor): Tensor {
    let h = this.tokens.forward(x).add(this.positions);
    for (const block of this.blocks) h = block.forward(h);
    return this.head.forward(this.norm.forward(h));
  }
}

class ConvNet extends nn.Module {
  readonly layers = new nn.ModuleList([
    new nn.Conv2d(2, 5, 3, { padding: 1 }),
    new nn.Conv2d(5, 7, 3, { stride: 2 }),
  ]);
  readonly head = new nn.Linear(7 * 4, 3);

  /** Shape: x [B, 2, 6, 6] -> [B, 3]. */
  forward(x: Tensor): Tensor {
    let h = x;
    for (const layer of this.layers) h = layer.forward(h).relu();
    return this.head.forward(h.flatten(1));
  }
}

function values(count: number, seed: number): Float32Array<ArrayBuffer> {
  let state = (seed * 2_654_435_761 + 12_345) | 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state / 2 ** 31;
  });
}

function integers(count: number, below: number, seed: number): Int32Array<ArrayBuffer> {
  return Int32Array.from(values(count, seed), (value) => Math.floor(((value + 1) / 2) * below));
}

const classify = (inputShape: readonly number[], classes: number): Task['batch'] => {
  const size = inputShape.reduce((product, dim) => product * dim, 1);
  return (step, first, stop) => {
    const x = values(globalBatch * size, step + 1).slice(first * size, stop * size);
    const y = integers(globalBatch, classes, step + 100).slice(first, stop);
    return {
      x: fromData(x, [stop - first, ...inputShape], 'f32'),
      y: fromData(y, [stop - first], 'i32'),
    };
  };
};

export const tasks = {
  'an odd MLP': {
    build: () => new OddMlp(),
    batch: classify([7], 5),
    loss: (output, y) => nn.functional.crossEntropy(output, y),
  },
  'a GPT': {
    build: () => new TinyGpt(),
    batch: (step, first, stop) => {
      const text = integers(globalBatch * 7, 11, step + 1);
      const at = (shift: number): Tensor =>
        fromData(
          Int32Array.from({ length: (stop - first) * 6 }, (_, i) => {
            const item = first + Math.floor(i / 6);
            return text[item * 7 + (i % 6) + shift] ?? 0;
          }),
          [stop - first, 6],
          'i32',
        );
      return { x: at(0), y: at(1) };
    },
    loss: (output, y) => nn.functional.crossEntropy(output, y),
  },
  'a convolutional net': {
    build: () => new ConvNet(),
    batch: classify([2, 6, 6], 3),
    loss: (output, y) => nn.functional.crossEntropy(output, y),
  },
} as const satisfies Record<string, Task>;

export type TaskName = keyof typeof tasks;
export const taskNames: readonly TaskName[] = Object.keys(tasks).filter((name): name is TaskName =>
  Object.hasOwn(tasks, name),
);
