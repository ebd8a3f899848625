import {
  boxOf,
  CheckpointError,
  type Chunk,
  covers,
  type DimRange,
  type DType,
  dtypes,
  sameBox,
  type Shape,
  type TensorChunk,
  type VaryingAxis,
} from '@shardwise/core/extend';
import { z } from 'zod';

/** A value that JSON can contain. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | JsonValue[]
  | { [key: string]: JsonValue };

/** Elements of a tensor, and where they lie in a file. */
export interface StoredChunk extends Chunk {
  /** The rank that wrote the file. */
  readonly file: number;
  /** The offset from the start of the file. */
  readonly byteOffset: number;
  /** The CRC-32 (of zlib) of every CHECKSUM_BYTES of the chunk. The last one may cover fewer bytes. */
  readonly checksums: readonly number[];
}

/** A tensor of a checkpoint, as the table of contents of the file describes it. */
export interface StoredTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  /** The first dims number the ranks of these axes. Absent if all ranks had the same values. */
  readonly varying?: readonly VaryingAxis[];
  /** The chunks of the tensor. Each element is in one of them. */
  readonly chunks: readonly StoredChunk[];
}

/** The tensors of one section, and the files of all ranks in which they lie. */
export interface StoredSection {
  /** The length of each rank's file in bytes. It is 0 if the rank wrote none. */
  readonly fileBytes: readonly number[];
  readonly tensors: readonly StoredTensor[];
}

/** A parameter group: settings, and the names of its parameters. */
export interface StoredGroup {
  readonly params: readonly string[];
  readonly settings: Readonly<Record<string, JsonValue>>;
}

/** The place of something in a state: names of fields, and numbers of items. */
export type StatePath = readonly (string | number)[];

/** A state that was saved under a name: plain data, and which tensors belong at the places that contain null. */
export interface StoredState {
  readonly value: JsonValue;
  readonly tensors: readonly { readonly path: StatePath; readonly name: string }[];
}

/** The contents of state.json, which describes a checkpoint. */
export interface CheckpointState {
  readonly step: number;
  readonly worldSize: number;
  readonly savedAt: string;
  readonly model: StoredSection & {
    /** Other names of shared parameters, and the names under which these are stored. */
    readonly aliases: readonly (readonly [alias: string, name: string])[];
  };
  readonly optimizer: StoredSection & { readonly groups: readonly StoredGroup[] };
  /** The tensors of `rankStates`. */
  readonly states: StoredSection;
  readonly extra: JsonValue;
  /** The `rankExtra` of each rank. */
  readonly rankExtras: readonly JsonValue[];
  /** The states of each rank, by name. */
  readonly rankStates: readonly Readonly<Record<string, StoredState>>[];
}

export type SectionName = 'model' | 'optimizer' | 'states';
export const sectionNames: readonly SectionName[] = ['model', 'optimizer', 'states'];

/**
 * The number of bytes that one checksum covers. The reader of a part reads at most two such blocks that it needs only
 * in part.
 */
export const CHECKSUM_BYTES = 1_048_576;

const FORMAT = 'shardwise-checkpoint';
const VERSION = 5;

const count = z.int().nonnegative();
const dtypeNames = z.custom<DType>(
  (value) => typeof value === 'string' && Object.hasOwn(dtypes, value),
  'not a dtype',
);

const shapeSchema = z.array(count).max(64);
const boxSchema: z.ZodType<readonly DimRange[]> = z
  .array(z.object({ start: count, stop: count }))
  .max(64);
const chunk = { box: boxSchema, start: count, stop: count };
const varyingSchema = z
  .array(z.object({ axis: z.string(), size: z.int().positive() }))
  .max(64)
  .exactOptional();
const place = { file: count, byteOffset: count, checksums: z.array(count) };

export const chunkSchema: z.ZodType<TensorChunk> = z.object({
  name: z.string(),
  dtype: dtypeNames,
  shape: shapeSchema,
  varying: varyingSchema,
  ...chunk,
});

export const storedChunkSchema: z.ZodType<StoredChunk> = z.object({ ...place, ...chunk });

/** In the file, a chunk without a box consists of elements of the whole tensor. */
const tensorSchema = z
  .object({
    name: z.string(),
    dtype: dtypeNames,
    shape: shapeSchema,
    varying: varyingSchema,
    chunks: z.array(z.object({ ...place, ...chunk, box: boxSchema.optional() })),
  })
  .transform(({ chunks, ...tensor }): StoredTensor => {
    const whole = boxOf(tensor.shape);
    return { ...tensor, chunks: chunks.map(({ box = whole, ...rest }) => ({ ...rest, box })) };
  });

