import type { Generator } from '../random/generator.ts';
import * as init from '../random/init.ts';
import { defaultGenerator } from '../random/keys.ts';
import { formatShape } from '../shape.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { conv2d, pair, type Conv2dOptions, type Size2d } from './functional/conv2d.ts';
import { Module } from './module.ts';
import { Parameter } from './parameter.ts';

export interface Conv2dLayerOptions extends Conv2dOptions {
  /** Default true. */
  readonly bias?: boolean;
  /** Source of initial values; default the rank's generator. */
  readonly generator?: Generator;
}

/** 2-D convolution with torch.nn.Conv2d's initial values. Weight [out, in/groups, R, S], bias [out]. */
export class Conv2d extends Module {
  weight: Parameter;
  bias: Parameter | null;
  readonly options: Conv2dOptions;

  /** Throws ConfigError and ShapeError. */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Size2d,
    options: Conv2dLayerOptions = {},
  ) {
    super();
    const { bias = true, generator = defaultGenerator(), ...rest } = options;
    const shape = [outChannels, inChannels / (rest.groups ?? 1), ...pair('kernel', kernel, 1)];
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
