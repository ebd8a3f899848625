import {
  type ActivationLayout,
  activationRule,
  checkOptions,
  LayoutError,
  MultiheadAttention,
  option,
  type OptionRules,
  redistributeOver,
  shard,
  Tensor,
  unsummedRule,
} from '@shardwise/core/extend';
import { type GatherAgainOptions, gatherAgainRules } from './gather-again.ts';
import { requireModule, requireParameter } from './module-spec.ts';
import type { ParallelStyle } from './parallel-style.ts';
import { rowwiseParallel } from './rowwise-parallel.ts';

/** Options of `headParallel`. */
export interface HeadParallelOptions extends GatherAgainOptions {
  /** The number of heads of the module. */
  readonly numHeads: number;
  /** The number of heads of keys and values. Default: numHeads. */
  readonly keyHeads?: number;
  /** The layout of queries, keys and values. Default: invariant. */
  readonly input?: ActivationLayout;
  /**
   * The layout of the result. Default: invariant, by an all-reduce. With sequence parallelism it is shard(1),
   * by a reduce-scatter.
   */
  readonly output?: Exclude<ActivationLayout, 'partial'>;
}

const headParallelRules: OptionRules<HeadParallelOptions> = {
  ...gatherAgainRules,
  numHeads: option.required(option.integer(1)),
  keyHeads: option.integer(1),
  input: activationRule,
  output: unsummedRule,
};

const name = 'headParallel';

/**
 * A MultiheadAttention in which each rank computes some of the heads (Shoeybi et al. 2019). All ranks pass it the same
 * mask. A mask with a size for each head must have all heads. Planning throws LayoutError if the ranks do not divide
 * the heads of queries, or those of keys and values.
 */
export function headParallel(options: HeadParallelOptions): ParallelStyle {
  checkOptions('headParallel', options, headParallelRules);
  const {
    numHeads,
    keyHeads = numHeads,
    input = 'invariant',
    output = 'invariant',
    gatherAgain = false,
  } = options;
  const rows = { shard: 0, heads: [numHeads, keyHeads, keyHeads] };
  const change = { from: input, to: 'replicate' } as const;
  return {
    name,
    kind: {
      check(module, path) {
        const attention = requireModule(module, MultiheadAttention, path, name);
        if (attention.numHeads === numHeads && attention.keyHeads === keyHeads) return;
        throw otherHeads(attention, path, { numHeads, keyHeads });
      },
      sizes(module) {
        const { shape, dtype: own } = requireParameter(module, 'in_proj_weight', 2, name);
        requireParameter(module, 'out_proj.weight', 2, name);
        const { productDtype: dtype = own } = module;
        return { input: shape[1] ?? 0, output: shape[1] ?? 0, dtype };
      },
      multiplies: true,
      optional: ['in_proj_bias'],
    },
    parameters: { in_proj_weight: rows, in_proj_bias: rows },
    inputs: { forward: [change], attend: [change, change, change] },
    output: null,
    // Each rank drops weights of other heads.
    drawsOwn: true,
    gatherAgain,
    modules: { out_proj: rowwiseParallel({ output }) },
    install(module, { axis, size }, path) {
      const attention = requireModule(module, MultiheadAttention, path, name);
      attention.numHeads = numHeads / size;
      attention.keyHeads = keyHeads / size;
      return {
        run: (inputs, attend) => attend(inputs.map((each) => ofOwnHeads(each, axis, numHeads))),
      };
    },
  };
}

function otherHeads(
  { numHeads, keyHeads }: MultiheadAttention,
  path: string,
  asked: { readonly numHeads: number; readonly keyHeads: number },
): LayoutError {
  return new LayoutError(
    {
      asked: `${name}() of '${path}' with ${asked.numHeads} heads over ${asked.keyHeads} key heads`,
      found: `a module of ${numHeads} heads over ${keyHeads} key heads`,
      todo: 'Give the numbers of heads that the module was built with',
    },
    { path, ...asked },
  );
}

/**
 * Returns the arguments of a call, with the part of a mask that this rank's heads read. Returns tensors as they are.
 * Shape: mask [.., H, T, S] -> [.., H / t, T, S].
 */
function ofOwnHeads(call: unknown, axis: string, numHeads: number): unknown {
  if (typeof call !== 'object' || call === null || !('mask' in call)) return call;
  const { mask } = call;
  if (!(mask instanceof Tensor)) return call;
  if (mask.ndim > 2 && mask.shape.at(-3) === numHeads) {
    return { ...call, mask: redistributeOver(mask, axis, 'invariant', shard(-3)) };
  }
  if (!mask.requiresGrad) return call;
  return { ...call, mask: redistributeOver(mask, axis, 'invariant', 'replicate') };
}
