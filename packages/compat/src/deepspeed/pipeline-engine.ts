import { concat, describeValue, type Module, noGrad, Tensor } from '@shardwise/core/extend';
import { ConfigError, DataError } from 'shardwise';
import { DeepSpeedEngine } from './engine.ts';

/**
 * An engine whose model is cut into stages. A batch passes through them in as many microbatches as
 * gradient_accumulation_steps says.
 */
export class PipelineEngine<
  M extends Module,
  Inputs extends readonly unknown[],
  Targets extends readonly unknown[],
> extends DeepSpeedEngine<M, [...Inputs, ...Targets], Tensor> {
  /**
   * Takes as many microbatches as an update has, trains with them, and returns their mean loss. Each is the model's inputs
   * and then the targets, with tensors that have rows. Shape: -> [].
   */
  async trainBatch(
    batches: Iterator<[...Inputs, ...Targets]> | AsyncIterator<[...Inputs, ...Targets]>,
  ): Promise<Tensor> {
    this.train();
    const loss = this.forward(...(await this.#batch(batches)));
    this.backward(loss);
    await this.step();
    return loss;
  }

  /** The loss of as many microbatches as an update has, without gradients. Shape: -> []. */
  async evalBatch(
    batches: Iterator<[...Inputs, ...Targets]> | AsyncIterator<[...Inputs, ...Targets]>,
  ): Promise<Tensor> {
    this.eval();
    const batch = await this.#batch(batches);
    const loss = noGrad(() => this.forward(...batch));
    this.train();
    return loss;
  }

  async #batch(
    batches: Iterator<[...Inputs, ...Targets]> | AsyncIterator<[...Inputs, ...Targets]>,
  ): Promise<[...Inputs, ...Targets]> {
    const count = this.gradientAccumulationSteps;
    const rows: [...Inputs, ...Targets][] = [];
    while (rows.length < count) {
      const { done, value } = await batches.next();
      if (done === true) {
        throw new DataError(
          {
            asked: `a batch of ${count} microbatches`,
            found: `an end of the data after ${rows.length}`,
            todo: 'Begin the data again, or leave out a batch that is not complete',
          },
          { count, found: rows.length },
        );
      }
      rows.push(value);
    }
    const [first] = rows;
    if (first === undefined) throw new RangeError('no microbatches');
    return rows.length === 1 ? first : joined(rows, first);
  }
}

/** One batch of the rows of several. Shapes: each tensor [rows, ..] -> [rows of all, ..]. */
function joined<Row extends readonly unknown[]>(rows: readonly Row[], first: Row): Row;
function joined(
  rows: readonly (readonly unknown[])[],
  first: readonly unknown[],
): readonly unknown[] {
  return first.map((value, place) => {
    const values = rows.map((row) => row[place]);
    if (values.every((each) => each === undefined)) return value;
    return concat(
      values.map((each) => {
        if (each instanceof Tensor && each.ndim > 0) return each;
        throw new ConfigError({
          asked: `microbatches whose element ${place} is ${describeValue(each)}`,
          found: 'no tensor with rows',
          todo: 'Give the inputs and targets of each microbatch as tensors',
        });
      }),
      0,
    );
  });
}
