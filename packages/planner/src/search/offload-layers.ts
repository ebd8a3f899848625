import { blocksOf } from '../cost/blocks.ts';
import { plannedMemory } from '../cost/memory.ts';
import { recomputeOf, type RunLayout } from '../cost/run-layout.ts';
import { placesOf } from '../cost/stages.ts';
import { exposedCopySeconds, microbatchTime } from '../cost/step-time.ts';
import type { Recompute } from '../model/activations.ts';
import type { SearchRequest } from './search-request.ts';

/** Whether activations can be offloaded: no budget of a script chooses for the passes of a pipeline. */
export function canOffloadActivations(
  { pipelineParallel }: Pick<RunLayout, 'pipelineParallel'>,
  { cluster, search: { recompute } }: Pick<SearchRequest, 'cluster' | 'search'>,
): boolean {
  const isAllowed = recompute === undefined || recompute.includes('offload');
  return isAllowed && pipelineParallel === 1 && cluster.links.toHost !== undefined;
}

/**
 * Offloads the activations of layers that a layout computes again, one layer after the other, where that takes less time:
 * while computation hides the copies, they cost nothing, and after that they take what the link takes. Null if it is
 * faster for no layer, or does not fit.
 */
export function offloadLayers(layout: RunLayout, request: SearchRequest): RunLayout | null {
  const { model, cluster, workload, memoryBytes } = request;
  if (!canOffloadActivations(layout, request)) return null;
  const { layers } = blocksOf(model, layout, workload);
  const offloaded = blocksOf(model, { ...layout, recompute: 'offload' }, workload);
  const [place] = placesOf(blocksOf(model, layout, workload), layout);
  if (place === undefined) return null;
  const time = microbatchTime(place, layout, cluster);
  const secondsPerFlop = place.recomputedFlops === 0 ? 0 : time.recompute / place.recomputedFlops;
  let bytes = 0;
  const recompute = layers.map(({ recomputedFlops }, index): Recompute => {
    const own = recomputeOf(layout, index);
    if (own === 'none' || own === 'offload') return own;
    const more = bytes + (offloaded.layers[index]?.offloadedBytes ?? 0);
    const copying =
      exposedCopySeconds(more, time.compute, cluster) -
      exposedCopySeconds(bytes, time.compute, cluster);
    if (copying >= secondsPerFlop * recomputedFlops) return own;
    bytes = more;
    return 'offload';
  });
  if (bytes === 0) return null;
  const changed = { ...layout, recompute };
  const memory = plannedMemory(model, changed, workload, cluster);
  const onHost = memory.hostBytes * cluster.devicesPerHost;
  const fits = memory.totalBytes <= memoryBytes && onHost <= (cluster.hostMemoryBytes ?? Infinity);
  return fits ? changed : null;
}
