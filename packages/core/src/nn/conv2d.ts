import { Generator } from '../random/generator.ts';
import * as init from '../random/init.ts';
import { defaultGenerator } from '../random/keys.ts';
import { formatShape } from '../shape.ts';
import type { Tensor } from '../tensor/tensor.ts';
import {
  conv2d,
  conv2dRules,
  pair,
  size2d,
  type Conv2dOptions,
  type Size2d,
} from './functional/conv2d.ts';
import { Module } from './module.ts';
import { Parameter } from './parameter.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';
import { ConfigError } from '../spec/errors.ts';

export interface Conv2dLayerOptions extends Conv2dOptions {
  /** Default true. */
  readonly bias?: boolean;
  /** Source of initial values; default the rank's generator. */
  readonly generator?: Generator;
}

const layerRules: OptionRules<Conv2dLayerOptions> = {
  ...conv2dRules,
  bias: option.flag,
  generator: option.instanceOf(Generator),
};
const sizeRules: OptionRules<{ inChannels: number; outChannels: number; kernel: Size2d }> = {
  inChannels: option.required(option.count),
  outChannels: option.required(option.count),
  kernel: option.required(size2d(1)),
};

/** 2-D convolution with torch.nn.Conv2d's initial values. Weight [out, in/groups, R, S], bias [out]. */
export class Conv2d extends Module {
  weight: Parameter;
  bias: Parameter | null;
  readonly options: Conv2dOptions;

  /** Throws ConfigError, also where the groups do not divide the channels. */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Size2d,
    options: Conv2dLayerOptions = {},
  ) {
    super();
    checkOptions('Conv2d', { inChannels, outChannels, kernel }, sizeRules);
    checkOptions('Conv2d', options, layerRules);
    const { bias = true, generator = defaultGenerator(), ...rest } = options;
    const { groups = 1 } = rest;
    checkGroups(inChannels, outChannels, groups);
    const shape = [outChannels, inChannels / groups, ...pair(kernel)];
    const values = init.conv2d(generator, shape, bias);
    this.weight = new Parameter(values.weight, shape);
    this.bias = values.bias === undefined ? null : new Parameter(values.bias, [outChannels]);
    this.options = rest;
  }

  /** Shape: x [N, in, H, W] -> [N, out, H', W']. */
  forward(x: Tensor): Tensor {
    return conv2d(x, this.weight, this.bias, this.options);
  }

  protected override describe(): string {
    const [outChannels = 0, perGroup = 0, ...kernel] = this.weight.shape;
    const set = Object.entries(this.options).map(([name, value]) => `${name}=${formatSize(value)}`);
    const inChannels = perGroup * (this.options.groups ?? 1);
    return [
      inChannels,
      outChannels,
      `kernel=${formatSize(kernel)}`,
      ...set,
      `bias=${this.bias !== null}`,
    ].join(', ');
  }
}

function formatSize(size: number | readonly number[]): string {
  return typeof size === 'number' ? String(size) : formatShape(size);
}

function checkGroups(inChannels: number, outChannels: number, groups: number): void {
  if (inChannels % groups === 0 && outChannels % groups === 0) return;
  throw new ConfigError(
    {
      asked: `Conv2d of ${inChannels} input and ${outChannels} output channels in ${groups} groups`,
      found: 'channels that the groups do not divide',
      todo: 'Make both numbers of channels multiples of groups',
    },
    { inChannels, outChannels, groups },
  );
}
