import { concat, fromData, nn, optim, type Strategy, type Tensor, tensor } from '@shardwise/core';
import {
  colwiseParallel,
  ddp,
  fsdp,
  parallelize,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { describeDifference } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { stateOf, valuesOf } from '../../../test/support/model-values.ts';
import {
  readInput,
  readPrograms,
  type RecordedProgram,
  resultsOf,
} from '../../../test/support/recorded-program.ts';
import { meanOverRanks, oncePerKey, type Trained } from './as-one-rank.ts';

/** The strategies, and whether all ranks get the whole batch. */
const strategies: Readonly<Record<string, { make: () => Strategy; wholeBatch: boolean }>> = {
  DDP: { make: () => ddp(), wholeBatch: false },
  'ZeRO-3': { make: () => zero({ stage: 3 }), wholeBatch: false },
  FSDP: { make: () => fsdp(), wholeBatch: false },
  'tensor parallelism': {
    make: () => tensorParallel({ up: colwiseParallel(), down: rowwiseParallel() }, { axis: 'dp' }),
    wholeBatch: true,
  },
};

/** A case with some operations. Its inputs use the notation of tools/golden-programs.py. */
interface OperationCase {
  readonly name: string;
  readonly inputs: readonly string[];
  readonly compute: (inputs: readonly Tensor[]) => readonly Tensor[];
}

/** The number of cases in one model. */
const part = 60;
/**
 * The factors by which batch items multiply all inputs of floats. They are exact, so that no rank rounds differently.
 */
const scales = [1, 0.5];

const matrix = 'f32 3x4 g: 1 -2 0.5 3 0.25 -1.5 2 1 -1 0.75 -0.5 4';
const other = 'f32 3x4 g: 0.5 1 -2 2 1 0.5 3 -1 0.25 -0.75 1 2';
const mask = 'bool 3x4: 1 0 1 0 0 0 1 1 1 0 0 1';
const { functional } = nn;

/** Operations that recorded programs cannot describe: those with as many rows as the run finds, and losses. */
const furtherCases: readonly OperationCase[] = [
  further('maskedSelect', [matrix, mask], (x, m) => x.maskedSelect(m)),
  further('at by a mask', [matrix, 'bool 3: 1 0 1'], (x, m) => x.at(m).square()),
  further('nonzero', [matrix], (x) => x.nonzero()),
  further('unique', [matrix], (x) => x.unique().square()),
  further('takeRows', [matrix, 'i32 .: 2'], (x, count) => x.takeRows(count).square()),
  further('fillRows', [matrix, 'i32 .: 2'], (x, count) => x.takeRows(count).square().fillRows(3)),
  further('smoothL1Loss', [matrix, other], (x, y) => functional.smoothL1Loss(x, y)),
  further('huberLoss', [matrix, other], (x, y) => functional.huberLoss(x, y)),
  further('klDiv', [matrix, other], (x, y) =>
    functional.klDiv(x.logSoftmax(), y.softmax(-1), { reduction: 'batchMean' }),
  ),
  further('binaryCrossEntropy', [matrix, other], (x, y) =>
    functional.binaryCrossEntropy(x.sigmoid(), y.sigmoid().detach()),
  ),
  further('sigmoidFocalLoss', [matrix, mask], (x, m) =>
    functional.sigmoidFocalLoss(x, m.to('f32')),
  ),
  further('cosineEmbeddingLoss', [matrix, other, 'i32 3: 1 -1 1'], (x, y, t) =>
    functional.cosineEmbeddingLoss(x, y, t),
  ),
  further('tripletMarginLoss', [matrix, other], (x, y) =>
    functional.tripletMarginLoss(x, y, x.flip([0])),
  ),
  further('crossEntropy of probabilities', [matrix, other], (x, y) =>
    functional.crossEntropy(x, y.softmax(-1).detach()),
  ),
  further('ctcLoss', [matrix], (x) =>
    functional.ctcLoss(x.unsqueeze(1).logSoftmax(), tensor([[1, 2]], 'i32'), [3], [2]),
  ),
  further('interpolate', [matrix], (x) =>
    functional.interpolate(x.reshape([1, 1, 3, 4]), { scaleFactor: 2, mode: 'bilinear' }).square(),
  ),
  further('unfold', [matrix], (x) => functional.unfold(x.reshape([1, 1, 3, 4]), 2).square()),
];

function further(
  name: string,
  inputs: readonly string[],
  compute: (...inputs: Tensor[]) => Tensor,
): OperationCase {
  return { name, inputs, compute: (values) => [compute(...values)] };
}

/** Returns all cases, in groups that fit one model. */
function caseParts(): readonly (readonly OperationCase[])[] {
  const recorded = readPrograms(new URL('../../../test/golden/operations.json', import.meta.url));
  const cases = recorded.filter(isFinite).map((program) => ({
    name: program.do.join(', '),
    inputs: program.in,
    compute: (inputs: readonly Tensor[]) => resultsOf(program, inputs),
  }));
  const count = Math.ceil(cases.length / part);
  const parts = Array.from({ length: count }, (_, i) => cases.slice(i * part, (i + 1) * part));
  return [furtherCases, ...parts];
}

/**
 * Whether a program has only finite values. An infinity in one case would spread to the gradient of the layers that all
 * cases share.
 */
function isFinite(program: RecordedProgram): boolean {
  return ![...program.in, ...program.out, ...program.grad].some((line) => /inf|nan/.test(line));
}

/** A case whose trained inputs are its parameters. */
class Case extends nn.Module {
  readonly trained: nn.ParameterList;
  readonly #inputs: readonly (Tensor | null)[];
  readonly #compute: OperationCase['compute'];

  constructor({ inputs, compute }: OperationCase) {
    super();
    const declared = inputs.map(readInput);
    this.trained = new nn.ParameterList(
      declared
        .filter(({ isTrained }) => isTrained)
        .map(({ elements, shape }) => new nn.Parameter(Float32Array.from(elements), shape)),
    );
    this.#inputs = declared.map(({ isTrained, elements, dtype, shape }) =>
      isTrained ? null : tensor(elements, dtype).reshape(shape),
    );
    this.#compute = compute;
  }

  /**
   * Returns the sum of all results and of all trained inputs. DDP expects a gradient of each parameter. Shape: scale []
   * -> [].
   */
  forward(scale: Tensor): Tensor {
    const trained = [...this.trained];
    const inputs = this.#inputs.map((x) => {
      const input = x ?? trained.shift();
      if (input === undefined) throw new RangeError('no such input');
      return input.dtype === 'f32' ? input.mul(scale) : input;
    });
    const summed = [...this.#compute(inputs), ...this.trained];
    return summed.map((y) => y.to('f32').sum()).reduce((sum, y) => sum.add(y));
  }
}

