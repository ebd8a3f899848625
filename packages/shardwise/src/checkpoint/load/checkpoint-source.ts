import { type Chunk, type SourcePart, type TensorSource } from '@shardwise/core/extend';
import type { Checkpoint } from './open-checkpoint.ts';
import type { StoredTensor } from '../format/index-file.ts';
import { describeVarying, placesToLoad, shapeOf } from '../format/varying.ts';

/**
 * The tensors of a checkpoint's model. A rank reads its own values of a tensor that varies over ranks. If another number
 * of ranks saved it, the rank reads the mean of their values where the part says so.
 */
export function checkpointSource({ directory, model, aliases }: Checkpoint): TensorSource {
  const find = (name: string): StoredTensor | undefined =>
    model.get(name) ?? model.get(aliases.get(name) ?? '');
  return {
    place: directory,
    names: model.names,
    isVerifiedByReading: true,
    get(name) {
      const stored = find(name);
      if (stored === undefined) return undefined;
      return { name: stored.name, dtype: stored.dtype, shape: shapeOf(stored) };
    },
    whyNot(name, part) {
      const stored = find(name);
      if (stored === undefined || placesToLoad(stored, part) !== undefined) return undefined;
      return describeVarying(stored);
    },
    open() {
      const files = model.open();
      return {
        async fill(name, chunk, target, part) {
          const stored = find(name);
          if (stored === undefined) throw new RangeError(`no tensor ${name}`);
          const [first, ...others] = chunksAt(stored, chunk, part);
          if (first !== undefined) await files.fill(stored, first, target);
          if (others.length === 0) return;
          const values = new Float32Array(target.buffer, target.byteOffset, target.byteLength / 4);
          const sums = Float64Array.from(values);
          for (const other of others) {
            await files.fill(stored, other, target);
            values.forEach((value, index) => {
              sums[index] = (sums[index] ?? 0) + value;
            });
          }
          values.set(sums.map((sum) => sum / (others.length + 1)));
        },
        [Symbol.asyncDispose]: () => files[Symbol.asyncDispose](),
      };
    },
  };
}

/** The chunk at each of the places whose mean is loaded, which is a single place unless the tensor varies. */
function chunksAt(stored: StoredTensor, chunk: Chunk, part: SourcePart): readonly Chunk[] {
  const places = placesToLoad(stored, part) ?? [];
  return places.map((place) => ({ ...chunk, box: [...place, ...chunk.box] }));
}
