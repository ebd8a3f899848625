import {
  checkOptions,
  type Model,
  type Module,
  noGrad,
  option,
  type OptionRules,
  requireModule,
  type Tensor,
} from '@shardwise/core/extend';
import { parallelize } from './parallelize.ts';
import type { PlannedModel, PlannedModelWithLoss } from './planned-model.ts';
import { forEachTensor } from '../modules/map-tensors.ts';
import { refuseBackward } from '../pipeline/passes/pass-errors.ts';
import { pipeline } from '../pipeline/pipeline.ts';

/** Options of `GPipe`. */
export interface GPipeOptions {
  /**
   * The number of microbatches into which the rows of a batch are cut. A batch with fewer rows has one microbatch for
   * each row. Default: 1.
   */
  readonly chunks?: number;
  /**
   * Paths of the modules with which stages 1 and later begin. Default: the largest stage has as few parameters
   * as possible.
   */
  readonly cut?: readonly string[];
  /**
   * Whether the running statistics of batch norms are updated once for each batch, and not for each microbatch.
   * Default: false.
   */
  readonly deferredBatchNorm?: boolean;
  /** The mesh axis whose ranks have the stages. All of them get the same batch. Default: `pp`. */
  readonly axis?: string;
}

/** Options of a GPipe that trains. */
export interface GPipeWithLoss<Output, Targets extends readonly unknown[]> extends GPipeOptions {
  /** The loss of a microbatch, which must be a mean over rows. Shape: -> []. */
  readonly loss: (output: Output, ...targets: Targets) => Tensor;
}

interface AnyLoss {
  readonly loss?: (...inputs: never[]) => Tensor;
}

const optionRules: OptionRules<GPipeOptions & AnyLoss> = {
  chunks: option.integer(1),
  cut: option.checkedLater(),
  deferredBatchNorm: option.flag,
  axis: option.axisName,
  loss: option.callback(),
};

/**
 * A model whose microbatches pass through stages as in GPipe: torch.distributed.pipeline.sync.Pipe (Huang et
 * al. 2019). It is `parallelize` with the strategy `pipeline({ schedule: 'gpipe' })`, which the first pass
 * applies. So forward returns a promise, where PyTorch returns a remote reference.
 *
 *     const model = new GPipe(new nn.Sequential(fc1, fc2), { chunks: 8 });
 *     const output = await model.forward(input);
 */
export class GPipe<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Targets extends readonly unknown[] = [],
> {
  readonly #carryOut: () => Promise<PlannedModel<M, readonly unknown[], unknown>>;
  readonly #hasLoss: boolean;
  #planned: Promise<PlannedModel<M, readonly unknown[], unknown>> | null = null;

  /** Throws ConfigError for options out of range. */
  constructor(model: M & Model<Inputs, Output>, options: GPipeWithLoss<Output, Targets>);
  constructor(model: M & Model<Inputs, Output>, options?: GPipeOptions);
  constructor(model: M & Model<readonly unknown[], unknown>, options: GPipeOptions & AnyLoss = {}) {
    requireModule('GPipe', model);
    checkOptions('GPipe', options, optionRules);
    const { chunks = 1, ...others } = options;
    const strategy = pipeline({ ...others, schedule: 'gpipe', microbatches: chunks });
    this.#hasLoss = options.loss !== undefined;
    this.#carryOut = () => parallelize(model, strategy);
  }

  /**
   * The model in stages. Make optimizers of its parameters. The first call is a collective. Throws LayoutError
   * for a model that cannot be cut in this way.
   */
  ready(): Promise<PlannedModelWithLoss<M, Inputs, Output, Targets>>;
  ready(): Promise<PlannedModel<M, readonly unknown[], unknown>> {
    this.#planned ??= this.#carryOut();
    return this.#planned;
  }

  /**
   * With targets, it returns the loss of the batch, whose backward() trains. Without targets, and in a GPipe
   * without a loss, it returns what the model returns. Rank `size - 1` of the axis has this output, and
   * `onEveryRank` gives it to all ranks. Its backward() is refused, because a loss outside of the stages cannot
   * reach them.
   */
  async forward(...inputs: [...Inputs, ...Targets]): Promise<Targets extends [] ? Output : Tensor>;
  async forward(...inputs: readonly unknown[]): Promise<unknown> {
    this.#planned ??= this.#carryOut();
    const planned = await this.#planned;
    if (this.#hasLoss) return planned.forward(...inputs);
    const output = noGrad(() => planned.forward(...inputs));
    forEachTensor(output, ({ node }) => {
      // A tensor that the model returns unchanged must not be altered.
      if (node.op !== 'input') refuseBackward(node);
    });
    return output;
  }
}
