import { ConfigError, type Model, type Module, noGrad, Tensor } from '@shardwise/core/extend';
import type { PlannedModelWithLoss } from './planned-model.ts';

/** A list of values. A single tensor may stand for a list with only this tensor. */
type ListOf<Values extends readonly unknown[]> = Values extends readonly [Tensor]
  ? Values | Tensor
  : Values;

/**
 * Steps of a pipeline as in torch.distributed.pipelining: one call does the forward and backward pass of all
 * microbatches by the pipeline's schedule.
 *
 *     const parallel = await parallelize(model, pipeline({ schedule: '1f1b', microbatches: 8, loss }));
 *     const schedule = new PipelineRunner(parallel);
 *     const loss = schedule.step(inputs, targets);
 *     await optimizer.step();
 */
export class PipelineRunner<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Targets extends readonly unknown[],
> {
  readonly #model: (...inputs: readonly unknown[]) => unknown;

  /** `model` is the result of `parallelize` for a pipeline with a loss. */
  constructor(model: PlannedModelWithLoss<M, Inputs, Output, Targets>);
  constructor(model: Model<readonly unknown[], unknown>) {
    this.#model = (...inputs) => model.forward(...inputs);
  }

  /** Adds the gradients of a batch. Returns its loss, which all ranks have. Shape: -> []. */
  step(inputs: ListOf<Inputs>, targets: ListOf<Targets>): Tensor {
    const loss = this.#lossOf(inputs, targets);
    loss.backward();
    return loss;
  }

  /** The loss of a batch, without gradients. Shape: -> []. */
  eval(inputs: ListOf<Inputs>, targets: ListOf<Targets>): Tensor {
    return noGrad(() => this.#lossOf(inputs, targets));
  }

  #lossOf(...lists: readonly unknown[]): Tensor {
    const loss = this.#model(...lists.flatMap((list) => (Array.isArray(list) ? list : [list])));
    if (loss instanceof Tensor) return loss;
    throw new ConfigError({
      asked: 'a step of a pipeline',
      found: 'a model that returns no loss',
      todo: 'Give the pipeline a loss: pipeline({ loss, … })',
    });
  }
}
