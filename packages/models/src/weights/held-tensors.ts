import {
  chunksOf,
  ConfigError,
  type DType,
  dtypes,
  type HeldChunk,
  type Module,
  modelTensors,
  ownPlace,
  Parameter,
  roundArray,
  type Tensor,
} from '@shardwise/core/extend';
import type { WrittenTensor } from './shards.ts';

/** The tensors of a model as they are written, and what this rank holds of them. */
export interface HeldTensors {
  readonly tensors: readonly WrittenTensor[];
  readonly chunks: readonly HeldChunk[];
}

/**
 * Returns the tensors of a model, each under its first name, and the chunks that this rank has. Floats become `dtype`,
 * unless it is undefined. Of buffers that each rank has whole, only those of the first rank are written. Tensors of
 * `leftOut` are not. Throws ConfigError for tensors of which each rank has its own values.
 */
export function heldTensors(
  model: Module,
  dtype: DType | undefined,
  isFirstRank: boolean,
  leftOut: ReadonlySet<Tensor>,
): HeldTensors {
  const tensors: WrittenTensor[] = [];
  const chunks: HeldChunk[] = [];
  const lastRead = new LastRead();
  for (const { names, tensor } of modelTensors(model)) {
    if (leftOut.has(tensor)) continue;
    const [name] = names;
    const { part } = tensor;
    const { varyingOver, wholeShape: shape } = part;
    if (varyingOver.length > 0) throw varies(name, varyingOver);
    const written = dtypes[part.dtype].kind === 'float' ? (dtype ?? part.dtype) : part.dtype;
    tensors.push({ name, dtype: written, shape });
    if (!isFirstRank && !(tensor instanceof Parameter)) continue;
    chunks.push(...chunksOfPart(name, part, written, lastRead));
  }
  return { tensors, chunks };
}

/** The bytes of the tensor that was read last, because several chunks of it may be read one after the other. */
class LastRead {
  #name: string | null = null;
  #bytes: Promise<Uint8Array> = Promise.resolve(new Uint8Array());

  of(name: string, part: Tensor, dtype: DType): Promise<Uint8Array> {
    if (this.#name !== name) this.#bytes = bytesOf(name, part, dtype);
    this.#name = name;
    return this.#bytes;
  }
}

/** The chunks of one tensor that this rank holds. */
function chunksOfPart(
  name: string,
  part: Tensor,
  dtype: DType,
  lastRead: LastRead,
): readonly HeldChunk[] {
  const elementBytes = dtypes[dtype].bytes;
  let offset = 0;
  return chunksOf(part.wholeShape, part.layout, ownPlace).map((chunk) => {
    const first = offset;
    const byteLength = (chunk.stop - chunk.start) * elementBytes;
    offset += byteLength;
    const read = async (): Promise<Uint8Array> =>
      (await lastRead.of(name, part, dtype)).subarray(first, first + byteLength);
    return { ...chunk, name, dtype, shape: part.wholeShape, read };
  });
}

/**
 * Reads what this rank has of a tensor from the device, and converts it. Throws ConfigError for a number that the dtype
 * is too small for.
 */
async function bytesOf(name: string, part: Tensor, dtype: DType): Promise<Uint8Array> {
  const { buffer, byteOffset, byteLength } = await part.data();
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  const array = roundArray({ dtype: part.dtype, shape: part.shape, bytes }, dtype);
  if (array !== undefined) return array.bytes;
  throw new ConfigError(
    {
      asked: `to save '${name}' as ${dtype}`,
      found: `numbers in ${part.dtype} that would be infinite in ${dtype}`,
      todo: 'Save the model without a dtype, or as f32',
    },
    { name, dtype },
  );
}

function varies(name: string, axes: readonly string[]): ConfigError {
  return new ConfigError(
    {
      asked: `to save '${name}' for one model`,
      found: `each rank of '${axes.join("' × '")}' has its own values`,
      todo: 'Average the parameters over the ranks, and save the mean',
    },
    { name, axes },
  );
}
