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

/** The hidden state and the cell state. Shape: each [layers times directions, N, H]. */
export type LSTMState = readonly [hidden: Tensor, cell: Tensor];

/**
 * torch.nn.LSTM (Hochreiter and Schmidhuber 1997). The rows of weights are those of the gates i, f, g, o, in
 * this order.
 */
export class LSTM extends Recurrent {
  /** Throws ConfigError. */
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    super(inputSize, hiddenSize, 4, options);
  }

  /**
   * Without `state`, both states are zeros.
   * Shape: x [T, N, F] (batchFirst: [N, T, F]), state each [L D, N, H] -> [T, N, D H] (batchFirst: [N, T, D
   * H]), each [L D, N, H]. Throws ShapeError.
   */
  forward(x: Tensor, state?: LSTMState): [output: Tensor, state: LSTMState] {
    const { output, states } = composedAll(
      () => this.run(x, state, ['hidden', 'cell']),
      (made) => [made.output, ...made.states],
    );
    return [output, [elementOf(states, 0), elementOf(states, 1)]];
  }

  protected override step(gates: Tensor, state: CellState, cell: Cell): CellState {
    const [hidden, memory] = [elementOf(state, 0), elementOf(state, 1)];
    const all = gates.add(linear(hidden, cell.hiddenWeight, cell.hiddenBias));
    const part = (index: number): Tensor =>
      all.slice(1, index * this.hiddenSize, (index + 1) * this.hiddenSize);
    const kept = part(1).sigmoid().mul(memory);
    const next = kept.add(part(0).sigmoid().mul(part(2).tanh()));
    return [part(3).sigmoid().mul(next.tanh()), next];
  }
}