/** Runs each case for each item of a batch. Two layers scale the inputs. */
class OperationsModel extends nn.Module {
  readonly up = new nn.Linear(1, 4, { bias: false });
  readonly down = new nn.Linear(4, 1, { bias: false });
  readonly cases: nn.ModuleList<Case>;

  constructor(cases: readonly OperationCase[]) {
    super();
    this.cases = new nn.ModuleList(cases.map((each) => new Case(each)));
    for (const layer of [this.up, this.down]) {
      const { shape } = layer.weight;
      layer.weight = new nn.Parameter(nn.init.constant(shape, 0.5), shape);
    }
  }

  /** Returns the mean of the batch for each case. Shape: x [B, 1] -> [cases]. */
  forward(x: Tensor): Tensor {
    const factors = this.down.forward(this.up.forward(x));
    const items = Array.from({ length: x.shape[0] ?? 0 }, (_, i) => factors.at(i, 0));
    const each = [...this.cases].map((one) =>
      items.map((item) => one.forward(item)).reduce((sum, y) => sum.add(y)),
    );
    return concat(each.map((y) => y.reshape([1]))).mul(1 / items.length);
  }
}

/** Makes one step of SGD with a learning rate of 1, so that the change of a parameter is its gradient. */
async function train(
  model: OperationsModel,
  forward: (x: Tensor) => Tensor,
  items: readonly number[],
): Promise<Trained> {
  const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
  const losses = forward(fromData(Float32Array.from(items), [items.length, 1], 'f32'));
  losses.sum().backward();
  await optimizer.step();
  return { losses: await valuesOf(losses), state: await stateOf(model) };
}

const size = 2;
const tolerance = { rtol: 1e-3, atol: 1e-4 };
const parts = caseParts();
const alone = oncePerKey((cases: (typeof parts)[number]) => {
  const model = new OperationsModel(cases);
  return train(model, (x) => model.forward(x), scales);
});

it.each(Object.entries(strategies))(
  'under %s, each operation has the values and gradients of one rank',
  async (_, { make, wholeBatch }) => {
    const faults: string[] = [];
    for (const cases of parts) {
      const expected = await alone(cases);
      const ranks = await onRanks(size, async ({ rank }) => {
        const model = new OperationsModel(cases);
        const parallel = await parallelize(model, make());
        const share = scales.length / size;
        const items = wholeBatch ? scales : scales.slice(rank * share, (rank + 1) * share);
        return train(model, (x) => parallel.forward(x), items);
      });
      const means = meanOverRanks(ranks.map(({ losses }) => losses));
      for (const [index, { name }] of cases.entries()) {
        const [loss, wanted] = [means, expected.losses].map((losses) => [losses[index] ?? NaN]);
        const fault = describeDifference(loss ?? [], wanted ?? [], tolerance);
        if (fault !== undefined) faults.push(`loss of ${name}: ${fault}`);
      }
      for (const [parameter, values] of Object.entries(expected.state)) {
        const name = cases[Number(parameter.split('.')[1])]?.name ?? '';
        for (const { state } of ranks) {
          const fault = describeDifference(state[parameter] ?? [], values, tolerance);
          if (fault !== undefined) faults.push(`${parameter} of ${name}: ${fault}`);
        }
      }
    }
    expect(faults).toEqual([]);
  },
);
