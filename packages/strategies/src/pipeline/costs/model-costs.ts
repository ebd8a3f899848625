import {
  checkOptions,
  type Module,
  option,
  type OptionRules,
  requireModule,
  type Tensor,
} from '@shardwise/core/extend';
import type { StageCosts } from '../../pipeline-schedule/simulation/schedule-costs.ts';

/**
 * The costs of a module with which a stage may begin, and of everything that is computed from its result up to
 * the next such module.
 */
export interface ModuleCosts {
  readonly path: string;
  /** The number of elements of the parameters. */
  readonly parameters: number;
  /** The number of the parameters' tensors, each of which strategies that divide states send by itself. Default: not known. */
  readonly parameterTensors?: number;
  /**
   * What ZeRO-3 and FSDP gather again for the backward pass: the parameters that it reads, of units that are not whole until
   * then. Each tensor travels by itself. Default: all parameters.
   */
  readonly regathered?: { readonly elements: number; readonly tensors: number };
  /** The same under a checkpoint, where the backward pass computes the forward pass again. Default: all parameters. */
  readonly regatheredUnderCheckpoint?: { readonly elements: number; readonly tensors: number };
  /** The bytes of parameters, gradients and optimizer states. */
  readonly stateBytes: number;
  /** The floating-point operations of products in the forward and backward pass. */
  readonly flops: number;
  /**
   * Those of the forward pass that a backward pass reads, and computes again under a checkpoint. Default: all of the forward
   * pass, a third of `flops`.
   */
  readonly recomputedFlops?: number;
  /** The number of operations of the graph in the forward and backward pass, whatever they compute. Default: not known. */
  readonly calls?: number;
  /**
   * The bytes of the forward pass that are kept because the backward pass reads them. This is an upper bound,
   * because neighbouring modules may keep the same value.
   */
  readonly activationBytes: number;
  /**
   * The bytes that are kept between the gradients of inputs and those of weights, from the forward pass and
   * from these gradients.
   */
  readonly weightGradientBytes: number;
  /** The bytes that would be sent if the next module began a stage. */
  readonly outputBytes: number;
  /** The measured times. Null if nothing was measured. */
  readonly times: Pick<StageCosts, 'forwardMs' | 'inputGradientMs' | 'weightGradientMs'> | null;
}

/**
 * The costs of the modules of a model for a batch of `rows` rows. It is data: it can be printed as JSON, or
 * written by hand.
 */
export interface ModelCosts {
  readonly rows: number;
  /** The bytes of the inputs and the targets, which lie in memory during a pass. Default: not known. */
  readonly inputBytes?: number;
  /** The modules, in the order in which the model calls them. */
  readonly modules: readonly ModuleCosts[];
}

/** Options of `countModelCosts` and `measureModelCosts`. */
export interface ModelCostsOptions {
  /**
   * The loss, as for pipeline(). It takes the model's output and the last inputs. Default: the model returns
   * its loss.
   */
  readonly loss?: (output: never, ...targets: never[]) => Tensor;
  /**
   * The number of inputs that the model takes, as for pipeline(). Default: the number of parameters of
   * forward().
   */
  readonly inputs?: number;
  /** The number of f32 tensors that the optimizer keeps for each parameter. Default: 2, as in Adam. */
  readonly optimizerTensors?: number;
}

const modelCostsRules: OptionRules<ModelCostsOptions> = {
  loss: option.callback(),
  inputs: option.integer(0),
  optimizerTensors: option.nonNegative,
};

const inputsRules = { inputs: option.required(option.listOf(option.checkedLater<unknown>())) };

/** Throws ConfigError for what is no module, for inputs that are no list, and for options out of range. */
export function checkModelCostsOf(
  asked: string,
  model: Module,
  inputs: readonly unknown[],
  options: ModelCostsOptions,
): void {
  requireModule(asked, model);
  checkOptions(asked, { inputs }, inputsRules);
  checkOptions(asked, options, modelCostsRules);
}
