import { type HeldChunk, modelTensors, type SavedType } from '@shardwise/core/extend';
import type { SectionName, StoredTensor } from '../../checkpoint/format/index-file.ts';
import type { RankContents } from '../../checkpoint/save/checkpoint-contents.ts';
import type { Training } from './training.ts';

/** Tensors without chunks, by the sections of a checkpoint that have them. */
export type AbsentTensors = Readonly<
  Record<Exclude<SectionName, 'states'>, readonly StoredTensor[]>
>;

/**
 * Returns the tensors of a training of which this rank has no elements: those of other stages, and those that are too small
 * for all ranks to have a part.
 */
export function absentOf(
  { model, optimizer }: Training,
  held: RankContents['heldChunks'],
): AbsentTensors {
  const tensors = modelTensors(model);
  const trained = new Set(optimizer?.paramGroups.flatMap(({ params }) => params));
  const states = tensors
    .filter(({ tensor }) => trained.has(tensor))
    .flatMap(({ names: [name], tensor }) =>
      [...(optimizer?.savedState(tensor)?.tensors.keys() ?? [])].map((key) => ({
        name: `${name}.${key}`,
        type: optimizer?.savedType(tensor, key),
      })),
    );
  return {
    model: without(
      held.model,
      tensors.map(({ names: [name], tensor: { part } }) => ({ name, type: part })),
    ),
    optimizer: without(held.optimizer, states),
  };
}

function without(
  held: readonly HeldChunk[],
  tensors: readonly {
    readonly name: string;
    readonly type: Pick<SavedType, 'dtype' | 'wholeShape'> | undefined;
  }[],
): readonly StoredTensor[] {
  const names = new Set(held.map(({ name }) => name));
  return tensors.flatMap(({ name, type }) =>
    type === undefined || names.has(name)
      ? []
      : [{ name, dtype: type.dtype, shape: type.wholeShape, chunks: [] }],
  );
}
