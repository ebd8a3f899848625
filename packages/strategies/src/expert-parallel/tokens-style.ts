import {
  type ActivationLayout,
  allReduce,
  LayoutError,
  MixtureOfExperts,
  sequenceAxesOf,
  shard,
  Tensor,
} from '@shardwise/core/extend';
import { requireModule } from '../tensor-parallel/module-spec.ts';
import type { ParallelStyle } from '../tensor-parallel/parallel-style.ts';
import { wrapMethod } from '../tensor-parallel/wrap-method.ts';
import { routerOf } from './experts-style.ts';

const name = 'expertParallel';

/**
 * Makes each rank of `over` route a part of the tokens that all of these ranks have. `input` is the layout of tokens
 * before and after the layer: invariant, or sharded along a dim, as between layers of sequence parallelism.
 */
export function tokensStyle(input: ActivationLayout, over: string): ParallelStyle {
  // The dim of the tokens in [.., T, C].
  const own = typeof input === 'string' ? shard(-2) : input;
  return {
    name,
    kind: {
      check(module, path) {
        const sequenceAxes = sequenceAxesOf(requireModule(module, MixtureOfExperts, path, name));
        if (sequenceAxes === null || sequenceAxes.includes(over)) return;
        throw new LayoutError(
          {
            asked: `${name}() of '${path}', whose ranks of '${over}' each have a part of every sequence`,
            found: `it balances experts by sequences that are spread over ${sequenceAxes.join(', ') || 'no axis'}`,
            todo: `Say so: bySequence: ['${[...sequenceAxes, over].join("', '")}']`,
          },
          { path, axis: over },
        );
      },
      sizes({ parameters, productDtype }) {
        const router = routerOf(parameters);
        const [, features = 0] = router?.shape ?? [];
        return { input: features, output: features, dtype: productDtype ?? router?.dtype ?? 'f32' };
      },
    },
    parameters: {},
    others: 'uncut',
    inputs: { forward: [{ from: input, to: own }] },
    output: { from: own, to: input },
    drawsOwn: true,
    install(module, { axis }, path) {
      const layer = requireModule(module, MixtureOfExperts, path, name);
      // The losses and counts of a part of the tokens are reduced to those of all tokens.
      wrapMethod(layer, 'takeAuxiliaryLoss', (_, take) => {
        const loss = take([]);
        if (!(loss instanceof Tensor)) return null;
        return allReduce(loss, axis, { reduce: 'avg', to: 'invariant' });
      });
      wrapMethod(layer, 'updateBias', ([axes], update) =>
        update([Array.isArray(axes) ? [...axes, axis] : [axis]]),
      );
      return undefined;
    },
  };
}
