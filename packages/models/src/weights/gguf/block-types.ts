import {
  CheckpointError,
  type DType,
  type GgufBlockFormat,
  ggufBlockFormats,
  type GgufBlockName,
} from '@shardwise/core/extend';
import {
  type BlockDecoder,
  decodeQ40,
  decodeQ41,
  decodeQ4K,
  decodeQ50,
  decodeQ51,
  decodeQ5K,
  decodeQ6K,
  decodeQ80,
} from './decode-blocks.ts';

/** Numbers that are stored one by one, as they are. */
export interface PlainType {
  readonly name: string;
  readonly elements: 1;
  readonly bytes: number;
  /** The dtype that tensors have when they are loaded. */
  readonly dtype: DType;
  readonly decode: null;
}

/** Numbers that are stored in blocks: `elements` numbers take `bytes` bytes. */
export interface QuantisedType extends GgufBlockFormat {
  readonly dtype: 'f32';
  readonly decode: BlockDecoder;
}

/** How numbers are stored. */
export type BlockType = PlainType | QuantisedType;

function plain(name: string, dtype: DType, bytes: number): PlainType {
  return { name, elements: 1, bytes, dtype, decode: null };
}

function quantised(name: GgufBlockName, decode: BlockDecoder): QuantisedType {
  return { ...ggufBlockFormats[name], dtype: 'f32', decode };
}

/** The bytes of a tensor of blocks, as numbers of u8. */
export const bytesOfBlocks: PlainType = plain('bytes', 'u8', 1);

/** The types by their numbers in files (ggml.h). */
const types: ReadonlyMap<number, BlockType> = new Map<number, BlockType>([
  [0, plain('F32', 'f32', 4)],
  [1, plain('F16', 'f16', 2)],
  [2, quantised('Q4_0', decodeQ40)],
  [3, quantised('Q4_1', decodeQ41)],
  [6, quantised('Q5_0', decodeQ50)],
  [7, quantised('Q5_1', decodeQ51)],
  [8, quantised('Q8_0', decodeQ80)],
  [12, quantised('Q4_K', decodeQ4K)],
  [13, quantised('Q5_K', decodeQ5K)],
  [14, quantised('Q6_K', decodeQ6K)],
  [30, plain('BF16', 'bf16', 2)],
]);

/** The names of other types, for errors. */
const otherNames: ReadonlyMap<number, string> = new Map(
  Object.entries({
    Q8_1: 9,
    Q2_K: 10,
    Q3_K: 11,
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
