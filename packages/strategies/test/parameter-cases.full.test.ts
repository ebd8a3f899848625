import { fromData, nn, noGrad, optim, type Strategy, type Tensor } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';

/** The strategies. DDP has no `findUnusedParameters` if all parameters are used, as in user code. */
const strategies: Readonly<Record<string, (allUsed: boolean) => Strategy>> = {
  DDP: (allUsed) => ddp({ findUnusedParameters: !allUsed }),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2, bucketBytes: 64 }),
  'ZeRO-3': () => zero({ stage: 3, unitOf: ofLayer }),
  FSDP: () => fsdp({ unitOf: ofLayer }),
};

/** Makes each layer a unit. */
function ofLayer(name: string): string {
  return name.includes('.') ? name.slice(0, name.lastIndexOf('.')) : '';
}

type Net = nn.Module & { forward(x: Tensor): Tensor };

/** Two layers with the sizes 7, 5 and 1. Neither their rows nor their elements can be divided by 2, 3 or 4. */
class Odd extends nn.Module {
  readonly up = new nn.Linear(7, 5);
  readonly down = new nn.Linear(5, 1);

  /** Shape: x [B, 7] -> [B, 1]. */
  forward(x: Tensor): Tensor {
    return this.down.forward(this.up.forward(x).tanh());
  }
}

/** A model with a scale without dims and a shift of one element. */
class Tiny extends nn.Module {
  readonly layer = new nn.Linear(7, 2, { bias: false });
  readonly scale = new nn.Parameter(Float32Array.of(1.5), []);
  readonly shift = new nn.Parameter(Float32Array.of(-0.5), [1]);

  /** Shape: x [B, 7] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    return this.layer.forward(x).mul(this.scale).add(this.shift);
  }
}

/** A model in which one whole layer and the bias of another layer do not train. */
class Frozen extends Odd {
  readonly first = new nn.Linear(7, 7);

  constructor() {
    super();
    this.first.requiresGrad_(false);
    this.down.bias?.requiresGrad_(false);
  }

  /** Shape: x [B, 7] -> [B, 1]. */
  override forward(x: Tensor): Tensor {
    return super.forward(this.first.forward(x).gelu());
  }
}

/** Two layers in different units share one weight. */
class Tied extends nn.Module {
  readonly first = new nn.Linear(7, 7);
  readonly second = new nn.Linear(7, 7);

  constructor() {
    super();
    this.second.weight = this.first.weight;
  }

  /** Shape: x [B, 7] -> the same. */
  forward(x: Tensor): Tensor {
    return this.second.forward(this.first.forward(x).tanh());
  }
}

class UsedTwice extends nn.Module {
  readonly layer = new nn.Linear(7, 7);
  readonly head = new nn.Linear(7, 3);

