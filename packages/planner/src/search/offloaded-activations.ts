import type { ClusterDescription } from '../cluster/cluster.ts';
import { blocksOf } from '../cost/blocks.ts';
import { hostLink, messageSeconds } from '../cost/group-link.ts';
import { microbatchesOf, recomputeOf, type Workload } from '../cost/run-layout.ts';
import type { Prediction } from '../cost/predict.ts';
import { exposedCopySeconds } from '../cost/step-time.ts';
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
  cluster: ClusterDescription,
): OffloadedActivations | null {
  const hasLink = cluster.links.toHost !== undefined;
  if (layout.recompute === 'none' || layout.pipelineParallel > 1 || !hasLink) return null;
  const whole = blocksOf(model, { ...layout, recompute: 'none' }, workload).layers;
  const { layers } = blocksOf(model, layout, workload);
  const bytes = layers.reduce((sum, { activationBytes }, at) => {
    const isRecomputed = recomputeOf(layout, at) !== 'offload';
    const saved = isRecomputed ? (whole[at]?.activationBytes ?? 0) - activationBytes : 0;
    // A layer with a large output may keep less of itself than that.
    return sum + Math.max(0, saved);
  }, 0);
  if (bytes === 0) return null;
  const microbatches = microbatchesOf(layout, workload);
  // Computation hides the copies of layers that are offloaded already.
  const before = layers.reduce((sum, { offloadedBytes }) => sum + offloadedBytes, 0);
  const exposed = (copied: number): number =>
    microbatches * exposedCopySeconds(copied, terms.compute / microbatches, cluster);
  return {
    bytes,
    copySeconds: 2 * microbatches * messageSeconds(bytes, hostLink(cluster)),
    exposedSeconds: exposed(before + bytes) - exposed(before),
  };
}
