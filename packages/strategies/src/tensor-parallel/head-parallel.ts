import {
  type ActivationLayout,
  activationRule,
  checkOptions,
  LayoutError,
  lowered,
  MultiheadAttention,
  option,
  type OptionRules,
  redistributeOver,
  shard,
  Tensor,
  unsummedRule,
  withCoordinateKeys,
} from '@shardwise/core/extend';
import { activationCollectives } from './activation-collectives.ts';
import { type GatherAgainOptions, gatherAgainRules, sendingAgain } from './gather-again.ts';
import { requireModule, requireParameter } from './module-spec.ts';
import type { ModuleSpec, ParallelStyle } from './parallel-style.ts';
import { evenSharding } from './even-sharding.ts';
import { rowwiseParallel } from './rowwise-parallel.ts';
import { requireTensor, wrapMethod } from './wrap-method.ts';

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
  const heads = [numHeads, keyHeads, keyHeads];
  const projection = rowwiseParallel({ output });
  return {
    name,
    methods: ['forward', 'attend'],
    shardings(module, size) {
      const weight = requireParameter(module, 'in_proj_weight', 2, name);
      const bias = module.parameters.get('in_proj_bias');
      const out = requireParameter(module, 'out_proj.weight', 2, name);
      const rows = (parameter: typeof weight): ReturnType<typeof evenSharding> =>
        evenSharding({ name: parameter.name, shape: parameter.shape, dim: 0, size, heads });
      return new Map([
        ['in_proj_weight', rows(weight)],
        ...(bias === undefined ? [] : [['in_proj_bias', rows(bias)] as const]),
        [
          'out_proj.weight',
          evenSharding({
            name: out.name,
            shape: out.shape,
            dim: 1,
            size,
            heads: [numHeads],
          }),
        ],
      ]);
    },
    collectives(module, tokens) {
      const { shape, dtype: own } = requireParameter(module, 'in_proj_weight', 2, name);
      const { productDtype: dtype = own } = module;
      return [
        ...activationCollectives({
          module: module.path,
          from: input,
          to: 'replicate',
          elements: tokens * (shape[1] ?? 0),
          dtype,
          again: gatherAgain,
        }),
        ...projection.collectives(projectionOf(module), tokens),
      ];
    },
    check(module, path) {
      const attention = requireModule(module, MultiheadAttention, path, name);
      if (attention.numHeads !== numHeads || attention.keyHeads !== keyHeads) {
        throw new LayoutError(
          {
            asked: `${name}() of '${path}' with ${numHeads} heads over ${keyHeads} key heads`,
            found: `a module of ${attention.numHeads} heads over ${attention.keyHeads} key heads`,
            todo: 'Give the numbers of heads that the module was built with',
          },
          { path, numHeads, keyHeads },
        );
      }
    },
    install(module, place, path) {
      const attention = requireModule(module, MultiheadAttention, path, name);
      const { axis, size, rank } = place;
      attention.numHeads = numHeads / size;
      attention.keyHeads = keyHeads / size;
      projection.install(attention.outProj, place, `${path}.out_proj`);
      for (const [method, tensors] of [
        ['forward', 1],
        ['attend', 3],
      ] as const) {
        wrapMethod(attention, method, (inputs, attend) => {
          const attended = (): unknown => {
            const copied = copiesOf(inputs.slice(0, tensors), (x) =>
              redistributeOver(lowered(requireTensor(x, path)), axis, input, 'replicate'),
            );
            const calls = inputs.slice(tensors).map((call) => ofOwnHeads(call, axis, numHeads));
            // Dropout differs between ranks, because each rank drops weights of other heads.
            return withCoordinateKeys(rank, () => attend([...copied, ...calls]));
          };
          return gatherAgain ? sendingAgain(attended) : attended();
        });
      }
    },
  };
}

/**
 * Returns the arguments of a call, with the part of a mask that this rank's heads read. Shape: mask [.., H, T, S] ->
 * [.., H / t, T, S].
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

/** Copies each value once, even if it is passed several times, as the same keys and values are. */
function copiesOf<T>(values: readonly unknown[], copy: (value: unknown) => T): T[] {
  const copies = new Map([...new Set(values)].map((value) => [value, copy(value)]));
  return values.flatMap((value) => copies.get(value) ?? []);
}

function projectionOf({ path, parameters, ...rest }: ModuleSpec): ModuleSpec {
  const prefix = 'out_proj.';
  const own = [...parameters].filter(([key]) => key.startsWith(prefix));
  return {
    ...rest,
    path: `${path}.out_proj`,
    parameters: new Map(own.map(([key, value]) => [key.slice(prefix.length), value])),
  };
}
