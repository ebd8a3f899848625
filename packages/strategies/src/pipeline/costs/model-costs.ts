import { checkOptions, option, type OptionRules, type Tensor } from '@shardwise/core/extend';
import type { StageCosts } from '../../pipeline-schedule/schedule-costs.ts';

/** What a module costs that a stage may begin with, and all that is computed from it up to the next one. */
export interface ModuleCosts {
  readonly path: string;
  /** Elements. */
  readonly parameters: number;
  /** Parameters, gradients and what the optimizer keeps of them. */
  readonly stateBytes: number;
  /** Floating-point operations of products, forward and backward. */
  readonly flops: number;
  /** What backward reads of the forward pass, and is kept until then; at most, as neighbours may keep one value. */
  readonly activationBytes: number;
  /** What is kept between the gradients of inputs and those of weights: of the forward pass, and of these gradients. */
  readonly weightGradientBytes: number;
  /** What would be sent if the next module began a stage. */
  readonly outputBytes: number;
  /** Null where nothing was measured. */
  readonly times: Pick<StageCosts, 'forwardMs' | 'inputGradientMs' | 'weightGradientMs'> | null;
}

/** What the modules of a model cost for a batch of so many rows. It is data: it prints as JSON, and can be written by hand. */
export interface ModelCosts {
  readonly rows: number;
  /** In the order in which the model calls them. */
  readonly modules: readonly ModuleCosts[];
}

/** Options of `countModelCosts` and `measureModelCosts`. */
export interface ModelCostsOptions {
  /** As pipeline() is given it: it takes the model's output and the last inputs. Default: the model returns its loss. */
  readonly loss?: (output: never, ...targets: never[]) => Tensor;
  /** How many of the inputs are the model's, as pipeline() is given it. Default: as many as forward() has parameters. */
  readonly inputs?: number;
  /** Tensors of f32 that the optimizer keeps of each parameter. Default: 2, which are Adam's. */
  readonly optimizerTensors?: number;
}

export const modelCostsRules: OptionRules<ModelCostsOptions> = {
  loss: option.callback(),
  inputs: option.integer(0),
  optimizerTensors: option.nonNegative,
};

export function checkModelCostsOptions(asked: string, options: ModelCostsOptions): void {
  checkOptions(asked, options, modelCostsRules);
}
