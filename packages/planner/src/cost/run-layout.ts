import type { ScheduleName } from '@shardwise/strategies';
import type { Recompute } from '../model/activations.ts';
import type { Precision, ZeroStage } from '../model/states.ts';

/** Which states are in the memory of the host between their uses. */
export type Offload = 'nothing' | 'optimizer' | 'optimizer and parameters';

/** What is trained on in one step. */
export interface Workload {
  /** The rows (sequences, images) of the batch of a step, over all ranks. */
  readonly batch: number;
  /** The tokens of a sequence. Models of modules do not use it. */
  readonly sequence: number;
}

/**
 * How a run is divided. Ranks are counted as in Megatron: tensor parallelism innermost, then context, data and
 * pipeline parallelism. Experts are divided among ranks of data parallelism.
 */
export interface RunLayout {
  readonly dataParallel: number;
  readonly tensorParallel: number;
  readonly pipelineParallel: number;
  readonly contextParallel: number;
  readonly expertParallel: number;
  readonly zero: ZeroStage;
  /** The ranks of data parallelism that divide states. Fewer than all: hybrid sharding. */
  readonly shardRanks: number;
  readonly sequenceParallel: boolean;
  readonly schedule: ScheduleName;
  readonly stagesPerRank: number;
  /**
   * What stages of a pipeline have alike: the number of layers, or the operations, among which those of the logits count,
   * as nanotron divides models. Default: layers.
   */
  readonly stagesAlike?: 'layers' | 'operations';
  /**
   * What each rank of tensor parallelism sends to the next stage, if all of them have the same: the whole, as `pipeline` does,
   * or a part, of which the ranks there gather the whole, as Megatron-LM and DeepSpeed do (Narayanan et al. 2021, section 4.1).
   * Default: whole.
   */
  readonly betweenStages?: 'whole' | 'parts';
  /** The rows of a microbatch. */
  readonly rows: number;
  /** What the backward pass computes again, or reads from the host: in all layers, or in each. */
  readonly recompute: Recompute | readonly Recompute[];
  readonly offload: Offload;
  readonly precision: Precision;
  readonly flashAttention: boolean;
}

/** A layout on one device, from which others are made. */
export const oneDevice: RunLayout = {
  dataParallel: 1,
  tensorParallel: 1,
  pipelineParallel: 1,
  contextParallel: 1,
  expertParallel: 1,
  zero: 0,
  shardRanks: 1,
  sequenceParallel: false,
  schedule: '1f1b',
  stagesPerRank: 1,
  rows: 1,
  recompute: 'none',
  offload: 'nothing',
  precision: 'mixed',
  flashAttention: true,
};

/** The number of ranks of a layout. */
export function ranksOf(
  layout: Pick<
    RunLayout,
    'dataParallel' | 'tensorParallel' | 'pipelineParallel' | 'contextParallel'
  >,
): number {
  const { dataParallel, tensorParallel, pipelineParallel, contextParallel } = layout;
  return dataParallel * tensorParallel * pipelineParallel * contextParallel;
}

/** The microbatches of a step in each pipeline. */
export function microbatchesOf(layout: RunLayout, { batch }: Workload): number {
  return batch / (layout.dataParallel * layout.rows);
}

/** The ranks among which each state of a parameter is divided, besides those that divide layers. */
export function partsOfStates({ zero, shardRanks, contextParallel }: RunLayout): number {
  // Ranks of context parallelism have the same parameters, too.
  return zero === 0 ? 1 : shardRanks * contextParallel;
}

/** The parts of which each rank of tensor parallelism sends one to the next stage. With sequence parallelism it has no more. */
export function partsBetweenStages(layout: RunLayout): number {
  const isWhole = layout.sequenceParallel || layout.betweenStages !== 'parts';
  return isWhole ? 1 : layout.tensorParallel;
}

/** Returns what a layer computes again. */
export function recomputeOf({ recompute }: RunLayout, layer: number): Recompute {
  return typeof recompute === 'string' ? recompute : (recompute[layer] ?? 'none');
}

/** Writes what is computed again, such as `full in 8 of 32 layers`. */
export function recomputeText(recompute: RunLayout['recompute']): string {
  if (typeof recompute === 'string') return recompute === 'offload' ? 'none' : recompute;
  const counts = (['selective', 'full'] as const).flatMap((kind) => {
    const count = recompute.filter((each) => each === kind).length;
    return count === 0 ? [] : [`${kind} in ${count} of ${recompute.length} layers`];
  });
  return counts.join(', ') || 'none';
}

/** Writes of how many layers the activations are offloaded, such as `8 of 32 layers`, `all layers` or `none`. */
export function offloadText(recompute: RunLayout['recompute']): string {
  if (typeof recompute === 'string') return recompute === 'offload' ? 'all layers' : 'none';
  const count = recompute.filter((each) => each === 'offload').length;
  if (count === recompute.length) return 'all layers';
  return count === 0 ? 'none' : `${count} of ${recompute.length} layers`;
}

/** Writes a layout on one line, such as `dp8 tp4 pp12 1f1b zero1 rows2 full`. */
export function layoutText(layout: RunLayout): string {
  const axes = [
    ['dp', layout.dataParallel],
    ['tp', layout.tensorParallel],
    ['cp', layout.contextParallel],
    ['ep', layout.expertParallel],
    ['pp', layout.pipelineParallel],
  ] as const;
  const { zero, shardRanks, dataParallel, stagesPerRank } = layout;
  const recomputed = recomputeText(layout.recompute);
  const offloaded = offloadText(layout.recompute);
  return [
    ...axes.filter(([name, size]) => size > 1 || name === 'dp').map(([name, size]) => name + size),
    ...(layout.sequenceParallel ? ['sp'] : []),
    ...(layout.pipelineParallel > 1
      ? [`${layout.schedule}${stagesPerRank > 1 ? `×${stagesPerRank}` : ''}`]
      : []),
    ...(zero > 0 ? [`zero${zero}${shardRanks < dataParallel ? `/${shardRanks}` : ''}`] : []),
    `rows${layout.rows}`,
    ...(recomputed === 'none' ? [] : [`recompute ${recomputed}`]),
    ...(offloaded === 'none' ? [] : [`offload activations of ${offloaded}`]),
    ...(layout.offload === 'nothing' ? [] : [`offload ${layout.offload}`]),
  ].join(' ');
}
