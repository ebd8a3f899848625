import { noGrad } from '../../graph/create-node.ts';
import { floats, requireDType } from '../../graph/infer-checks.ts';
import * as init from '../../random/init.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { formatShape } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import type { Shape } from '../../spec/dtype.ts';
import { ShapeError, TensorStateError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import {
  type BatchStatistics,
  ownStatistics,
  perChannel,
  ranksOf,
  sharedStatistics,
  togetherWith,
  valuesPerChannel,
} from './batch-statistics.ts';
import { imageHint } from '../functional/conv2d.ts';
import { Module } from '../module/module.ts';
import { BufferTensor, Parameter } from '../parameter/parameter.ts';

/** Options of the batch norms. */
export interface BatchNormOptions {
  /** The number that is added to the variance. Default: 1e-5. */
  readonly eps?: number;
  /**
   * The weight of the newest batch in the running statistics. null: all batches have the same weight. Default:
   * 0.1.
   */
  readonly momentum?: number | null;
  /** Whether there are a trained weight and bias. Default: true. */
  readonly affine?: boolean;
}

const nothing: option.OptionRule<null> = { fits: (value) => value === null, expected: 'null' };
export const batchNormRules: OptionRules<BatchNormOptions> = {
  eps: option.nonNegative,
  momentum: option.either(option.fraction, nothing),
  affine: option.flag,
};
const sizeRules: OptionRules<{ channels: number }> = { channels: option.required(option.count) };

const torchNames: Readonly<Record<string, string>> = {
  runningMean: 'running_mean',
  runningVar: 'running_var',
  numBatchesTracked: 'num_batches_tracked',
};

/**
 * Batch normalisation for each channel (Ioffe and Szegedy 2015). Training uses the statistics of the batch and
 * updates the running statistics (variance over n - 1). Evaluation uses the running statistics.
 */
export abstract class BatchNorm extends Module {
  weight: Parameter | null = null;
  bias: Parameter | null = null;
  runningMean: BufferTensor;
  runningVar: BufferTensor;
  numBatchesTracked: BufferTensor;
  readonly eps: number;
  momentum: number | null;
  /** The state of a batch whose parts are given one after the other. Null for whole batches. */
  #parts: PartsOfBatch | null = null;
  /** The mesh axis whose ranks have other items of the batch. null: the statistics are those of this rank's items. */
  axis: string | null = null;

  /** Throws ConfigError. */
  constructor(channels: number, options: BatchNormOptions) {
    super();
    checkOptions(this.constructor.name, { channels }, sizeRules);
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
   * Declares that the next call gets a part of a batch (the deferred batch norm of GPipe). A part is normalised by its
   * own statistics. The running statistics are updated once, with the last part, by the statistics of all parts. Null
   * declares that each call gets a whole batch.
   */
  expectPart(part: BatchPart | null): void {
    const statistics = part === null || part.index === 0 ? null : (this.#parts?.statistics ?? null);
    this.#parts = part === null ? null : { ...part, statistics, isTracked: false };
  }

  /**
   * The statistics of the parts so far, which the next call reads. A program that computes parts one by one
   * must keep them.
   */
  get statisticsOfParts(): readonly Tensor[] {
    const { statistics = null } = this.#parts ?? {};
    return statistics === null ? [] : [statistics.mean, statistics.count, statistics.variance];
  }

  /**
   * Statistics are f32 for every dtype of x, as in PyTorch. Shape: x [N, channels, ...] -> the same. Throws
   * ShapeError, also in training for one value per channel.
   */
  forward(x: Tensor): Tensor {
    this.#requireInput(x);
    return composed(() => this.#normalize(x));
  }

  /** The numbers of dims that an input may have, including batch and channels. */
  protected abstract get inputDims(): readonly number[];

  /** The statistics that x is normalised by in training. Shape: x f32 [N, channels, ...]. */
  #statistics(x: Tensor): BatchStatistics {
    const { axis } = this;
    if (axis !== null && ranksOf(axis) > 1) return sharedStatistics(x, axis);
    if (valuesPerChannel(x) === 1) throw oneValue(this.constructor.name, x.shape);
    return ownStatistics(x);
  }

  #normalize(x: Tensor): Tensor {
    const wide = x.to('f32');
    const own = this.training ? this.#statistics(wide) : null;
    if (own !== null) this.#track(own, x.shape);
    const centered = wide.sub(perChannel(own?.mean ?? this.runningMean, x));
    const inverse = (own?.variance ?? this.runningVar).add(this.eps).rsqrt();
    const scale = this.weight === null ? inverse : inverse.mul(this.weight.to('f32'));
    const y = centered.mul(perChannel(scale, x));
    const shifted = this.bias === null ? y : y.add(perChannel(this.bias.to('f32'), x));
    return shifted.to(x.dtype);
  }

  #track(own: BatchStatistics, shape: Shape): void {
    const parts = this.#parts;
    if (parts === null) {
      this.#move(own);
      return;
    }
    if (parts.isTracked) throw partTwice(this.constructor.name, shape);
    parts.isTracked = true;
    const { statistics, index, count } = parts;
    const all = statistics === null ? own : togetherWith(statistics, own);
    const isLast = index === count - 1;
    parts.statistics = isLast ? null : all;
    if (isLast) this.#move(all);
  }

  #move({ mean, unbiased }: BatchStatistics): void {
    noGrad(() => {
      const { momentum, numBatchesTracked, runningMean, runningVar } = this;
      const count = numBatchesTracked.add(1);
      const take = momentum ?? count.to('f32').pow(-1);
      const keep = typeof take === 'number' ? 1 - take : take.neg().add(1);
      const moved = (running: BufferTensor, value: Tensor): Tensor =>
        running.mul(keep).add(value.mul(take)).to(running.dtype);
      runningMean.assign(moved(runningMean, mean));
      runningVar.assign(moved(runningVar, unbiased));
      numBatchesTracked.assign(count);
    });
  }

  #requireInput(x: Tensor): void {
    const { name } = this.constructor;
    requireTensors(name, { x });
    requireDType(name, x, floats);
    const { shape } = x;
    const channels = this.runningMean.numel;
    if (this.inputDims.includes(shape.length) && shape[1] === channels) return;
    const expected = this.inputDims.map((count) => formatDims(channels, count)).join(' or ');
    const isImage = this.inputDims.includes(4);
    const hint = isImage ? imageHint(shape, channels) : undefined;
    const use = `Use x of shape ${expected}`;
    const isOther = this.inputDims.includes(shape.length);
    throw new ShapeError(
      {
        asked: `${name} with x of shape ${formatShape(shape)}`,
        found: isOther
          ? `${shape[1]} channels (dim 1) instead of ${channels}`
          : `${shape.length} dims instead of ${this.inputDims.join(' or ')}`,
        todo: hint === undefined ? use : `${use}; ${hint}`,
      },
      { operation: name, argument: 'x', shape },
    );
  }

  protected override nameOf(field: string): string {
    return torchNames[field] ?? field;
  }

  protected override describe(): string {
    const axis = this.axis === null ? '' : `, axis=${this.axis}`;
    return `${this.runningMean.numel}, eps=${this.eps}, momentum=${this.momentum}, affine=${this.weight !== null}${axis}`;
  }
}

