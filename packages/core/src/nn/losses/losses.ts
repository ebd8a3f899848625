import { formatShape } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { Tensor } from '../../tensor/tensor.ts';
import {
  binaryCrossEntropy,
  type BinaryCrossEntropyOptions,
  binaryCrossEntropyWithLogits,
  type BinaryCrossEntropyWithLogitsOptions,
  entropyRules,
  logitsRules,
} from '../functional/binary-cross-entropy.ts';
import {
  crossEntropy,
  type CrossEntropyOptions,
  crossEntropyRules,
  nllLoss,
  type NllLossOptions,
  nllLossRules,
} from '../functional/cross-entropy.ts';
import { ctcLoss, type CtcLossOptions, ctcRules } from '../functional/ctc-loss.ts';
import {
  cosineEmbeddingLoss,
  type CosineEmbeddingLossOptions,
  cosineRules,
  tripletMarginLoss,
  type TripletMarginLossOptions,
  tripletRules,
} from '../functional/distance-losses.ts';
import { klDiv, type KlDivOptions, klDivRules } from '../functional/kl-div.ts';
import {
  huberLoss,
  type HuberOptions,
  huberRules,
  l1Loss,
  type LossOptions,
  lossRules,
  mseLoss,
  smoothL1Loss,
  type SmoothL1Options,
  smoothL1Rules,
} from '../functional/losses.ts';
import { Module } from '../module/module.ts';

// These are the losses of torch.nn as modules. They take the options of the functional losses, which describe them in
// more detail. Tensors among the options become fields. As in PyTorch, fields that are BufferTensors are part of the
// state dict.

abstract class Loss<O extends object> extends Module {
  /** The options that are not tensors. */
  readonly options: Readonly<O>;

  constructor(options: O) {
    super();
    this.options = options;
  }

  protected override describe(): string {
    const options = Object.entries(this.options).map(
      ([name, value]) => `${name}=${JSON.stringify(value)}`,
    );
    const fields: [string, unknown][] = Object.entries(this);
    const tensors = fields.flatMap(([name, value]) =>
      value instanceof Tensor ? [`${name}=${formatShape(value.shape)}`] : [],
    );
    return [...options, ...tensors].join(', ');
  }
}

/** The squared error (input - target)². */
export class MSELoss extends Loss<LossOptions> {
  /** Throws ConfigError. */
  constructor(options: LossOptions = {}) {
    checkOptions('MSELoss', options, lossRules);
    super(options);
  }

  /** Shape: input N, target N -> [], or N for reduction 'none'. */
  forward(input: Tensor, target: Tensor): Tensor {
    return mseLoss(input, target, this.options);
  }
}

/** The absolute error |input - target|. */
export class L1Loss extends Loss<LossOptions> {
  /** Throws ConfigError. */
  constructor(options: LossOptions = {}) {
    checkOptions('L1Loss', options, lossRules);
    super(options);
  }

  /** Shape: input N, target N -> [], or N for reduction 'none'. */
  forward(input: Tensor, target: Tensor): Tensor {
    return l1Loss(input, target, this.options);
  }
}

/** The loss is squared below beta and linear above (Girshick 2015). */
export class SmoothL1Loss extends Loss<SmoothL1Options> {
  /** Throws ConfigError. */
  constructor(options: SmoothL1Options = {}) {
    checkOptions('SmoothL1Loss', options, smoothL1Rules);
    super(options);
  }

  /** Shape: input N, target N -> [], or N for reduction 'none'. */
  forward(input: Tensor, target: Tensor): Tensor {
    return smoothL1Loss(input, target, this.options);
  }
}

/** The loss is squared up to delta and linear above (Huber 1964). */
export class HuberLoss extends Loss<HuberOptions> {
  /** Throws ConfigError. */
  constructor(options: HuberOptions = {}) {
    checkOptions('HuberLoss', options, huberRules);
    super(options);
  }

  /** Shape: input N, target N -> [], or N for reduction 'none'. */
  forward(input: Tensor, target: Tensor): Tensor {
    return huberLoss(input, target, this.options);
  }
}

/** The Kullback-Leibler divergence of the target from log-probabilities. */
export class KLDivLoss extends Loss<KlDivOptions> {
  /** Throws ConfigError. */
  constructor(options: KlDivOptions = {}) {
    checkOptions('KLDivLoss', options, klDivRules);
    super(options);
  }

  /** Shape: input N, target N -> [], or N for reduction 'none'. */
  forward(input: Tensor, target: Tensor): Tensor {
    return klDiv(input, target, this.options);
  }
}

/** The cross-entropy of the softmax of logits. */
export class CrossEntropyLoss extends Loss<Omit<CrossEntropyOptions, 'weight'>> {
  readonly weight: Tensor | null;

  /** Throws ConfigError. */
  constructor(options: CrossEntropyOptions = {}) {
    checkOptions('CrossEntropyLoss', options, crossEntropyRules);
    const { weight = null, ...others } = options;
    super(others);
    this.weight = weight;
  }

