import { fromData, nn, type Tensor } from '@shardwise/core';
import type { StrategyModel } from './strategy-case.ts';

/** The number of rows of a batch, which 1, 2, 3, 4 and 6 ranks divide evenly. */
const ROWS = 12;

/** An MLP with sizes that no number of ranks divides, a scalar parameter, and a module that is used twice. */
class OddMlp extends nn.Module {
  readonly layers = new nn.ModuleList([
    new nn.Linear(7, 13),
    new nn.Linear(13, 13),
    new nn.Linear(13, 5),
  ]);
  readonly temperature = new nn.Parameter(Float32Array.of(1), []);

  /** Shape: x [B, 7] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    const [first, second, third] = this.layers;
    if (first === undefined || second === undefined || third === undefined) throw new RangeError();
    const hidden = second.forward(second.forward(first.forward(x).gelu()).tanh());
    return third.forward(hidden).div(this.temperature.exp());
  }
}

/** An MLP with a weight that two modules share, and with frozen parameters. */
class TiedMlp extends nn.Module {
  readonly up = new nn.Linear(7, 6);
  readonly layers = new nn.ModuleList([new nn.Linear(6, 6), new nn.Linear(6, 6)]);
  readonly middle = new nn.Linear(6, 6, { bias: false });
  readonly down = new nn.Linear(6, 5);

  constructor() {
    super();
    const [first, second] = this.layers;
    if (first === undefined || second === undefined) throw new RangeError();
    this.middle.weight = second.weight;
    first.weight.requiresGrad_(false);
    first.bias?.requiresGrad_(false);
  }

  /** Shape: x [B, 7] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    let h = this.up.forward(x).tanh();
    for (const layer of this.layers) h = layer.forward(h).tanh();
    return this.down.forward(this.middle.forward(h).tanh());
  }
}

/** A network with batch norm, whose buffers the ranks have in common. */
class NormedNet extends nn.Module {
  readonly conv = new nn.Conv2d(2, 5, 3, { padding: 1 });
  readonly norm = new nn.BatchNorm2d(5);
  readonly head = new nn.Linear(5 * 16, 5);

  /** Shape: x [B, 2, 4, 4] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    return this.head.forward(this.norm.forward(this.conv.forward(x)).relu().flatten(1));
  }
}

function values(count: number, seed: number): Float32Array<ArrayBuffer> {
  let state = (seed * 2_654_435_761 + 12_345) | 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state / 2 ** 31;
  });
}

function classify(build: StrategyModel['build'], shape: readonly number[]): StrategyModel {
  const size = shape.reduce((product, dim) => product * dim, 1);
  return {
    build,
    rows: ROWS,
    batch: (step, first, stop) => ({
      x: fromData(
        values(ROWS * size, step + 1).slice(first * size, stop * size),
        [stop - first, ...shape],
        'f32',
      ),
      y: fromData(
        Int32Array.from(values(ROWS, step + 100).slice(first, stop), (v) =>
          Math.floor((v + 1) * 2.5),
        ),
        [stop - first],
        'i32',
      ),
    }),
    loss: (output, y) => nn.functional.crossEntropy(output, y),
  };
}

/** The models that every strategy is tested with. */
export const contractModels: Readonly<Record<string, StrategyModel>> = {
  'an MLP of odd sizes': classify(() => new OddMlp(), [7]),
  'an MLP with frozen and shared weights': classify(() => new TiedMlp(), [7]),
  'a net with batch norm': classify(() => new NormedNet(), [2, 4, 4]),
};
