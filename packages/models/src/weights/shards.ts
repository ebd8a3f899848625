import {
  type DType,
  dtypes,
  elementCount,
  encodeSafetensorsHeader,
  type Shape,
} from '@shardwise/core/extend';

/** A tensor to be written. */
export interface WrittenTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
}

/** A safetensors file to be written. */
export interface Shard {
  readonly fileName: string;
  readonly header: Uint8Array<ArrayBuffer>;
  readonly byteLength: number;
  /** Where the bytes of each tensor begin in the file. */
  readonly byteOffsets: ReadonlyMap<string, number>;
}

/** The files of a model and their index, which is null if there is one file. */
export interface Shards {
  readonly shards: readonly Shard[];
  readonly index: string | null;
}

/**
 * Spreads tensors over files of at most `maxBytes`, in their order. A tensor that is larger has a file of its own. The
 * names are those of Hugging Face. If there are several files, a version that is not empty is in their names.
 */
export function shardsOf(
  tensors: readonly WrittenTensor[],
  maxBytes: number,
  version = '',
): Shards {
  const groups: WrittenTensor[][] = [[]];
  let groupBytes = 0;
  for (const tensor of tensors) {
    const byteLength = bytesOf(tensor);
    if (groupBytes > 0 && groupBytes + byteLength > maxBytes) {
      groups.push([]);
      groupBytes = 0;
    }
    groups.at(-1)?.push(tensor);
    groupBytes += byteLength;
  }
  const shards = groups.map((group, index) =>
    shardOf(group, nameOf(index, groups.length, version)),
  );
  if (shards.length === 1) return { shards, index: null };
  const totalBytes = tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
  const files = shards.flatMap(({ fileName, byteOffsets }) =>
    [...byteOffsets.keys()].map((name) => [name, fileName] as const),
  );
  const index = {
    metadata: { total_size: totalBytes },
    weight_map: Object.fromEntries(files.toSorted(([a], [b]) => (a < b ? -1 : 1))),
  };
  return { shards, index: `${JSON.stringify(index, null, 2)}\n` };
}

function shardOf(tensors: readonly WrittenTensor[], fileName: string): Shard {
  const types = Object.fromEntries(
    tensors.map(({ name, dtype, shape }) => [name, { dtype, shape }]),
  );
  const { header, places } = encodeSafetensorsHeader(types, { format: 'pt' });
  const last = places.at(-1);
  return {
    fileName,
    header,
    byteLength: last === undefined ? header.byteLength : last.byteOffset + last.byteLength,
    byteOffsets: new Map(places.map(({ name, byteOffset }) => [name, byteOffset])),
  };
}

function nameOf(index: number, count: number, version: string): string {
  if (count === 1) return 'model.safetensors';
  const five = (value: number): string => String(value).padStart(5, '0');
  const name = version === '' ? 'model' : `model-${version}`;
  return `${name}-${five(index + 1)}-of-${five(count)}.safetensors`;
}

function bytesOf({ dtype, shape }: WrittenTensor): number {
  return elementCount(shape) * dtypes[dtype].bytes;
}
