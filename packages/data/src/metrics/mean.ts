import { Metric } from './metric.ts';
import { readRows, requireSameShape, rowCount, type RowValues } from './rows.ts';

/**
 * The weighted mean of the rows of all ranks, as the loss of an evaluation: `torchmetrics.MeanMetric`. The weights of a
 * language model's losses are the numbers of tokens that they are means over, so that long texts count more.
 */
export class MeanMetric extends Metric {
  #sum = 0;
  #weight = 0;

  /**
   * Adds the rows of a batch. Weights are 1 unless they are given. With a value for each token, a weight of 0 leaves out
   * padding. Shape: values [rows, ..], weights of the same shape.
   */
  async update(values: RowValues, weights?: RowValues): Promise<void> {
    const rows = await readRows(values);
    const weightRows = weights === undefined ? undefined : await readRows(weights);
    if (weightRows !== undefined) requireSameShape(rows, weightRows);
    const count = rowCount(rows);
    const counted = this.countRows(count);
    const end = count === 0 ? 0 : (rows.values.length / count) * counted;
    for (let i = 0; i < end; i++) {
      const weight = Number(weightRows?.values[i] ?? 1);
      // What has no weight may be anything, also NaN.
      if (weight === 0) continue;
      this.#sum += weight * Number(rows.values[i]);
      this.#weight += weight;
    }
  }

  /** NaN if no row has a weight. */
  override async compute(): Promise<number> {
    const [sum = 0, weight = 0] = await this.sum([this.#sum, this.#weight]);
    return sum / weight;
  }

  protected override clear(): void {
    this.#sum = 0;
    this.#weight = 0;
  }
}

/** The exponential of the mean loss of a token. Update it with losses, and with the numbers of their tokens. */
export class Perplexity extends MeanMetric {
  override async compute(): Promise<number> {
    return Math.exp(await super.compute());
  }
}
