import { fromData, nn, type Tensor } from '@shardwise/core';

/** The letters in shapes are B batch, F features and K classes. */
export const features = 12;
export const classes = 3;
export const batch = 16;

/** A model with two hidden layers, each a stage for one of two ranks. */
export class Classifier extends nn.Module {
  readonly first: nn.Linear = new nn.Linear(features, 32);
  readonly second: nn.Linear = new nn.Linear(32, 32);
  readonly last: nn.Linear = new nn.Linear(32, classes);

  /** Shape: x [B, F] -> [B, K]. */
  forward(x: Tensor): Tensor {
    const hidden = this.first.forward(x).relu();
    return this.last.forward(this.second.forward(hidden).gelu());
  }
}

/**
 * Returns rows `from` to `to` of a step's batch. The numbers are the same everywhere. Shape: x [B, F], labels i32 [B].
 */
export function rowsOf(step: number, from: number, to: number): { x: Tensor; labels: Tensor } {
  const numbers = new Float32Array((to - from) * features);
  const labels = new Int32Array(to - from);
  for (let row = from; row < to; row++) {
    let sum = 0;
    for (let feature = 0; feature < features; feature++) {
      const value = Math.sin(row * 7.1 + feature * 3.3 + step * 1.7) ** 3;
      numbers[(row - from) * features + feature] = value;
      sum += feature % 3 === 0 ? value : 0;
    }
    labels[row - from] = sum < -0.3 ? 0 : sum < 0.3 ? 1 : 2;
  }
  return {
    x: fromData(numbers, [to - from, features], 'f32'),
    labels: fromData(labels, [to - from], 'i32'),
  };
}
