import { concat, type Tensor } from '@shardwise/core/extend';
import type { CommHook } from './comm-hook.ts';
import type { GradBucket } from './grad-bucket.ts';
import { type PowerSgdOptions, PowerSgdState, type PowerSgdStateDict } from './power-sgd-state.ts';
import { reduceBucket } from './reduce-bucket.ts';

/**
 * Sends two thin factors of each gradient instead of the gradient (Vogels et al. 2019, "PowerSGD: practical
 * low-rank gradient compression for distributed optimization", algorithms 1 and 2). It matches PyTorch's
 * powerSGD_hook with two exceptions: first factors share their message with gradients that are not compressed,
 * and a column of zeros stays zero instead of becoming NaN. Each model needs its own hook. Throws ConfigError
 * for options out of range.
 */
export function powerSgdHook(options: PowerSgdOptions = {}): PowerSgdHook {
  const state = new PowerSgdState(options);
  const hook: CommHook = (bucket) =>
    state.startsBucket(bucket.isLast)
      ? compressed(bucket, state)
      : reduceBucket(bucket, bucket.gradients, 'avg');
  return Object.assign(hook, {
    stateDict: () => state.read(),
    loadStateDict: (dict: PowerSgdStateDict) => state.load(dict),
  });
}

/** A communication hook with a state that a checkpoint may keep, separately for each rank. */
export interface PowerSgdHook extends CommHook {
  /** Returns the state as copies on the host. */
  stateDict(): Promise<PowerSgdStateDict>;
  /**
   * Throws CheckpointError, before anything changes, for a state that does not come from a hook with the same
   * options.
   */
  loadStateDict(dict: PowerSgdStateDict): void;
}

/**
 * Averages a bucket by two messages. The first one has the first factors P and the gradients that are not compressed.
 * The second one has the second factors Q.
 */
function compressed(bucket: GradBucket, state: PowerSgdState): readonly Tensor[] {
  const epsilon = state.orthogonalizationEpsilon;
  const parts = bucket.names.flatMap((name, index) => {
    const { [index]: gradient } = bucket.gradients;
    if (gradient === undefined) return [];
    const part = state.compress(name, gradient);
    const first = part?.matrix.matmul(orthogonalize(part.factor, epsilon)) ?? gradient;
    return [{ gradient, part, first }];
  });
  const firsts = reduceBucket(
    bucket,
    parts.map(({ first }) => first),
    'avg',
  );
  const factors = parts.flatMap(({ gradient, part }, index) => {
    const { [index]: first } = firsts;
    if (part === null || first === undefined) return [];
    const p = orthogonalize(first, epsilon);
    return [{ index, gradient, part, p, q: part.matrix.matmul(p, { transposeA: true }) }];
  });
  const seconds = reduceBucket(
    bucket,
    factors.map(({ q }) => q),
    'avg',
  );
  const averaged = [...firsts];
  factors.forEach(({ index, gradient, part, p }, position) => {
    const { [position]: q } = seconds;
    if (q === undefined) return;
    const approximation = p.matmul(q, { transposeB: true });
    part.keep(part.matrix.sub(approximation), q);
    averaged[index] = approximation.reshape(gradient.shape);
  });
  return averaged;
}

/**
 * Orthogonalizes the columns by the modified Gram-Schmidt process, as an expression. `epsilon` is added to each norm. A
 * column of zeros stays zero. Shape: [N, K] -> [N, K].
 */
function orthogonalize(matrix: Tensor, epsilon: number): Tensor {
  const [, count = 0] = matrix.shape;
  let rest = matrix;
  const done: Tensor[] = [];
  for (let index = 0; index < count; index++) {
    const column = rest.slice(1, 0, 1);
    const norm = column.square().sum().sqrt().add(epsilon);
    const unit = column.div(norm.eq(0).where(1, norm));
    done.push(unit);
    if (index === count - 1) break;
    const others = rest.slice(1, 1);
    const shares = unit.matmul(others, { transposeA: true });
    rest = others.sub(unit.matmul(shares));
  }
  return done.length === 1 ? (done[0] ?? matrix) : concat(done, 1);
}
