import { deviceCount } from '../cluster/cluster.ts';
import { plannedMemory } from '../cost/memory.ts';
import { predict } from '../cost/predict.ts';
import { layoutText, type RunLayout } from '../cost/run-layout.ts';
import type { Recompute } from '../model/activations.ts';
import { fillMemory } from './fill-memory.ts';
import { canOffloadActivations, offloadLayers } from './offload-layers.ts';
import { FoundLayouts, type SearchResult } from './found-layouts.ts';
import type { SearchRequest } from './search-request.ts';
import { clusterSizes, layoutsOf, meshes, misfitOf, refusalOf, rowsOf } from './search-space.ts';

/** Visits all layouts of a request. */
export function visitLayouts(request: SearchRequest): SearchResult {
  const found = new FoundLayouts(request);
  const clusters = request.goal === 'money' ? clusterSizes(request.cluster) : [request.cluster];
  for (const cluster of clusters) visit({ ...request, cluster }, found);
  return found.result();
}

function visit(request: SearchRequest, found: FoundLayouts): void {
  const { model, cluster, workload, precision, search: space } = request;
  for (const mesh of meshes(deviceCount(cluster), space)) {
    const misfit = misfitOf(mesh, model, cluster, workload);
    if (misfit !== null) {
      const { tensorParallel, pipelineParallel, dataParallel } = mesh;
      found.prune(misfit, () => `dp${dataParallel} tp${tensorParallel} pp${pipelineParallel}`);
      continue;
    }
    for (const layout of layoutsOf(mesh, model, cluster, precision, space)) {
      for (const rows of rowsOf(mesh, workload, space)) {
        const microbatches = workload.batch / mesh.dataParallel / rows;
        const refusal = refusalOf(layout, microbatches, model);
        if (refusal === null) weigh({ ...layout, rows, recompute: 'none' }, request, found);
        else found.prune(refusal, () => layoutText({ ...layout, rows, recompute: 'none' }));
      }
    }
  }
}

/** Tries what may be computed again, from nothing to everything, and stops at the first that fits. */
function weigh(layout: RunLayout, request: SearchRequest, found: FoundLayouts): void {
  const { model, cluster, workload, memoryBytes } = request;
  const kinds = usefulRecompute(layout, request);
  if (kinds.length === 0) {
    const reason = 'activations cannot be offloaded (a pipeline, or no link to the host)';
    found.prune(reason, () => layoutText(layout));
  }
  for (const [index, recompute] of kinds.entries()) {
    const candidate = { ...layout, recompute };
    const memory = plannedMemory(model, candidate, workload, cluster);
    const hostBytes = memory.hostBytes * cluster.devicesPerHost;
    if (hostBytes > (cluster.hostMemoryBytes ?? Infinity)) {
      found.prune('what is on the host needs more than its memory', () => layoutText(candidate));
      return;
    }
    if (memory.totalBytes <= memoryBytes) {
      found.add(predict(model, candidate, workload, cluster));
      const before = kinds[index - 1];
      // Between two kinds, some layers can do with less.
      const filled = before === undefined ? null : fillMemory(candidate, before, request);
      if (filled !== null) found.add(predict(model, filled, workload, cluster));
      const offloaded = offloadLayers(filled ?? candidate, request);
      if (offloaded !== null) found.add(predict(model, offloaded, workload, cluster));
      if (request.goal !== 'memory') return;
    } else {
      found.tooLarge(memory.totalBytes, candidate, request);
    }
  }
}

function usefulRecompute(layout: RunLayout, request: SearchRequest): readonly Recompute[] {
  const { model, search } = request;
  const { recompute: allowed = ['none', 'selective', 'full', 'offload'] } = search;
  // Attention by blocks keeps no scores that could be computed again.
  const hasScores = model.kind === 'transformer' && !layout.flashAttention;
  return (['none', 'selective', 'full', 'offload'] as const).filter(
    (kind) =>
      allowed.includes(kind) &&
      (kind !== 'selective' || hasScores || !allowed.includes('none')) &&
      (kind !== 'offload' || canOffloadActivations(layout, request)),
  );
}
