import { CheckpointError, type DType } from '@shardwise/core/extend';

/** How numbers are stored: a block of `elements` numbers takes `bytes` bytes. */
export interface BlockType {
  readonly name: string;
  readonly elements: number;
  readonly bytes: number;
  /** The dtype that tensors have when they are loaded. */
  readonly dtype: DType;
  /**
   * Decodes whole blocks to f32. Null for numbers that are stored one by one, as they are.
   * Shape: bytes [n · bytes] -> values [n · elements].
   */
  readonly decode: ((bytes: Uint8Array<ArrayBuffer>, values: Float32Array) => void) | null;
}

/** The number of elements of a quantised block. */
const QK = 32;

function plain(name: string, dtype: DType, bytes: number): BlockType {
  return { name, elements: 1, bytes, dtype, decode: null };
}

function quantised(name: string, bytes: number, decode: BlockType['decode']): BlockType {
  return { name, elements: QK, bytes, dtype: 'f32', decode };
}

/** The types by their numbers in files (ggml.h). */
const types: ReadonlyMap<number, BlockType> = new Map([
  [0, plain('F32', 'f32', 4)],
  [1, plain('F16', 'f16', 2)],
  [2, quantised('Q4_0', 18, decodeQ40)],
  [3, quantised('Q4_1', 20, decodeQ41)],
  [8, quantised('Q8_0', 34, decodeQ80)],
  [30, plain('BF16', 'bf16', 2)],
]);

/** The names of other types, for errors. */
const otherNames: ReadonlyMap<number, string> = new Map(
  Object.entries({
    Q5_0: 6,
    Q5_1: 7,
    Q8_1: 9,
    Q2_K: 10,
    Q3_K: 11,
    Q4_K: 12,
    Q5_K: 13,
    Q6_K: 14,
    Q8_K: 15,
    IQ2_XXS: 16,
    IQ2_XS: 17,
    IQ3_XXS: 18,
    IQ1_S: 19,
    IQ4_NL: 20,
    IQ3_S: 21,
    IQ2_S: 22,
    IQ4_XS: 23,
    I8: 24,
    I16: 25,
    I32: 26,
    I64: 27,
    F64: 28,
    IQ1_M: 29,
    TQ1_0: 34,
    TQ2_0: 35,
    MXFP4: 39,
  }).map(([name, number]) => [number, name]),
);

/** Returns a type by its number. Throws a CheckpointError that names a type that this library does not have. */
export function blockTypeOf(number: number, tensor: string, path: string): BlockType {
  const type = types.get(number);
  if (type !== undefined) return type;
  const name = otherNames.get(number) ?? `number ${number}`;
  throw new CheckpointError(
    {
      asked: `Reading ${path}`,
      found: `tensor "${tensor}" of the type ${name}`,
      todo: `Use a file with ${[...types.values()].map((each) => each.name).join(', ')} alone, such as one of Q8_0`,
    },
    { path, tensor, type: name },
  );
}

/** d (f16), and 32 signed bytes q: values d q. */
function decodeQ80(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  const view = viewOf(bytes);
  for (let block = 0; block * 34 < bytes.byteLength; block++) {
    const scale = view.getFloat16(block * 34, true);
    for (let index = 0; index < QK; index++) {
      values[block * QK + index] = scale * view.getInt8(block * 34 + 2 + index);
    }
  }
}

/** d (f16), and 16 bytes, each with the numbers q of elements i and i + 16 in its halves: values d (q - 8). */
function decodeQ40(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  const view = viewOf(bytes);
  for (let block = 0; block * 18 < bytes.byteLength; block++) {
    const scale = view.getFloat16(block * 18, true);
    for (let index = 0; index < QK / 2; index++) {
      const both = bytes[block * 18 + 2 + index] ?? 0;
      values[block * QK + index] = scale * ((both & 15) - 8);
      values[block * QK + QK / 2 + index] = scale * ((both >> 4) - 8);
    }
  }
}

/** d and m (f16), and 16 bytes as in Q4_0: values d q + m. */
function decodeQ41(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  const view = viewOf(bytes);
  for (let block = 0; block * 20 < bytes.byteLength; block++) {
    const scale = view.getFloat16(block * 20, true);
    const least = view.getFloat16(block * 20 + 2, true);
    for (let index = 0; index < QK / 2; index++) {
      const both = bytes[block * 20 + 4 + index] ?? 0;
      values[block * QK + index] = scale * (both & 15) + least;
      values[block * QK + QK / 2 + index] = scale * (both >> 4) + least;
    }
  }
}

function viewOf(bytes: Uint8Array<ArrayBuffer>): DataView<ArrayBuffer> {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
