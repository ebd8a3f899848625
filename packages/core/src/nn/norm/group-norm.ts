import { floats, requireDType } from '../../graph/infer-checks.ts';
import * as init from '../../random/init.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { elementCount, formatShape } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ConfigError, ShapeError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import { full } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { perChannel } from './batch-statistics.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';

/** Options of `GroupNorm`. */
export interface GroupNormOptions {
  /** The number that is added to the variance. Default: 1e-5. */
  readonly eps?: number;
  /** Whether there are a trained weight and bias. Default: true. */
  readonly affine?: boolean;
}

export const groupNormRules: OptionRules<GroupNormOptions> = {
  eps: option.nonNegative,
  affine: option.flag,
};
const sizeRules: OptionRules<{ numGroups: number; numChannels: number }> = {
  numGroups: option.required(option.integer(1)),
  numChannels: option.required(option.integer(1)),
};

/** Normalises each item over the channels of a group (Wu and He 2018). Weight and bias [numChannels]. */
export class GroupNorm extends Module {
  weight: Parameter | null = null;
  bias: Parameter | null = null;
  readonly numGroups: number;
  readonly numChannels: number;
  readonly eps: number;

  /** Throws ConfigError, also if the groups do not divide the channels. */
  constructor(numGroups: number, numChannels: number, options: GroupNormOptions = {}) {
    super();
    const { name } = this.constructor;
    checkOptions(name, { numGroups, numChannels }, sizeRules);
    checkOptions(name, options, groupNormRules);
    const { eps = 1e-5, affine = true } = options;
    if (numChannels % numGroups !== 0) throw notDivided(numGroups, numChannels);
    if (affine) {
      this.weight = new Parameter(init.ones([numChannels]), [numChannels]);
      this.bias = new Parameter(init.zeros([numChannels]), [numChannels]);
    }
    this.numGroups = numGroups;
    this.numChannels = numChannels;
    this.eps = eps;
  }

  /** Statistics are f32 for every dtype of x. Shape: x [N, numChannels, ...] -> the same. Throws ShapeError. */
  forward(x: Tensor): Tensor {
    const { numGroups, numChannels, eps, weight, bias } = this;
    const { name } = this.constructor;
    requireTensors(name, { x });
    requireDType(name, x, floats);
    const [batch = 0, channels] = x.shape;
    if (channels !== numChannels) {
      throw new ShapeError(
        {
          asked: `${name} with x of shape ${formatShape(x.shape)}`,
          found: `${channels ?? 'no'} channels (dim 1) instead of ${numChannels}`,
          todo: `Use x of shape [N, ${numChannels}, ...]`,
        },
        { shape: x.shape, numChannels },
      );
    }
    const width = elementCount(x.shape.slice(1)) / numGroups;
    if (batch * width === 1) throw oneValue(name, x);
    return composed(() => {
      const rows = x.to('f32').reshape([batch * numGroups, width]);
      const normal = rows.layerNorm(full([width], 1), full([width], 0), eps).reshape(x.shape);
      const scaled = weight === null ? normal : normal.mul(perChannel(weight.to('f32'), x));
      const shifted = bias === null ? scaled : scaled.add(perChannel(bias.to('f32'), x));
      return shifted.to(x.dtype);
    });
  }

  protected override describe(): string {
    return `${this.numGroups}, ${this.numChannels}, eps=${this.eps}, affine=${this.weight !== null}`;
  }
}

function oneValue(name: string, { shape }: Tensor): ShapeError {
  return new ShapeError(
    {
      asked: `${name} with x of shape ${formatShape(shape)}`,
      found: 'one value for each group, which has no variance',
      todo: 'Use more items, fewer groups, or channels of several values',
    },
    { shape },
  );
}

function notDivided(numGroups: number, numChannels: number): ConfigError {
  return new ConfigError(
    {
      asked: `GroupNorm of ${numChannels} channels in ${numGroups} groups`,
      found: 'channels that the groups do not divide',
      todo: 'Make the number of channels a multiple of the groups',
    },
    { numGroups, numChannels },
  );
}
