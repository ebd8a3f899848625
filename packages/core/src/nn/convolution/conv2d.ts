import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { ConvLayer, type ConvLayerOptions, convLayerRules } from './conv-layer.ts';
import { conv2d, conv2dRules, type Conv2dOptions } from '../functional/conv2d.ts';
import { pair, type Size2d, size2d } from '../functional/window-size.ts';

/** Options of the layer `Conv2d`. */
export interface Conv2dLayerOptions extends Conv2dOptions, ConvLayerOptions {}

const layerRules: OptionRules<Conv2dLayerOptions> = {
  ...conv2dRules,
  ...convLayerRules,
};
const sizeRules: OptionRules<{ inChannels: number; outChannels: number; kernel: Size2d }> = {
  inChannels: option.required(option.count),
  outChannels: option.required(option.count),
  kernel: option.required(size2d(1)),
};

/** 2-D convolution with torch.nn.Conv2d's initial values. Weight [out, in/groups, R, S], bias [out]. */
export class Conv2d extends ConvLayer<Conv2dOptions> {
  /** Throws ConfigError, also if the groups do not divide the channels. */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Size2d,
    options: Conv2dLayerOptions = {},
  ) {
    checkOptions('Conv2d', { inChannels, outChannels, kernel }, sizeRules);
    checkOptions('Conv2d', options, layerRules);
    const { bias, generator, ...rest } = options;
    super({ inChannels, outChannels, window: pair(kernel) }, rest, { bias, generator });
  }

  /** Shape: x [N, in, H, W] -> [N, out, H', W']. */
  forward(x: Tensor): Tensor {
    return conv2d(x, this.weight, this.bias, this.options);
  }
}
