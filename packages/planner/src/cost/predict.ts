import type { ClusterDescription } from '../cluster/cluster.ts';
import { deviceCount } from '../cluster/cluster.ts';
import { describeConvention, flopsPerRow, type Utilization } from '../model/flops.ts';
import type { ModelDescription } from '../model/model-description.ts';
import { blocksOf } from './blocks.ts';
import { type PlannedMemory, plannedMemory } from './memory.ts';
import { ranksOf, type RunLayout, type Workload } from './run-layout.ts';
import { peakFlops, secondsOf, type StepTerms, stepTermsOf } from './step-time.ts';

/** What a step takes, before it runs. */
export interface Prediction {
  readonly layout: RunLayout;
  readonly terms: StepTerms;
  readonly stepSeconds: number;
  /** Rows per second of all ranks. */
  readonly rowsPerSecond: number;
  readonly memory: PlannedMemory;
  readonly utilization: Utilization;
  /** The energy of a step in joules, if the cluster names the power of its devices. */
  readonly joules: number | null;
  /** The price of a step, if the cluster names that of an hour of its devices. */
  readonly price: number | null;
}

/** Predicts the time and the memory of a step. The layout must fit the model and the cluster. */
export function predict(
  model: ModelDescription,
  layout: RunLayout,
  workload: Workload,
  cluster: ClusterDescription,
): Prediction {
  const terms = stepTermsOf(model, layout, workload, cluster);
  const stepSeconds = secondsOf(terms);
  const { watts, pricePerHour } = cluster.device;
  const deviceSeconds = stepSeconds * deviceCount(cluster);
  const peak = peakFlops(cluster, layout.precision) * stepSeconds * ranksOf(layout);
  const useful = flopsPerRow(model, workload.sequence) * workload.batch;
  return {
    layout,
    terms,
    stepSeconds,
    rowsPerSecond: workload.batch / stepSeconds,
    memory: plannedMemory(model, layout, workload, cluster),
    utilization: {
      mfu: useful / peak,
      hfu: (useful + recomputedFlops(model, layout, workload)) / peak,
      convention:
        model.kind === 'transformer'
          ? describeConvention({})
          : 'products of forward and backward passes, as the graph has them',
    },
    joules: watts === undefined ? null : watts * deviceSeconds,
    price: pricePerHour === undefined ? null : (pricePerHour / 3600) * deviceSeconds,
  };
}

/** The operations that backward passes compute again in a step, on all ranks. */
function recomputedFlops(model: ModelDescription, layout: RunLayout, workload: Workload): number {
  const { layers } = blocksOf(model, layout, workload);
  const ofRow = layers.reduce((sum, block) => sum + block.recomputedFlops, 0) / layout.rows;
  return ofRow * layout.tensorParallel * layout.contextParallel * workload.batch;
}