const sectionSchema = z.object({
  fileBytes: z.array(count),
  tensors: z.array(tensorSchema),
});

export const storedStateSchema: z.ZodType<StoredState> = z.object({
  value: z.json(),
  tensors: z.array(
    z.object({ path: z.array(z.union([z.string(), count])).max(64), name: z.string() }),
  ),
});

const stateSchema = z.object({
  format: z.literal(FORMAT),
  version: z.literal(VERSION),
  step: count,
  worldSize: z.int().positive(),
  savedAt: z.iso.datetime(),
  model: sectionSchema.extend({ aliases: z.array(z.tuple([z.string(), z.string()])) }),
  optimizer: sectionSchema.extend({
    groups: z.array(
      z.object({ params: z.array(z.string()), settings: z.record(z.string(), z.json()) }),
    ),
  }),
  states: sectionSchema,
  extra: z.json(),
  rankExtras: z.array(z.json()),
  rankStates: z.array(z.record(z.string(), storedStateSchema)),
});

/** The file that describes a checkpoint. A folder without it is no checkpoint. */
export const stateName = 'state.json';
/** The file in a folder of checkpoints that names the latest one. */
export const latestName = 'latest';

/** Returns a file's name, such as `model-00002-of-00004.safetensors` for rank 1 of 4. */
export function fileName(section: SectionName, rank: number, worldSize: number): string {
  const five = (value: number): string => String(value).padStart(5, '0');
  return `${section}-${five(rank + 1)}-of-${five(worldSize)}.safetensors`;
}

export function encodeState(state: CheckpointState): Uint8Array<ArrayBuffer> {
  const sections = sectionNames.map((name) => {
    return [name, { ...state[name], tensors: state[name].tensors.map(withoutWholeBoxes) }];
  });
  const file = { format: FORMAT, version: VERSION, ...state, ...Object.fromEntries(sections) };
  const text = JSON.stringify(file, null, 1);
  return new TextEncoder().encode(`${text}\n`);
}

function withoutWholeBoxes({ chunks, ...tensor }: StoredTensor): object {
  const whole = boxOf(tensor.shape);
  return {
    ...tensor,
    chunks: chunks.map(({ box, ...chunk }) => (sameBox(box, whole) ? chunk : { ...chunk, box })),
  };
}

/**
 * Decodes a state file. Throws a CheckpointError that names `path` for anything but a state that this version wrote.
 * `isPart`: whether it may be that of one rank of several, which has parts of the tensors. Then what it has not is read as
 * zeros.
 */
export function decodeState(text: string, path: string, isPart = false): CheckpointState {
  const refuse = (found: string, cause?: unknown): CheckpointError =>
    new CheckpointError(
      {
        asked: `Reading ${path}`,
        found,
        todo: 'Load another checkpoint, or one written by this version',
      },
      { path },
      cause === undefined ? {} : { cause },
    );
  let state: CheckpointState;
  try {
    state = stateSchema.parse(JSON.parse(text));
  } catch (cause) {
    const issue = cause instanceof z.ZodError ? cause.issues[0] : undefined;
    const found = issue
      ? `"${issue.path.join('.')}" is not what version ${VERSION} writes (${issue.message})`
      : 'it is no JSON';
    throw refuse(found, cause);
  }
  for (const { fileBytes, tensors } of sectionNames.map((name) => state[name])) {
    if (fileBytes.length !== state.worldSize) {
      throw refuse(`${fileBytes.length} files of ${state.worldSize} ranks`);
    }
    const broken = tensors.find(
      (tensor) => !areIn(tensor, fileBytes) || !(isPart || covers(tensor.shape, tensor.chunks)),
    );
    if (broken !== undefined) throw refuse(`the chunks of "${broken.name}" do not make it up`);
  }
  return state;
}

/** Whether the chunks lie within their files. */
function areIn(
  { dtype, shape, varying = [], chunks }: StoredTensor,
  fileBytes: readonly number[],
): boolean {
  if (!varying.every(({ size }, dim) => shape[dim] === size)) return false;
  return chunks.every(({ file, start, stop, byteOffset, checksums }) => {
    const byteLength = (stop - start) * dtypes[dtype].bytes;
    return (
      byteOffset + byteLength <= (fileBytes[file] ?? 0) &&
      checksums.length === Math.ceil(byteLength / CHECKSUM_BYTES)
    );
  });
}