function formatDims(channels: number, count: number): string {
  const last = ['D', 'H', 'W'].slice(5 - count);
  return `[${['N', channels, ...(count === 3 ? ['L'] : last)].slice(0, count).join(', ')}]`;
}

/** A part of a batch: its index, and the number of parts. */
export interface BatchPart {
  readonly index: number;
  readonly count: number;
}

interface PartsOfBatch extends BatchPart {
  /** The statistics of the parts so far. */
  statistics: BatchStatistics | null;
  /** Whether the part has been given to forward(). */
  isTracked: boolean;
}

function partTwice(layer: string, shape: Shape): TensorStateError {
  return new TensorStateError(
    {
      asked: `${layer} with x of shape ${formatShape(shape)}, whose running statistics move once for all parts of a batch`,
      found: 'a second call for one part',
      todo: 'Have forward() call the layer once, or let each part move them: deferredBatchNorm: false',
    },
    { shape },
  );
}

/** The error for a single value per channel. It equals its mean, so normalisation would leave nothing of x. */
function oneValue(layer: string, shape: Shape): ShapeError {
  return new ShapeError(
    {
      asked: `${layer} with x of shape ${formatShape(shape)} in training`,
      found: 'one value for each channel, which has no variance',
      todo: 'Use a larger batch or image, or evaluation mode: model.eval()',
    },
    { shape },
  );
}
