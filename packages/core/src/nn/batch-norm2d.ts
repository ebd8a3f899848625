import * as init from '../random/init.ts';
import { noGrad } from '../graph/create-node.ts';
import { formatShape } from '../shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { ShapeError } from '../spec/errors.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { imageHint } from './functional/conv2d.ts';
import { Module } from './module.ts';
import { BufferTensor, Parameter } from './parameter.ts';
import { requireShape } from './require-shape.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';
import { composed } from '../realize/small-values.ts';

export interface BatchNorm2dOptions {
  /** Added to the variance; default 1e-5. */
  readonly eps?: number;
  /** Weight of the newest batch in the running statistics; default 0.1. */
  readonly momentum?: number;
  /** Whether weight and bias are trained; default true. */
  readonly affine?: boolean;
}

const batchNormRules: OptionRules<BatchNorm2dOptions> = {
  eps: option.nonNegative,
  momentum: option.share,
  affine: option.flag,
};
const sizeRules: OptionRules<{ channels: number }> = { channels: option.required(option.count) };

const torchNames: Readonly<Record<string, string>> = {
  runningMean: 'running_mean',
  runningVar: 'running_var',
  numBatchesTracked: 'num_batches_tracked',
};

/**
 * Batch normalisation per channel (Ioffe and Szegedy 2015). Training uses the batch's statistics
 * and moves the running ones (variance over n - 1); evaluation uses the running ones.
 */
export class BatchNorm2d extends Module {
  weight: Parameter | null = null;
  bias: Parameter | null = null;
  runningMean: BufferTensor;
  runningVar: BufferTensor;
  numBatchesTracked: BufferTensor;
  readonly eps: number;
  readonly momentum: number;

  /** Throws ConfigError. */
  constructor(channels: number, options: BatchNorm2dOptions = {}) {
    super();
    checkOptions('BatchNorm2d', { channels }, sizeRules);
    checkOptions('BatchNorm2d', options, batchNormRules);
    const { eps = 1e-5, momentum = 0.1, affine = true } = options;
    if (affine) {
      this.weight = new Parameter(init.ones([channels]), [channels]);
      this.bias = new Parameter(init.zeros([channels]), [channels]);
    }
    this.runningMean = new BufferTensor(init.zeros([channels]), [channels]);
    this.runningVar = new BufferTensor(init.ones([channels]), [channels]);
    this.numBatchesTracked = new BufferTensor(Int32Array.of(0), [], { dtype: 'i32' });
    this.eps = eps;
    this.momentum = momentum;
  }

  /**
   * Statistics are f32, whatever x is, as in PyTorch. Shape: x [N, channels, H, W] -> the same. Throws
   * ShapeError, also in training for one value a channel.
   */
  forward(x: Tensor): Tensor {
    const channels = this.runningMean.numel;
    requireShape(
      { operation: 'BatchNorm2d', name: 'x', value: x },
      ['N', ['channels', channels], 'H', 'W'],
      (shape) => imageHint(shape, channels),
    );
    const [batch = 0, , height = 0, width = 0] = x.shape;
    const count = batch * height * width;
    if (this.training && count === 1) throw oneValue(x.shape);
    return composed(() => this.#normalize(x, count));
  }

  #normalize(x: Tensor, count: number): Tensor {
    const perChannel = [this.runningMean.numel, 1, 1];
    const wide = x.to('f32');
    const mean = this.training ? wide.mean([0, 2, 3]) : this.runningMean;
    const centered = wide.sub(mean.reshape(perChannel));
    const variance = this.training ? centered.square().mean([0, 2, 3]) : this.runningVar;
    if (this.training) this.#track(mean, variance, count);
    const inverse = variance.add(this.eps).rsqrt();
    const scale = this.weight === null ? inverse : inverse.mul(this.weight.to('f32'));
    const y = centered.mul(scale.reshape(perChannel));
    const shifted = this.bias === null ? y : y.add(this.bias.to('f32').reshape(perChannel));
    return shifted.to(x.dtype);
  }

  #track(mean: Tensor, variance: Tensor, count: number): void {
    noGrad(() => {
      const { momentum } = this;
      const unbiased = variance.mul(count / Math.max(1, count - 1));
      this.runningMean.assign(this.runningMean.mul(1 - momentum).add(mean.mul(momentum)));
      this.runningVar.assign(this.runningVar.mul(1 - momentum).add(unbiased.mul(momentum)));
      this.numBatchesTracked.assign(this.numBatchesTracked.add(1));
    });
  }

  protected override nameOf(field: string): string {
    return torchNames[field] ?? field;
  }

  protected override describe(): string {
    return `${this.runningMean.numel}, eps=${this.eps}, momentum=${this.momentum}, affine=${this.weight !== null}`;
  }
}

/** Less its mean, a single value is 0: nothing would be left of x. */
function oneValue(shape: Shape): ShapeError {
  return new ShapeError(
    {
      asked: `BatchNorm2d with x of shape ${formatShape(shape)} in training`,
      found: 'one value for each channel, which has no variance',
      todo: 'Use a larger batch or image, or evaluation mode: model.eval()',
    },
    { shape },
  );
}
