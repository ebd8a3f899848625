import {
  type ActivationLayout,
  allReduce,
  LayoutError,
  MixtureOfExperts,
  type Parameter,
  redistributeOver,
  sequenceAxesOf,
  shard,
  Tensor,
  withCoordinateKeys,
} from '@shardwise/core/extend';
import { activationCollectives } from '../tensor-parallel/activation-collectives.ts';
import { requireModule } from '../tensor-parallel/module-spec.ts';
import type { ParallelStyle } from '../tensor-parallel/parallel-style.ts';
import { withReplicatedParameters } from '../tensor-parallel/replicated-parameters.ts';
import { sharedGradients } from '../tensor-parallel/shared-gradients.ts';
import { requireTensor, wrapMethod } from '../tensor-parallel/wrap-method.ts';
import { perExpert, routerOf } from './experts-style.ts';

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
    shardings: () => new Map(),
    collectives({ path, parameters, productDtype, cut }, tokens) {
      const router = routerOf(parameters);
      const [, features = 0] = router?.shape ?? [];
      const shared = [...parameters].filter(([key]) => !isPerExpert(key) && cut?.has(key) !== true);
      return [
        ...[
          { from: input, to: own },
          { from: own, to: input },
        ].flatMap((change) =>
          activationCollectives({
            ...change,
            module: path,
            elements: tokens * features,
            dtype: productDtype ?? router?.dtype ?? 'f32',
          }),
        ),
        ...sharedGradients(shared.map(([, parameter]) => parameter)),
      ];
    },
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
    install(module, { axis, rank, size }, path) {
      if (size === 1) return;
      const layer = requireModule(module, MixtureOfExperts, path, name);
      wrapMethod(layer, 'forward', ([x], forward) => {
        const part = redistributeOver(requireTensor(x, path), axis, input, own);
        const result = withCoordinateKeys(rank, () =>
          withReplicatedParameters(layer, usedAlike(layer, axis), axis, () => forward([part])),
        );
        return redistributeOver(requireTensor(result, path), axis, own, input);
      });
      // The losses and counts of a part of the tokens are reduced to those of all tokens.
      wrapMethod(layer, 'takeAuxiliaryLoss', (_, take) => {
        const loss = take([]);
        if (!(loss instanceof Tensor)) return null;
        return allReduce(loss, axis, { reduce: 'avg', to: 'invariant' });
      });
      wrapMethod(layer, 'updateBias', ([axes], update) =>
        update([Array.isArray(axes) ? [...axes, axis] : [axis]]),
      );
    },
  };
}

function isPerExpert(key: string): boolean {
  return perExpert.some((own) => own === key);
}

/** Returns the parameters of a layer that each rank of the axis has whole. */
function usedAlike(layer: MixtureOfExperts, axis: string): readonly Parameter[] {
  return layer.parameters().filter(({ part }) => !part.shardedOver.includes(axis));
}
