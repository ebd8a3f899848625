import { requireApproximation } from '../tensor/check-arguments.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { Module } from './module.ts';

/** max(x, 0). */
export class ReLU extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.relu();
  }
}

/** x Φ(x) (Hendrycks and Gimpel 2016): exact, or with the tanh approximation of GPT-2. */
export class GELU extends Module {
  readonly approximate: 'none' | 'tanh';

  constructor(approximate: 'none' | 'tanh' = 'none') {
    super();
    requireApproximation('GELU', approximate);
    this.approximate = approximate;
  }

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.gelu(this.approximate);
  }

  protected override describe(): string {
    return `approximate='${this.approximate}'`;
  }
}

/** x sigmoid(x). */
export class SiLU extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.silu();
  }
}

/** 1 / (1 + exp(-x)). */
export class Sigmoid extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.sigmoid();
  }
}

/** Hyperbolic tangent. */
export class Tanh extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.tanh();
  }
}