  /** Shape: x [B, 7] -> [B, 3]. */
  forward(x: Tensor): Tensor {
    return this.head.forward(this.layer.forward(this.layer.forward(x).tanh()));
  }
}

class NeverUsed extends Odd {
  readonly spare = new nn.Linear(3, 5);
}

const models: Readonly<Record<string, () => Net>> = {
  'parameters that the world does not divide': () => new Odd(),
  'parameters with fewer elements than there are ranks': () => new Tiny(),
  'frozen parameters': () => new Frozen(),
  'a parameter that two modules share': () => new Tied(),
  'a module that is used twice': () => new UsedTwice(),
  'a module that is never used': () => new NeverUsed(),
};

interface Outcome {
  losses: number[];
  parameters: Record<string, number[]>;
  /** The names of values that are the same at the start and at the end. */
  unchanged: string[];
}

/** The number of items in the batch of all ranks. 1 to 4 ranks share it evenly. */
const globalBatch = 12;

/** Trains on this rank. */
async function trainPart(
  name: string,
  strategy: Strategy,
  rank: number,
  size: number,
): Promise<Outcome> {
  const model = filled(models[name]?.() ?? new Odd());
  const parallel = await parallelize(model, strategy);
  return train(model, (x) => parallel.forward(x), rank, size);
}

/** Trains on one rank without a strategy. */
function trainAlone(name: string): Promise<Outcome> {
  const model = filled(models[name]?.() ?? new Odd());
  return train(model, (x) => model.forward(x), 0, 1);
}

/** Fills a model with values that are the same on every rank and are not drawn. */
function filled(model: Net): Net {
  let index = 0;
  noGrad(() => {
    for (const parameter of model.parameters()) {
      const values = Float32Array.from({ length: parameter.numel }, () => Math.sin(++index) / 2);
      parameter.assign(fromData(values, parameter.shape, 'f32'));
    }
  });
  return model;
}

async function train(
  model: Net,
  forward: (x: Tensor) => Tensor,
  rank: number,
  size: number,
): Promise<Outcome> {
  // There is no weight decay, because under ddp a parameter that no rank uses has a gradient of zeros.
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.05 });
  const before = await parametersOf(model);
  const share = globalBatch / size;
  const losses: number[] = [];
  for (let step = 0; step < 4; step++) {
    optimizer.zeroGrad();
    const first = rank * share * 7;
    const values = Float32Array.from({ length: share * 7 }, (_, i) =>
      Math.sin(step * 31 + (first + i) * 1.7),
    );
    const y = forward(fromData(values, [share, 7], 'f32'));
    const loss = nn.functional.mseLoss(y, y.detach().mul(0).add(0.25));
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  const parameters = await parametersOf(model);
  const unchanged = Object.keys(parameters).filter(
    (name) => JSON.stringify(parameters[name]) === JSON.stringify(before[name]),
  );
  return { losses, parameters, unchanged };
}

async function parametersOf(model: nn.Module): Promise<Record<string, number[]>> {
  const parameters: Record<string, number[]> = {};
  for (const [name, { bytes }] of Object.entries(await model.stateDict())) {
    parameters[name] = Array.from(new Float32Array(bytes.slice().buffer));
  }
  return parameters;
}

/** The parameters that keep their values in some cases. */
const kept: Readonly<Record<string, readonly string[]>> = {
  'frozen parameters': ['down.bias', 'first.weight', 'first.bias'],
  'a module that is never used': ['spare.weight', 'spare.bias'],
};

/** Every strategy with every model, each on one of the sizes, so that each size meets all strategies and all models. */
const cases = Object.entries(strategies).flatMap(([title, strategy], row) =>
  Object.keys(models).map((model, column) => {
    const size = [2, 3, 4][(row + column) % 3] ?? 2;
    return { title, strategy, model, size };
  }),
);

it.each(cases)(
  '$title on $size ranks trains as one rank does: $model',
  async ({ strategy, model, size }) => {
    const [expected] = await onRanks(1, () => trainAlone(model));
    const chosen = strategy(model !== 'a module that is never used');
    const each = await onRanks(size, ({ rank }) => trainPart(model, chosen, rank, size));
    expect(expected?.losses).toHaveLength(4);
    expected?.losses.forEach((loss, step) => {
      const mean = each.reduce((sum, { losses }) => sum + (losses[step] ?? NaN), 0) / size;
      expect(Math.abs(mean - loss) / loss).toBeLessThan(1e-5);
    });
    for (const { parameters, unchanged } of each) {
      expect(parameters).toEqual(each[0]?.parameters);
      expect(Object.keys(parameters)).toEqual(Object.keys(expected?.parameters ?? {}));
      expect(unchanged).toEqual(kept[model] ?? []);
      for (const [parameter, values] of Object.entries(parameters)) {
        values.forEach((value, index) => {
          const difference = value - (expected?.parameters[parameter]?.[index] ?? NaN);
          expect(Math.abs(difference), `${parameter}[${index}]`).toBeLessThan(2e-5);
        });
      }
    }
  },
);
