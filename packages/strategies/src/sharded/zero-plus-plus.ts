import {
  checkOptions,
  ConfigError,
  LayoutError,
  type MeshAxis,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import { requireAxis } from '../plan/axes.ts';
import type { Gather } from './gather.ts';
import type { QuantizedReduction } from './quantized/quantized-mean.ts';
import type { QuantizedBits } from './quantized/quantize-rows.ts';

/** How gradients are sent in few bits. */
export interface QuantizedGradients {
  /** The bits of an element. Default: 4. */
  readonly bits?: QuantizedBits;
  /**
   * The number of neighbouring ranks that are on one host. They average gradients among themselves first, and then with the
   * ranks of other hosts, so that 1 / ranksPerHost of the bytes leave the host. Default: zeroHpzPartitionSize.
   */
  readonly ranksPerHost?: number;
}

/** Options of ZeRO++ (Wang et al. 2023), with the names of DeepSpeed's keys. They need ranks that keep parts of parameters. */
export interface ZeroPlusPlusOptions {
  /**
   * Whether parameters are gathered in 8 bits, by blocks of 256 elements with a scale each. All ranks compute with the same
   * rounded values, and the optimizer updates the exact ones. Default: false.
   */
  readonly zeroQuantizedWeights?: boolean;
  /** Whether parameters that do not train are gathered in 8 bits. Default: the value of zeroQuantizedWeights. */
  readonly zeroQuantizedNontrainableWeights?: boolean;
  /**
   * Whether gradients are averaged by all-to-alls of 4 bits, by blocks of 256 elements with a scale each, in place of a
   * reduce-scatter. Default: false.
   */
  readonly zeroQuantizedGradients?: boolean | QuantizedGradients;
  /**
   * The number of neighbouring ranks that together keep a second copy of the parameters between the forward and the backward
   * pass. The backward pass gathers from them, so it sends nothing to other hosts if these are the ranks of a host.
   * Default: 1, which is no second copy.
   */
  readonly zeroHpzPartitionSize?: number;
}

export const zeroPlusPlusRules: OptionRules<ZeroPlusPlusOptions> = {
  zeroQuantizedWeights: option.flag,
  zeroQuantizedNontrainableWeights: option.flag,
  zeroQuantizedGradients: option.either(option.flag, option.object()),
  zeroHpzPartitionSize: option.integer(1),
};

const gradientRules: OptionRules<QuantizedGradients> = {
  bits: option.oneOf(4, 8),
  ranksPerHost: option.integer(1),
};

/** What the ranks of a plan send in few bits. */
export interface QuantizedMessages {
  readonly weights?: Gather['quantized'];
  readonly gradients?: QuantizedReduction | undefined;
}

/** The options as a plan has them. */
export interface ZeroPlusPlus {
  readonly quantized: QuantizedMessages;
  /** The number of ranks that keep a second copy. Undefined: there is none. */
  readonly copyRanks: number | undefined;
}

/** Throws ConfigError for options out of range, and for those that contradict each other. */
export function zeroPlusPlusOf(strategy: string, options: ZeroPlusPlusOptions): ZeroPlusPlus {
  const { zeroQuantizedWeights: all = false, zeroQuantizedGradients: given = false } = options;
  const { zeroQuantizedNontrainableWeights: frozen = all, zeroHpzPartitionSize = 1 } = options;
  if (all && !frozen) {
    throw new ConfigError(
      {
        asked: `${strategy} with zeroQuantizedWeights and zeroQuantizedNontrainableWeights: false`,
        found: 'zeroQuantizedWeights, which includes parameters that do not train',
        todo: 'Leave out zeroQuantizedNontrainableWeights',
      },
      { option: 'zeroQuantizedNontrainableWeights' },
    );
  }
  const gradients = typeof given === 'boolean' ? {} : given;
  checkOptions('zeroQuantizedGradients', gradients, gradientRules);
  const { bits = 4, ranksPerHost = zeroHpzPartitionSize } = gradients;
  return {
    quantized: {
      ...(all ? { weights: 'all' } : frozen ? { weights: 'frozen' } : {}),
      ...(given === false ? {} : { gradients: { bits, ranksPerHost } }),
    },
    copyRanks: zeroHpzPartitionSize === 1 ? undefined : zeroHpzPartitionSize,
  };
}

/** Throws LayoutError for a number of ranks of a host that does not divide the ranks of the axis. */
export function requireWholeHosts(
  strategy: string,
  { quantized: { gradients }, copyRanks }: ZeroPlusPlus,
  axis: string,
  axes: readonly MeshAxis[],
): void {
  const size = requireAxis(strategy, axes, axis);
  const given = { zeroHpzPartitionSize: copyRanks, ranksPerHost: gradients?.ranksPerHost };
  for (const [name, ranks = 1] of Object.entries(given)) {
    if (size % ranks === 0) continue;
    throw new LayoutError(
      {
        asked: `${strategy} with ${name}: ${ranks} over the mesh axis '${axis}'`,
        found: `${size} ranks, which is not a multiple of it`,
        todo: `Give the number of ranks of a host, which divides ${size}`,
      },
      { option: name, ranks, axis, size },
    );
  }
}
