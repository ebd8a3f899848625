import { noGrad } from '../../graph/create-node.ts';
import { composed } from '../../realize/pending/small-values.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { allReduce } from '../../tensor/collectives.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { BufferTensor } from '../parameter/parameter.ts';
import { chosenExperts } from './gate.ts';

/** How the biases of experts are updated (Wang et al. 2024, "Auxiliary-loss-free load balancing"). */
export interface BiasUpdate {
  /** The size of one change of a bias. Default: 1e-3. */
  readonly rate?: number;
  /**
   * `sign`: each bias goes up or down by the rate, as in Megatron. `zeroMean`: the mean of these changes is
   * subtracted, so that the sum of the biases stays, as in torchtitan. Default: sign.
   */
  readonly rule?: 'sign' | 'zeroMean';
}

export const biasUpdateRules: OptionRules<BiasUpdate> = {
  rate: option.nonNegative,
  rule: option.oneOf('sign', 'zeroMean'),
};

/** Counts the routes that experts get, and moves their biases by the counts. */
export class ExpertBias {
  readonly #update: BiasUpdate;
  #counts: Tensor | null = null;

  constructor(update: BiasUpdate) {
    this.#update = update;
  }

  /** Adds the routes of a training pass to the counts. Shape: experts i32 [R]. */
  count(experts: Tensor, count: number): void {
    const before = this.#counts;
    this.#counts = composed(() =>
      noGrad(() => {
        const own = chosenExperts(experts, count).sum([0]);
        return before === null ? own : before.add(own);
      }),
    );
  }

  /**
   * Moves the biases by the routes that were counted on the ranks of these axes, and restarts the counts. Shape: bias
   * [E].
   */
  update(bias: BufferTensor, axes: readonly string[]): void {
    const own = this.#counts;
    if (own === null) return;
    this.#counts = null;
    const { rate = 1e-3, rule = 'sign' } = this.#update;
    noGrad(() => {
      const counts = axes.reduce((sum, axis) => allReduce(sum, axis), own);
      const moves = counts.mean().sub(counts).sign().mul(rate);
      bias.assign(bias.add(rule === 'sign' ? moves : moves.sub(moves.mean())));
    });
  }
}
