import { currentSession, ownPlace } from '../../rank.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { elementCount } from '../../base/shape.ts';
import { inputNode, noGrad } from '../../graph/create-node.ts';
import { unusedBytes } from '../../graph/ownership.ts';
import { type Chunk, chunksOf, isHeldAt } from '../../layout/chunks.ts';
import { requireFit } from '../../serialization/state-mismatch.ts';
import type { TensorReader, TensorSource } from '../../serialization/tensor-source.ts';
import { dtypes, type DType } from '../../spec/dtype.ts';
import { CheckpointError } from '../../spec/errors.ts';
import { Tensor } from '../../tensor/tensor.ts';
import type { Module } from '../module/module.ts';
import { requireModule } from '../module/require-module.ts';
import { convertArray } from '../state/convert-array.ts';
import { type Match, type Matches, matchTensors } from './match-tensors.ts';
import { roundArray } from './round-array.ts';
import { loadRules, type LoadOptions, type LoadReport } from '../state/state-dict.ts';

/** The number of bytes of a tensor that are in memory in the dtype of the source at a time. */
const BLOCK_BYTES = 16 * 1024 * 1024;
/** The number of bytes that are copied to the device at a time. */
const BATCH_BYTES = 64 * 1024 * 1024;

/** Names of tensors, or patterns of them. */
export type TensorNames = readonly (string | RegExp)[];

/** Options of `loadTensors`. */
export interface LoadTensorsOptions extends LoadOptions {
  /** Tensors of the model that the source may lack. They keep their values. Default: none. */
  readonly allowMissing?: TensorNames;
  /** Tensors of the source that the model may lack, by their names after `rename`. Default: none. */
  readonly allowUnexpected?: TensorNames;
  /**
   * Tensors of the model that may have another shape in the source, such as those of a classifier for other labels. They
   * keep their values. Default: none.
   */
  readonly allowMismatched?: TensorNames;
  /**
   * Returns the name that a tensor of the source has in the model. Null drops the tensor. Default: the names are the
   * same.
   */
  readonly rename?: (name: string) => string | null;
  /**
   * Whether floats may be rounded to a dtype with fewer bits. Default: false. Conversions that keep every value, and
   * f64 to f32, are always made.
   */
  readonly rounds?: boolean;
}

const namesRule: option.OptionRule<TensorNames> = {
  fits: (value): value is TensorNames =>
    Array.isArray(value) &&
    value.every((each) => typeof each === 'string' || each instanceof RegExp),
  expected: 'a list of names and regular expressions',
};

/** The rules of the options of loadTensors. */
export const loadTensorsRules: OptionRules<LoadTensorsOptions> = {
  ...loadRules,
  allowMissing: namesRule,
  allowUnexpected: namesRule,
  allowMismatched: namesRule,
  rename: option.callback(),
  rounds: option.flag,
};

/**
 * Overwrites a model's parameters and buffers in place with the tensors of a source, whatever strategy is applied to
 * the model. Each rank reads only the parts that it keeps. It is a collective for models whose states are sharded.
 * Before anything changes, it throws a CheckpointError that lists all names that are missing, unexpected or different,
 * except for those that the options allow. Throws CheckpointError for a damaged file, too.
 */
export async function loadTensors(
  source: TensorSource,
  model: Module,
  options: LoadTensorsOptions = {},
): Promise<LoadReport> {
  requireModule('loadTensors', model);
  checkOptions('loadTensors', options, loadTensorsRules);
  const convert = options.rounds === true ? roundArray : convertArray;
  const { matches, missing, unexpected, different } = matchesOf(source, model, options);
  const { rename, strict = true } = options;
  const inModel = (name: string): string => rename?.(name) ?? name;
  requireFit(
    `to load ${source.place} into ${model.constructor.name}`,
    {
      missing: missing.filter((name) => !allows(options.allowMissing, name)),
      unexpected: unexpected.filter((name) => !allows(options.allowUnexpected, inModel(name))),
      different: different
        .filter(({ name }) => !allows(options.allowMismatched, name))
        .map(({ name, difference }) => `${name} (${difference})`),
    },
    { strict, fitting: matches.length },
  );
  // Runs that are under way still read the contents that are replaced.
  await currentSession().realize([]);
  await using reader = source.open();
  const updates = new Updates(source.isVerifiedByReading ? Infinity : BATCH_BYTES);
  const held = matches.filter(({ tensor }) => isHeldAt(tensor.part.layout, ownPlace));
  for (const match of held) await checkCopies(source, reader, match, convert);
  let changed = 0;
  try {
    for (const { stored, tensor } of held) {
      const { part } = tensor;
      const read = (target: Uint8Array<ArrayBuffer>): Promise<void> =>
        readPart(source, reader, stored, part, convert, target);
      // What no run has used is overwritten where it is, which takes no memory.
      const isNew = part.updater === null && !source.isVerifiedByReading;
      const own = isNew ? unusedBytes(part.contents) : null;
      if (own === null) {
        const bytes = new Uint8Array(elementCount(part.shape) * dtypes[part.dtype].bytes);
        await read(bytes);
        changed += await updates.add(part, bytes);
      } else {
        changed++;
        await read(own);
      }
    }
  } catch (cause) {
    if (changed === 0) throw cause;
    throw inPart(source, model, cause);
  }
  await updates.flush();
  return { missing: [...missing, ...different.map(({ name }) => name)], unexpected };
}

/**
 * Returns the names of the tensors of a model that would keep their values: loadTensors does not find them, or they have
 * another shape.
 */
