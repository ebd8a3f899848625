import type { ClusterDescription } from '../cluster/cluster.ts';
import { blocksOf } from '../cost/blocks.ts';
import { messageSeconds } from '../cost/group-link.ts';
import { microbatchesOf, type RunLayout, type Workload } from '../cost/run-layout.ts';
import type { Prediction } from '../cost/predict.ts';
import type { ModelDescription } from '../model/model-description.ts';

/** What it takes to move activations to the host and back, in the place of computing them again. */
export interface OffloadedActivations {
  /** The bytes of each microbatch. */
  readonly bytes: number;
  /** The copies of a step, in both directions. */
  readonly copySeconds: number;
  /** What computation does not hide of them. */
  readonly exposedSeconds: number;
}

/**
 * Predicts what a budget of a script expects of offloading all that a layout computes again. Null if nothing is, if the
 * cluster names no link to its hosts, and for pipelines, whose passes no budget chooses for.
 */
export function offloadedActivations(
  { layout, terms }: Pick<Prediction, 'layout' | 'terms'>,
  model: ModelDescription,
  workload: Workload,
  { links }: Pick<ClusterDescription, 'links'>,
): OffloadedActivations | null {
  const { toHost, overlap } = links;
  if (layout.recompute === 'none' || layout.pipelineParallel > 1 || toHost === undefined)
    return null;
  const keptBytes = (recompute: RunLayout['recompute']): number =>
    blocksOf(model, { ...layout, recompute }, workload).layers.reduce(
      (sum, { activationBytes }) => sum + activationBytes,
      0,
    );
  const bytes = keptBytes('none') - keptBytes(layout.recompute);
  if (bytes <= 0) return null;
  const copySeconds = 2 * microbatchesOf(layout, workload) * messageSeconds(bytes, toHost);
  return { bytes, copySeconds, exposedSeconds: Math.max(0, copySeconds - overlap * terms.compute) };
}
