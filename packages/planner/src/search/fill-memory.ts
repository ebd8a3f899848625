import { blocksOf } from '../cost/blocks.ts';
import { plannedMemory } from '../cost/memory.ts';
import { microbatchesOf, type RunLayout } from '../cost/run-layout.ts';
import { scheduleFacts } from '../cost/schedule-facts.ts';
import { microbatchTime } from '../cost/step-time.ts';
import { placesOf } from '../cost/stages.ts';
import type { Recompute } from '../model/activations.ts';
import { chooseLayerStrategies } from './layer-strategies.ts';
import type { SearchRequest } from './search-request.ts';

/**
 * Lets some layers compute less again, as far as the memory of a rank allows: in each, `layout.recompute`, which fits,
 * or `less`, which does not fit in all of them. Null if no layer can.
 */
export function fillMemory(
  layout: RunLayout,
  less: Recompute,
  request: SearchRequest,
): RunLayout | null {
  const { model, cluster, workload, memoryBytes } = request;
  const { recompute: more } = layout;
  if (typeof more !== 'string') return null;
  const all = plannedMemory(model, layout, workload, cluster);
  const spare = (memoryBytes - all.totalBytes) / cluster.efficiency.allocator;
  const { pipelineParallel: ranks, stagesPerRank, schedule } = layout;
  const facts = scheduleFacts(schedule, ranks, stagesPerRank, microbatchesOf(layout, workload));
  const inFlight = Math.max(...facts.inFlight);
  const [cheap, dear] = [less, more].map((recompute) => {
    const blocks = blocksOf(model, { ...layout, recompute }, workload);
    return { blocks, places: placesOf(blocks, { ...layout, recompute }) };
  });
  if (cheap === undefined || dear === undefined) return null;
  const seconds = (which: typeof cheap): number => {
    const place = which.places[0];
    if (place === undefined || place.layers === 0) return 0;
    const time = microbatchTime(place, layout, cluster);
    return (time.compute + time.recompute + time.tensorParallel + time.offload) / place.layers;
  };
  const [cheapSeconds, dearSeconds] = [seconds(cheap), seconds(dear)];
  // The first stage has the most activations of all, so its budget holds for the layers of each stage.
  const perRank = Math.ceil(cheap.blocks.layers.length / ranks);
  const extra = cheap.blocks.layers.map((block, index) => {
    const kept = dear.blocks.layers[index]?.activationBytes ?? 0;
    return Math.max(0, block.activationBytes - kept) * inFlight;
  });
  const chosen = chooseLayerStrategies(
    extra.slice(0, perRank).map((bytes) => [
      { bytes, seconds: cheapSeconds },
      { bytes: 0, seconds: dearSeconds },
    ]),
    spare,
  );
  if (chosen === null || !chosen.choices.includes(0)) return null;
  const recompute = cheap.blocks.layers.map((_, index): Recompute => {
    return chosen.choices[index % perRank] === 0 ? less : more;
  });
  const filled = { ...layout, recompute };
  const memory = plannedMemory(model, filled, workload, cluster);
  return memory.totalBytes <= memoryBytes ? filled : null;
}
