import { Generator } from '../../random/generator.ts';
import * as init from '../../random/init.ts';
import { defaultGenerator } from '../../random/keys.ts';
import { formatShape } from '../../base/shape.ts';
import { ConfigError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';

/** The sizes of a convolution. */
export interface ConvSize {
  readonly inChannels: number;
  readonly outChannels: number;
  readonly window: readonly number[];
  /** Whether the weight has the input channels first. Default: false. */
  readonly isTransposed?: boolean;
}

/** The options of a convolution layer in addition to those of its function. */
export interface ConvLayerOptions {
  /** Whether there is a bias. Default: true. */
  readonly bias?: boolean;
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
}

export const convLayerRules: OptionRules<ConvLayerOptions> = {
  bias: option.flag,
  generator: option.instanceOf(Generator),
};

type Given<Options> = { readonly [K in keyof Options]-?: Options[K] | undefined };

/**
 * The base class of convolutions. Weight [out, in/groups, ...window] or, if transposed, [in, out/groups, ...window],
 * bias [out].
 */
export abstract class ConvLayer<Options extends { readonly groups?: number }> extends Module {
  weight: Parameter;
  bias: Parameter | null;
  readonly options: Options;
  readonly #isTransposed: boolean;

  /** Throws ConfigError if the groups do not divide the channels. */
  constructor(
    size: ConvSize,
    options: Options,
    { bias = true, generator }: Given<ConvLayerOptions>,
  ) {
    super();
    const { groups = 1 } = options;
    const { inChannels, outChannels, window, isTransposed = false } = size;
    checkGroups(this.constructor.name, inChannels, outChannels, groups);
    const shape = isTransposed
      ? [inChannels, outChannels / groups, ...window]
      : [outChannels, inChannels / groups, ...window];
    const biases = bias ? outChannels : null;
    const values = init.convolution(generator ?? defaultGenerator(), shape, biases);
    this.weight = new Parameter(values.weight, shape);
    this.bias = values.bias === undefined ? null : new Parameter(values.bias, [outChannels]);
    this.options = options;
    this.#isTransposed = isTransposed;
  }

  protected override describe(): string {
    const [first = 0, second = 0, ...window] = this.weight.shape;
    const inner = second * (this.options.groups ?? 1);
    const [inChannels, outChannels] = this.#isTransposed ? [first, inner] : [inner, first];
    const options: readonly (readonly [string, number | readonly number[]])[] = Object.entries({
      kernel: window.length === 1 ? (window[0] ?? 0) : window,
      ...this.options,
    });
    const set = options.map(([name, value]) => `${name}=${formatSize(value)}`);
    return [inChannels, outChannels, ...set, `bias=${this.bias !== null}`].join(', ');
  }
}

function formatSize(size: number | readonly number[]): string {
  return typeof size === 'number' ? String(size) : formatShape(size);
}

function checkGroups(layer: string, inChannels: number, outChannels: number, groups: number): void {
  if (inChannels % groups === 0 && outChannels % groups === 0) return;
  throw new ConfigError(
    {
      asked: `${layer} of ${inChannels} input and ${outChannels} output channels in ${groups} groups`,
      found: 'channels that the groups do not divide',
      todo: 'Make both numbers of channels multiples of groups',
    },
    { inChannels, outChannels, groups },
  );
}