export function tensorsToKeep(
  source: TensorSource,
  model: Module,
  options: LoadTensorsOptions = {},
): readonly string[] {
  const { missing, different } = matchesOf(source, model, options);
  return [...missing, ...different.map(({ name }) => name)];
}

function matchesOf(
  source: TensorSource,
  model: Module,
  { rename, rounds = false }: LoadTensorsOptions,
): Matches {
  const convert = rounds ? roundArray : convertArray;
  const converts = (from: DType, to: DType): boolean =>
    convert({ dtype: from, shape: [0], bytes: new Uint8Array() }, to) !== undefined;
  return matchTensors(source, model, rename === undefined ? { converts } : { converts, rename });
}

function allows(allowed: TensorNames = [], name: string): boolean {
  return allowed.some((each) => (typeof each === 'string' ? each === name : each.test(name)));
}

type Convert = typeof convertArray;

/** Fills `target` with this rank's part of a tensor, in the dtype of the model. Padding at its end is left as it is. */
async function readPart(
  source: TensorSource,
  reader: TensorReader,
  stored: string,
  part: Tensor,
  convert: Convert,
  target: Uint8Array<ArrayBuffer>,
): Promise<void> {
  let offset = 0;
  for (const chunk of chunksOf(part.wholeShape, part.layout, ownPlace)) {
    const end = offset + (chunk.stop - chunk.start) * dtypes[part.dtype].bytes;
    await fillFrom(source, reader, stored, part, chunk, target.subarray(offset, end), convert);
    offset = end;
  }
}

/** Throws CheckpointError if tensors that belong into one tensor of the model have different values. */
async function checkCopies(
  source: TensorSource,
  reader: TensorReader,
  { name, tensor, stored, copies }: Match,
  convert: Convert,
): Promise<void> {
  if (copies.length === 0) return;
  const { part } = tensor;
  const read = async (from: string): Promise<Uint8Array> => {
    const bytes = new Uint8Array(elementCount(part.shape) * dtypes[part.dtype].bytes);
    await readPart(source, reader, from, part, convert, bytes);
    return bytes;
  };
  const first = await read(stored);
  for (const copy of copies) {
    const other = await read(copy);
    if (first.every((byte, index) => byte === other[index])) continue;
    throw new CheckpointError(
      {
        asked: `to load '${stored}' and '${copy}' of ${source.place} into one tensor, '${name}', which the model shares`,
        found: 'other values in the one than in the other',
        todo: 'Load them into a model that does not share them, or drop one by rename',
      },
      { name, stored, copy },
    );
  }
}

/** Fills `target` with a chunk, in the dtype of the part. */
async function fillFrom(
  source: TensorSource,
  reader: TensorReader,
  name: string,
  part: Tensor,
  chunk: Chunk,
  target: Uint8Array<ArrayBuffer>,
  convert: Convert,
): Promise<void> {
  const dtype = source.get(name)?.dtype ?? part.dtype;
  if (dtype === part.dtype) return reader.fill(name, chunk, target, part);
  const step = BLOCK_BYTES / dtypes[dtype].bytes;
  for (let { start } = chunk; start < chunk.stop; start += step) {
    const stop = Math.min(chunk.stop, start + step);
    const raw = new Uint8Array((stop - start) * dtypes[dtype].bytes);
    await reader.fill(name, { box: chunk.box, start, stop }, raw, part);
    const converted = convert({ dtype, shape: [stop - start], bytes: raw }, part.dtype);
    if (converted === undefined) {
      throw new CheckpointError(
        {
          asked: `to load '${name}' of ${source.place} as ${part.dtype}`,
          found: `numbers in ${dtype} that ${part.dtype} has not`,
          todo: 'Load it in a dtype with larger numbers, or load another file',
        },
        { name, dtype },
      );
    }
    target.set(converted.bytes, (start - chunk.start) * dtypes[part.dtype].bytes);
  }
}

/** Contents that were read and wait to be given to tensors that runs have used. */
class Updates {
  readonly #batchBytes: number;
  #waiting: { readonly part: Tensor; readonly bytes: Uint8Array<ArrayBuffer> }[] = [];
  #waitingBytes = 0;

  /** Tensors get their contents whenever more than `batchBytes` wait. */
  constructor(batchBytes: number) {
    this.#batchBytes = batchBytes;
  }

  /** Returns the number of tensors that have got their contents. */
  async add(part: Tensor, bytes: Uint8Array<ArrayBuffer>): Promise<number> {
    this.#waiting.push({ part, bytes });
    this.#waitingBytes += bytes.byteLength;
    return this.#waitingBytes > this.#batchBytes ? this.flush() : 0;
  }

  /** Returns the number of tensors that have got their contents. */
  async flush(): Promise<number> {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    let assignedBytes = 0;
    for (const { part, bytes } of waiting) {
      const value = new Tensor(inputNode(part.shape, part.dtype, { kind: 'host', bytes }));
      noGrad(() => part.assign(value));
      assignedBytes += bytes.byteLength;
      if (assignedBytes < BATCH_BYTES) continue;
      await currentSession().realize([]);
      assignedBytes = 0;
    }
    if (assignedBytes > 0) await currentSession().realize([]);
    return waiting.length;
  }
}

function inPart(source: TensorSource, model: Module, cause: unknown): CheckpointError {
  return new CheckpointError(
    {
      asked: `to load ${source.place} into ${model.constructor.name}`,
      found: `${cause instanceof Error ? cause.message : String(cause)}; a part of the tensors had been loaded before`,
      todo: 'Build the model again before you load it, because it has tensors of both',
    },
    {},
    { cause },
  );
}
