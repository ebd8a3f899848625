import {
  fromData,
  type Module,
  noGrad,
  stack,
  targetOf,
  isOp,
  type Node,
} from '@shardwise/core/extend';
import type { GeneratingModel, ModelFacts } from '@shardwise/models';
import type { PagedCache } from '../cache/paged-cache.ts';
import type { StepLayout } from '../cache/step-layout.ts';

/** What the model says of the token behind one. Shape: each [V]. */
export interface StepScores {
  readonly scores: Float32Array;
  /** Null if no request of the step asked for them. */
  readonly logProbabilities: Float32Array | null;
}

/**
 * Computes the tokens of a step as one row, and writes their keys and values into the cache. Returns the scores behind
 * the tokens that `scored` names, in their order.
 */
export async function runStep(
  model: GeneratingModel,
  { vocabSize }: ModelFacts,
  cache: PagedCache,
  layout: StepLayout,
  withLogProbabilities: boolean,
): Promise<readonly StepScores[]> {
  const { tokens, positions, scored } = layout;
  const row = [1, tokens.length];
  const read = noGrad(() => {
    cache.begin(layout);
    const kept = scored.length > 0 ? scored : Int32Array.of(0);
    const logits = model
      .forward(fromData(tokens, row, 'i32'), {
        cache,
        positionIds: fromData(positions, row, 'i32'),
        logitsToKeep: fromData(kept, [kept.length], 'i32'),
      })
      .select(0, 0)
      .to('f32');
    return withLogProbabilities ? stack([logits, logits.logSoftmax()], 1) : logits;
  });
  const data = await read.data();
  const values = data instanceof Float32Array ? data : Float32Array.from(data, Number);
  const width = read.shape.at(-1) ?? vocabSize;
  const rows = Array.from({ length: values.length / width }, (_, at) =>
    values.slice(at * width, at * width + vocabSize),
  );
  const each = withLogProbabilities ? 2 : 1;
  return Array.from(scored, (_, index) => ({
    scores: rows[each * index] ?? new Float32Array(0),
    logProbabilities: withLogProbabilities ? (rows[each * index + 1] ?? null) : null,
  }));
}

/** A number that grows when a parameter or a buffer of the model gets new contents. */
export function weightsVersion(module: Module): number {
  const versionOf = (node: Node): number =>
    isOp(node, 'assign') ? Math.max(node.id, targetOf(node).updatedAt) : node.updatedAt;
  return module
    .parameters()
    .reduce((latest, { part }) => Math.max(latest, versionOf(part.node)), 0);
}
