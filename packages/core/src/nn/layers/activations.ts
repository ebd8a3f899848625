import { checkOptions, requireIntegers } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { requireApproximation } from '../../tensor/check-arguments.ts';
import { requireNoMore } from '../../tensor/check-calls.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { Module } from '../module/module.ts';

const slopeRules: OptionRules<{ negativeSlope: number }> = {
  negativeSlope: option.required(option.number),
};
const alphaRules: OptionRules<{ alpha: number }> = { alpha: option.required(option.number) };

/** The rectifier: max(x, 0). */
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

/** The hyperbolic tangent. */
export class Tanh extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.tanh();
  }
}

/** x if it is at least 0, otherwise negativeSlope x. */
export class LeakyReLU extends Module {
  readonly negativeSlope: number;

  /** Throws ConfigError. */
  constructor(negativeSlope = 0.01) {
    super();
    checkOptions('LeakyReLU', { negativeSlope }, slopeRules);
    this.negativeSlope = negativeSlope;
  }

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.leakyRelu(this.negativeSlope);
  }

  protected override describe(): string {
    return `negativeSlope=${this.negativeSlope}`;
  }
}

/** x if it is at least 0, otherwise alpha (exp(x) - 1) (Clevert et al. 2016). */
export class ELU extends Module {
  readonly alpha: number;

  /** Throws ConfigError. */
  constructor(alpha = 1) {
    super();
    checkOptions('ELU', { alpha }, alphaRules);
    this.alpha = alpha;
  }

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.elu(this.alpha);
  }

  protected override describe(): string {
    return `alpha=${this.alpha}`;
  }
}

/** log(1 + exp(x)). */
export class Softplus extends Module {
  /** Throws ConfigError for PyTorch's `beta` and `threshold`, which are always 1 and 20. */
  constructor(...more: readonly never[]) {
    super();
    requireNoMore('Softplus', 0, more);
  }

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.softplus();
  }
}

/** x tanh(softplus(x)) (Misra 2020). */
export class Mish extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.mish();
  }
}

/** Probabilities along a dim. For a loss, pass logits to crossEntropy instead. */
export class Softmax extends Module {
  readonly dim: number;

  constructor(dim = -1) {
    super();
    requireIntegers('Softmax', { dim });
    this.dim = dim;
  }

  /** Shape: x N -> N. Throws ShapeError for a dim that x does not have. */
  forward(x: Tensor): Tensor {
    return x.softmax(this.dim);
  }

  protected override describe(): string {
    return `dim=${this.dim}`;
  }
}

/** Logarithms of probabilities along a dim, for nllLoss. */
export class LogSoftmax extends Module {
  readonly dim: number;

  constructor(dim = -1) {
    super();
    requireIntegers('LogSoftmax', { dim });
    this.dim = dim;
  }

  /** Shape: x N -> N. Throws ShapeError for a dim that x does not have. */
  forward(x: Tensor): Tensor {
    return x.logSoftmax(this.dim);
  }

  protected override describe(): string {
    return `dim=${this.dim}`;
  }
}
