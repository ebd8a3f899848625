import {
  allGather,
  allReduce,
  indicesInRange,
  LayoutError,
  linearLogSumExp,
  type Module,
  noGrad,
  reinterpret,
  stack,
  Tensor,
} from '@shardwise/core/extend';
import {
  type AxisPlace,
  colwiseParallel,
  type ParallelStyle,
  redistributeOver,
  shard,
} from '@shardwise/strategies';
import { LanguageModelHead } from './language-model-head.ts';

/**
 * A LanguageModelHead of which each rank has a part of the vocabulary. Logits are gathered, but not for a loss: ranks
 * then exchange three numbers for each token, which plans do not list. Planning throws LayoutError for a vocabulary that the ranks do not divide.
 */
export function vocabParallelHead(): ParallelStyle {
  const { kind, ...gathered } = colwiseParallel();
  return {
    ...gathered,
    name: 'vocabParallelHead',
    kind: {
      ...kind,
      check: (module, path) => {
        requireHead(module, path);
      },
    },
    output: null,
    install(module, place, path) {
      const head = requireHead(module, path);
      return {
        run([x, labels, count], forward) {
          if (labels === undefined) {
            const logits = tensorOf(forward([x]), path);
            return redistributeOver(logits, place.axis, shard(-1), 'invariant');
          }
          const labelCount = count === undefined ? null : tensorOf(count, path);
          return lossOf(head, tensorOf(x, path), tensorOf(labels, path), labelCount, place);
        },
      };
    },
  };
}

/**
 * The mean cross-entropy. The ranks exchange a maximum for each token, and one message with a sum of exponentials and the
 * label's logit. `count` is what the sum is divided by, if not the number of labels. Shape: x [B, T, C], labels i32 [B, T] -> [].
 */
function lossOf(
  { weight, bias, softcap }: LanguageModelHead,
  x: Tensor,
  labels: Tensor,
  count: Tensor | null,
  { axis, size, rank }: AxisPlace,
): Tensor {
  const flat = labels.flatten();
  const ignored = flat.eq(-100);
  const [vocabulary = 0] = weight.shape;
  // A label that no rank's part contains would go unnoticed later.
  const classes = indicesInRange(ignored.where(0, flat), vocabulary * size, 'vocabParallelHead');
  const own = reinterpret(classes, axis, 'invariant', 'replicate').sub(rank * vocabulary);
  const options = {
    ...(softcap === null ? {} : { softcap }),
    ...(bias === null ? {} : { bias }),
  };
  const { logSumExp, chosen } = linearLogSumExp(x, weight, own, options);
  const largest = noGrad(() =>
    allGather(logSumExp.unsqueeze(0), axis, 0).max(0).reshape(logSumExp.shape),
  );
  const parts = stack([logSumExp.sub(largest).exp(), chosen]);
  const sums = allReduce(parts, axis, { to: 'invariant' });
  const losses = sums.select(0, 0).log().add(largest).sub(sums.select(0, 1));
  return ignored
    .where(0, losses)
    .sum()
    .div(count ?? ignored.logicalNot().sum());
}

function tensorOf(value: unknown, path: string): Tensor {
  if (value instanceof Tensor) return value;
  throw new LayoutError(
    {
      asked: `tensor parallelism of ${path}`,
      found: `a value of type ${typeof value}`,
      todo: 'Call it with tensors',
    },
    { path },
  );
}

function requireHead(module: Module, path: string): LanguageModelHead {
  if (module instanceof LanguageModelHead) return module;
  throw new LayoutError(
    {
      asked: `vocabParallelHead() of the module '${path}'`,
      found: `a ${module.constructor.name}`,
      todo: 'Use it for the head of a model of this package',
    },
    { path, kind: module.constructor.name },
  );
}