  /** Shape: logits [N.., V], targets i32 [N..] or floats [N.., V] -> [], or [N..] for reduction 'none'. */
  forward(logits: Tensor, targets: Tensor): Tensor {
    const { options, weight } = this;
    return crossEntropy(logits, targets, weight === null ? options : { ...options, weight });
  }
}

/** The negative log-likelihood of log-probabilities. */
export class NLLLoss extends Loss<Omit<NllLossOptions, 'weight'>> {
  readonly weight: Tensor | null;

  /** Throws ConfigError. */
  constructor(options: NllLossOptions = {}) {
    checkOptions('NLLLoss', options, nllLossRules);
    const { weight = null, ...others } = options;
    super(others);
    this.weight = weight;
  }

  /** Shape: logProbabilities [N.., V], targets i32 [N..] -> [], or [N..] for reduction 'none'. */
  forward(logProbabilities: Tensor, targets: Tensor): Tensor {
    const { options, weight } = this;
    return nllLoss(logProbabilities, targets, weight === null ? options : { ...options, weight });
  }
}

/** The binary cross-entropy of probabilities. */
export class BCELoss extends Loss<Omit<BinaryCrossEntropyOptions, 'weight'>> {
  readonly weight: Tensor | null;

  /** Throws ConfigError. */
  constructor(options: BinaryCrossEntropyOptions = {}) {
    checkOptions('BCELoss', options, entropyRules);
    const { weight = null, ...others } = options;
    super(others);
    this.weight = weight;
  }

  /** Shape: probabilities N, targets N -> [], or N for reduction 'none'. */
  forward(probabilities: Tensor, targets: Tensor): Tensor {
    const { options, weight } = this;
    return binaryCrossEntropy(
      probabilities,
      targets,
      weight === null ? options : { ...options, weight },
    );
  }
}

/** The binary cross-entropy of the sigmoid of logits. */
export class BCEWithLogitsLoss extends Loss<LossOptions> {
  readonly weight: Tensor | null;
  readonly posWeight: Tensor | null;

  /** Throws ConfigError. */
  constructor(options: BinaryCrossEntropyWithLogitsOptions = {}) {
    checkOptions('BCEWithLogitsLoss', options, logitsRules);
    const { weight = null, posWeight = null, ...others } = options;
    super(others);
    this.weight = weight;
    this.posWeight = posWeight;
  }

  /** Shape: logits N, targets N -> [], or N for reduction 'none'. */
  forward(logits: Tensor, targets: Tensor): Tensor {
    const { options, weight, posWeight } = this;
    return binaryCrossEntropyWithLogits(logits, targets, {
      ...options,
      ...(weight === null ? {} : { weight }),
      ...(posWeight === null ? {} : { posWeight }),
    });
  }

  protected override nameOf(field: string): string {
    return field === 'posWeight' ? 'pos_weight' : field;
  }
}

/** 1 - cos for pairs of vectors that should be similar, and max(0, cos - margin) for others. */
export class CosineEmbeddingLoss extends Loss<CosineEmbeddingLossOptions> {
  /** Throws ConfigError. */
  constructor(options: CosineEmbeddingLossOptions = {}) {
    checkOptions('CosineEmbeddingLoss', options, cosineRules);
    super(options);
  }

  /** Shape: a [N, D], b [N, D], target [N] -> [], or [N] for reduction 'none'. */
  forward(a: Tensor, b: Tensor, target: Tensor): Tensor {
    return cosineEmbeddingLoss(a, b, target, this.options);
  }
}

/** max(0, margin + |anchor - positive| - |anchor - negative|) (Balntas et al. 2016). */
export class TripletMarginLoss extends Loss<TripletMarginLossOptions> {
  /** Throws ConfigError. */
  constructor(options: TripletMarginLossOptions = {}) {
    checkOptions('TripletMarginLoss', options, tripletRules);
    super(options);
  }

  /** Shape: each [N, D] -> [], or [N] for reduction 'none'. */
  forward(anchor: Tensor, positive: Tensor, negative: Tensor): Tensor {
    return tripletMarginLoss(anchor, positive, negative, this.options);
  }
}

/** Connectionist temporal classification (Graves et al. 2006). */
export class CTCLoss extends Loss<CtcLossOptions> {
  /** Throws ConfigError. */
  constructor(options: CtcLossOptions = {}) {
    checkOptions('CTCLoss', options, ctcRules);
    super(options);
  }

  /** Shape: logProbabilities [T, N, C], targets i32 [N, S], N lengths of each -> [], or [N] for reduction 'none'. */
  forward(
    logProbabilities: Tensor,
    targets: Tensor,
    inputLengths: ArrayLike<number>,
    targetLengths: ArrayLike<number>,
  ): Tensor {
    return ctcLoss(logProbabilities, targets, inputLengths, targetLengths, this.options);
  }
}
