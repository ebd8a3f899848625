import { composedAll } from '../../realize/pending/small-values.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { linear } from '../functional/linear.ts';
import {
  type Cell,
  type CellState,
  elementOf,
  Recurrent,
  type RecurrentOptions,
} from './recurrent.ts';

/** torch.nn.GRU (Cho et al. 2014). The rows of weights are those of the gates r, z, n, in this order. */
export class GRU extends Recurrent {
  /** Throws ConfigError. */
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    super(inputSize, hiddenSize, 3, options);
  }

  /**
   * Without `hidden`, the state is zeros.
   * Shape: x [T, N, F] (batchFirst: [N, T, F]), hidden [L D, N, H] -> [T, N, D H] (batchFirst: [N, T, D H]), [L
   * D, N, H]. Throws ShapeError.
   */
  forward(x: Tensor, hidden?: Tensor): [output: Tensor, hidden: Tensor] {
    const { output, states } = composedAll(
      () => this.run(x, hidden && [hidden], ['hidden']),
      (made) => [made.output, ...made.states],
    );
    return [output, elementOf(states, 0)];
  }

  protected override step(gates: Tensor, state: CellState, cell: Cell): CellState {
    const hidden = elementOf(state, 0);
    const own = linear(hidden, cell.hiddenWeight, cell.hiddenBias);
    const part = (x: Tensor, index: number): Tensor =>
      x.slice(1, index * this.hiddenSize, (index + 1) * this.hiddenSize);
    const reset = part(gates, 0).add(part(own, 0)).sigmoid();
    const update = part(gates, 1).add(part(own, 1)).sigmoid();
    const fresh = part(gates, 2)
      .add(reset.mul(part(own, 2)))
      .tanh();
    return [fresh.add(hidden.sub(fresh).mul(update))];
  }
}
