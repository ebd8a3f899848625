import { blocksOf } from '../cost/blocks.ts';
import {
  microbatchesOf,
  partsOfStates,
  type RunLayout,
  type Workload,
} from '../cost/run-layout.ts';
import { scheduleFacts } from '../cost/schedule-facts.ts';
import { placesOf } from '../cost/stages.ts';
import type { TransformerDescription } from '../model/transformer.ts';

/** What a rank keeps, counted. Its bytes are the sum of these with one constant for each, in bytes. */
export interface MemoryQuantities {
  /** Elements of parameters that the rank has whole. */
  readonly whole: number;
  /** Elements of its part of the states that are divided. */
  readonly divided: number;
  /** Elements of the width of layers, for all tokens and layers whose activations are kept. */
  readonly hidden: number;
  /** Elements of the width of feed-forward networks, in the same way. */
  readonly feedForward: number;
  readonly logits: number;
  /** 1 GiB for what does not depend on the model. */
  readonly gibibyte: number;
}

/** The quantities, in the order of the constants. */
export const memoryQuantities: readonly (keyof MemoryQuantities)[] = [
  'whole',
  'divided',
  'hidden',
  'feedForward',
  'logits',
  'gibibyte',
];

/** Bytes of each, by which the place of a pipeline is chosen that needs most. */
const usual = { whole: 8, divided: 12, hidden: 20, feedForward: 10, logits: 13, gibibyte: 1 };

/** Counts what the rank keeps that needs most. */
export function memoryQuantitiesOf(
  model: TransformerDescription,
  layout: RunLayout,
  workload: Workload,
): MemoryQuantities {
  const blocks = blocksOf(model, layout, workload);
  const { pipelineParallel: pp, tensorParallel: tp, contextParallel: cp, rows } = layout;
  const microbatches = microbatchesOf(layout, workload);
  const { inFlight } = scheduleFacts(layout.schedule, pp, layout.stagesPerRank, microbatches);
  const tokens = (rows * workload.sequence) / (tp * cp);
  const places = placesOf(blocks, layout).map((place, index): MemoryQuantities => {
    const kept = tokens * place.layers * (inFlight[index] ?? 1);
    const elements = place.parameters + place.expertParameters;
    return {
      whole: elements,
      divided: elements / partsOfStates(layout),
      hidden: kept * model.hidden,
      feedForward: kept * model.feedForward,
      logits: index === pp - 1 ? tokens * model.vocabulary : 0,
      gibibyte: 2 ** 30,
    };
  });
  const bytes = (place: MemoryQuantities): number =>
    memoryQuantities.reduce((sum, quantity) => sum + usual[quantity] * place[quantity], 0);
  return places.reduce((most, place) => (bytes(place) > bytes(most) ? place : most));
}
