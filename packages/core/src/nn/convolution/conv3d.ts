import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { ConvLayer, type ConvLayerOptions, convLayerRules } from './conv-layer.ts';
import { conv3d, conv3dRules, type Conv3dOptions } from '../functional/conv3d.ts';
import { type Size3d, size3d, triple } from '../functional/window-size.ts';

/** Options of the layer `Conv3d`. */
export interface Conv3dLayerOptions extends Conv3dOptions, ConvLayerOptions {}

const layerRules: OptionRules<Conv3dLayerOptions> = {
  ...conv3dRules,
  ...convLayerRules,
};
const sizeRules: OptionRules<{ inChannels: number; outChannels: number; kernel: Size3d }> = {
  inChannels: option.required(option.count),
  outChannels: option.required(option.count),
  kernel: option.required(size3d(1)),
};

/** 3-D convolution with torch.nn.Conv3d's initial values. Weight [out, in/groups, Q, R, S], bias [out]. */
export class Conv3d extends ConvLayer<Conv3dOptions> {
  /** Throws ConfigError, also if the groups do not divide the channels. */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Size3d,
    options: Conv3dLayerOptions = {},
  ) {
    checkOptions('Conv3d', { inChannels, outChannels, kernel }, sizeRules);
    checkOptions('Conv3d', options, layerRules);
    const { bias, generator, ...rest } = options;
    super({ inChannels, outChannels, window: triple(kernel) }, rest, { bias, generator });
  }

  /** Shape: x [N, in, D, H, W] -> [N, out, D', H', W']. */
  forward(x: Tensor): Tensor {
    return conv3d(x, this.weight, this.bias, this.options);
  }
}
