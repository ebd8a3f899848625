import { autocast, manualSeed, type Model, nn, optim, profiler, type Tensor } from 'shardwise';
import { GPT } from '../examples/gpt/model.ts';
import type { Precision } from './precision.ts';
import { batchOf, type Workload, workload } from './workload.ts';

export interface StepTimes {
  readonly ms: number;
  /** The processor time of all threads of this process. */
  readonly cpuMs: number;
  /** The time to build the graph of forward, backward and update. */
  readonly buildMs: number;
  /** The time to collect that graph and to look up its plan. */
  readonly graphMs: number;
  readonly loss: number;
}

type TokenModel = Model<readonly [ids: Tensor], Tensor>;

/** Makes the model of a workload, with the initial weights that PyTorch gives for the same seed. */
export function buildModel(of: Workload = workload): GPT {
  manualSeed(of.seed);
  return new GPT({
    vocabularySize: of.vocabulary,
    contextLength: of.context,
    layers: of.layers,
    heads: of.heads,
    channels: of.width,
  });
}

/** Makes a training of the workload on one rank alone. */
export function trainAlone(rank = 0, precision: Precision = 'f32'): Training {
  const model = buildModel();
  return new Training(model, model.parameters(), { rank, precision });
}

export interface TrainingOptions {
  /** The rank whose batches it takes. Default: 0. */
  readonly rank?: number;
  /** The number of rows of a batch. Default: that of the workload. */
  readonly batch?: number | undefined;
  /** The precision of products. Default: f32. */
  readonly precision?: Precision;
  /** A term that is added to the loss, as for layers of experts. */
  readonly auxiliaryLoss?: () => Tensor;
}

/** A model in training. It continues from round to round. */
export class Training {
  readonly #model: TokenModel;
  readonly #optimizer: optim.AdamW;
  readonly #rank: number;
  readonly #batch: number | undefined;
  readonly #precision: Precision;
  readonly #auxiliaryLoss: (() => Tensor) | undefined;
  #step = 0;

  constructor(model: TokenModel, parameters: nn.Parameter[], options: TrainingOptions = {}) {
    this.#model = model;
    this.#rank = options.rank ?? 0;
    this.#batch = options.batch;
    this.#precision = options.precision ?? 'f32';
    this.#auxiliaryLoss = options.auxiliaryLoss;
    this.#optimizer = new optim.AdamW(parameters, {
      lr: workload.learningRate,
      weightDecay: workload.weightDecay,
    });
  }

  async run(steps: number): Promise<StepTimes[]> {
    const times: StepTimes[] = [];
    for (let index = 0; index < steps; index++) times.push(await this.#runStep());
    return times;
  }

  async #runStep(): Promise<StepTimes> {
    const { inputs, targets } = batchOf(this.#step++, this.#rank, this.#batch);
    const graphBefore = profiler.statistics().graphMs;
    const cpuBefore = process.cpuUsage();
    const start = performance.now();
    this.#optimizer.zeroGrad();
    const loss = autocast({ dtype: 'bf16', enabled: this.#precision === 'bf16' }, () =>
      nn.functional.crossEntropy(this.#model.forward(inputs), targets),
    );
    const auxiliary = this.#auxiliaryLoss?.();
    (auxiliary === undefined ? loss : loss.add(auxiliary)).backward();
    const updated = this.#optimizer.step();
    const buildMs = performance.now() - start;
    await updated;
    const value = await loss.item();
    const ms = performance.now() - start;
    const { user, system } = process.cpuUsage(cpuBefore);
    return {
      ms,
      cpuMs: (user + system) / 1000,
      buildMs,
      graphMs: profiler.statistics().graphMs - graphBefore,
      loss: value,
    };
  }
}
