import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { ConvLayer, type ConvLayerOptions, convLayerRules } from './conv-layer.ts';
import {
  convTranspose2d,
  convTranspose2dRules,
  type ConvTranspose2dOptions,
} from '../functional/conv-transpose2d.ts';
import { pair, type Size2d, size2d } from '../functional/window-size.ts';

/** Options of the layer `ConvTranspose2d`. */
export interface ConvTranspose2dLayerOptions extends ConvTranspose2dOptions, ConvLayerOptions {}

const layerRules: OptionRules<ConvTranspose2dLayerOptions> = {
  ...convTranspose2dRules,
  ...convLayerRules,
};
const sizeRules: OptionRules<{ inChannels: number; outChannels: number; kernel: Size2d }> = {
  inChannels: option.required(option.count),
  outChannels: option.required(option.count),
  kernel: option.required(size2d(1)),
};

/**
 * Transposed 2-D convolution with torch.nn.ConvTranspose2d's initial values. Weight [in, out/groups, R, S], bias [out].
 */
export class ConvTranspose2d extends ConvLayer<ConvTranspose2dOptions> {
  /** Throws ConfigError, also if the groups do not divide the channels. */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Size2d,
    options: ConvTranspose2dLayerOptions = {},
  ) {
    checkOptions('ConvTranspose2d', { inChannels, outChannels, kernel }, sizeRules);
    checkOptions('ConvTranspose2d', options, layerRules);
    const { bias, generator, ...rest } = options;
    super({ inChannels, outChannels, window: pair(kernel), isTransposed: true }, rest, {
      bias,
      generator,
    });
  }

  /** Shape: x [N, in, H, W] -> [N, out, H', W']. */
  forward(x: Tensor): Tensor {
    return convTranspose2d(x, this.weight, this.bias, this.options);
  }
}
