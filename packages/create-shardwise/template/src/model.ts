import { Linear, Module, type Tensor } from 'shardwise';

/** Two hidden layers. */
export class Classifier extends Module {
  readonly first: Linear;
  readonly second: Linear;
  readonly last: Linear;

  constructor(width: number, classes: number) {
    super();
    this.first = new Linear(2, width);
    this.second = new Linear(width, width);
    this.last = new Linear(width, classes);
  }

  /** Logits of the classes. Shape: x [B, 2] -> [B, classes]. */
  forward(x: Tensor): Tensor {
    const hidden = this.first.forward(x).gelu();
    return this.last.forward(this.second.forward(hidden).gelu());
  }
}
