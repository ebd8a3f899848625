import { nn, type Tensor } from 'shardwise';

/** A classifier of points with two hidden layers. */
export class Classifier extends nn.Module {
  readonly first: nn.Linear;
  readonly second: nn.Linear;
  readonly last: nn.Linear;

  constructor(width: number, classes: number) {
    super();
    this.first = new nn.Linear(2, width);
    this.second = new nn.Linear(width, width);
    this.last = new nn.Linear(width, classes);
  }

  /** Returns the logits of the classes. Shape: x [B, 2] -> [B, classes]. */
  forward(x: Tensor): Tensor {
    const hidden = this.first.forward(x).gelu();
    return this.last.forward(this.second.forward(hidden).gelu());
  }
}
