import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { ConvLayer, type ConvLayerOptions, convLayerRules } from './conv-layer.ts';
import { conv1d, conv1dRules, type Conv1dOptions } from '../functional/conv1d.ts';

/** Options of the layer `Conv1d`. */
export interface Conv1dLayerOptions extends Conv1dOptions, ConvLayerOptions {}

const layerRules: OptionRules<Conv1dLayerOptions> = {
  ...conv1dRules,
  ...convLayerRules,
};
const sizeRules: OptionRules<{ inChannels: number; outChannels: number; kernel: number }> = {
  inChannels: option.required(option.count),
  outChannels: option.required(option.count),
  kernel: option.required(option.integer(1)),
};

/** 1-D convolution with torch.nn.Conv1d's initial values. Weight [out, in/groups, K], bias [out]. */
export class Conv1d extends ConvLayer<Conv1dOptions> {
  /** Throws ConfigError, also if the groups do not divide the channels. */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: number,
    options: Conv1dLayerOptions = {},
  ) {
    checkOptions('Conv1d', { inChannels, outChannels, kernel }, sizeRules);
    checkOptions('Conv1d', options, layerRules);
    const { bias, generator, ...rest } = options;
    super({ inChannels, outChannels, window: [kernel] }, rest, { bias, generator });
  }

  /** Shape: x [N, in, L] -> [N, out, L']. */
  forward(x: Tensor): Tensor {
    return conv1d(x, this.weight, this.bias, this.options);
  }
}
