import { dtypes, elementCount, type HalfDType, type Node } from '@shardwise/core/extend';
import type { StageEdge } from '../../pipeline-schedule/actions/schedule.ts';
import type { BuiltBatch } from '../microbatches/build-microbatches.ts';
import { type NumberedCrossing, numberedCrossings } from './forward-drafts.ts';
import type { SharedParameter } from './shared-parameters.ts';

/** A message of a training pass between two ranks of a pipeline. */
export interface PassMessage {
  readonly from: number;
  readonly to: number;
  readonly when: 'forward' | 'backward';
  readonly bytes: number;
  /** The places, among the model's parameters, of those that the message is about. */
  readonly parameters: readonly number[];
}

interface PassShape {
  readonly crossings: readonly (readonly NumberedCrossing[])[];
  readonly shared: readonly SharedParameter[];
  readonly rankOfStage: readonly number[];
  readonly ranks: number;
  readonly lossStage: number;
}

/**
 * Returns all messages of a training pass, of all ranks: activations and their gradients, parameters that ranks lend
 * each other, the loss, and buffers that stages have updated.
 */
export function passMessages(
  { updated }: Pick<BuiltBatch, 'updated'>,
  { crossings, shared, rankOfStage, ranks, lossStage }: PassShape,
): readonly PassMessage[] {
  const found: PassMessage[] = [];
  const rankOf = (stage: number): number => rankOfStage[stage] ?? 0;
  const add = (
    message: Omit<PassMessage, 'parameters'>,
    ...parameters: readonly number[]
  ): void => {
    if (message.from !== message.to && message.bytes > 0) found.push({ ...message, parameters });
  };
  const toAll = (from: number, bytes: number): void => {
    for (let to = 0; to < ranks; to++) add({ from, to, when: 'backward', bytes });
  };
  for (const { node, from, to, gradient, sentAs } of crossings.flat()) {
    const bytes = elementCount(node.shape) * dtypes[sentAs ?? node.dtype].bytes;
    add({ from: rankOf(from), to: rankOf(to), when: 'forward', bytes });
    if (gradient) add({ from: rankOf(to), to: rankOf(from), when: 'backward', bytes });
  }
  for (const { leaf, owner, index, readers } of shared) {
    for (const [reader, gradient] of readers) {
      const bytes = bytesOfValue(leaf);
      add({ from: owner, to: reader, when: 'forward', bytes }, index);
      if (gradient) add({ from: reader, to: owner, when: 'backward', bytes }, index);
    }
  }
  toAll(rankOf(lossStage), dtypes.f32.bytes);
  for (const [leaf, stage] of updated) toAll(rankOf(stage), bytesOfValue(leaf));
  return found;
}

function bytesOfValue({ shape, dtype }: Node): number {
  return elementCount(shape) * dtypes[dtype].bytes;
}

/** Returns the edges between stages, with the bytes that cross them in the first microbatch. */
export function edgesOf(
  { microbatches }: BuiltBatch,
  activationDtype: HalfDType | null,
): StageEdge[] {
  const [first = []] = numberedCrossings(microbatches, activationDtype);
  const edges = Map.groupBy(first, ({ from, to }) => `${from} ${to}`);
  return [...edges.values()].flatMap((crossings) => {
    const [any] = crossings;
    if (any === undefined) return [];
    const { from, to } = any;
    const bytes = crossings.reduce(
      (sum, { node, sentAs }) =>
        sum + elementCount(node.shape) * dtypes[sentAs ?? node.dtype].bytes,
      0,
    );
    return [{ from, to, gradient: crossings.some(({ gradient }) => gradient), bytes }];
  });
}
