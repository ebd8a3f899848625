import { currentSession, ownPlace } from '../../rank.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { elementCount } from '../../base/shape.ts';
import { inputNode, noGrad } from '../../graph/create-node.ts';
import { replaceUnused } from '../../graph/ownership.ts';
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
  const contents = new LoadedContents(source.isVerifiedByReading ? Infinity : BATCH_BYTES);
  try {
    for (const match of matches) {
      if (!isHeldAt(match.tensor.part.layout, ownPlace)) continue;
      const bytes = await readMatch(source, reader, match, convert);
      await contents.add(match.tensor.part, bytes);
    }
  } catch (cause) {
    contents.drop();
    if (contents.changed === 0) throw cause;
    throw inPart(source, model, contents.changed, cause);
  }
  await contents.flush();
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

/** Reads this rank's part of a tensor in the dtype of the model. Padding is zero. */
async function readMatch(
  source: TensorSource,
  reader: TensorReader,
  { name, tensor, stored, copies }: Match,
  convert: Convert,
): Promise<Uint8Array<ArrayBuffer>> {
  const { part } = tensor;
  const read = async (from: string): Promise<Uint8Array<ArrayBuffer>> => {
    const target = new Uint8Array(elementCount(part.shape) * dtypes[part.dtype].bytes);
    let offset = 0;
    for (const chunk of chunksOf(part.wholeShape, part.layout, ownPlace)) {
      const byteLength = (chunk.stop - chunk.start) * dtypes[part.dtype].bytes;
      await fillFrom(
        source,
        reader,
        from,
        part,
        chunk,
        target.subarray(offset, offset + byteLength),
        convert,
      );
      offset += byteLength;
    }
    return target;
  };
  const bytes = await read(stored);
  for (const copy of copies) {
    const other = await read(copy);
    if (bytes.every((byte, index) => byte === other[index])) continue;
    throw new CheckpointError(
      {
        asked: `to load '${stored}' and '${copy}' of ${source.place} into one tensor, '${name}', which the model shares`,
        found: 'other values in the one than in the other',
        todo: 'Load them into a model that does not share them, or drop one by rename',
      },
      { name, stored, copy },
    );
  }
  return bytes;
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
          todo: 'Load another file, or an earlier checkpoint',
        },
        { name, dtype },
      );
    }
    target.set(converted.bytes, (start - chunk.start) * dtypes[part.dtype].bytes);
  }
}

/** Contents that were read and wait to be given to their tensors. */
class LoadedContents {
  readonly #batchBytes: number;
  #waiting: { readonly part: Tensor; readonly bytes: Uint8Array<ArrayBuffer> }[] = [];
  #waitingBytes = 0;
  /** The number of tensors that have their new contents. */
  changed = 0;

  /** Contents are given to their tensors whenever more than `batchBytes` wait. */
  constructor(batchBytes: number) {
    this.#batchBytes = batchBytes;
  }

  async add(part: Tensor, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#waiting.push({ part, bytes });
    this.#waitingBytes += bytes.byteLength;
    if (this.#waitingBytes > this.#batchBytes) await this.flush();
  }

  async flush(): Promise<void> {
    let assignedBytes = 0;
    for (const { part, bytes } of this.#waiting) {
      this.changed++;
      if (part.updater === null && replaceUnused(part.contents, bytes)) continue;
      const value = new Tensor(inputNode(part.shape, part.dtype, { kind: 'host', bytes }));
      noGrad(() => part.assign(value));
      assignedBytes += bytes.byteLength;
      if (assignedBytes < BATCH_BYTES) continue;
      await currentSession().realize([]);
      assignedBytes = 0;
    }
    this.drop();
    if (assignedBytes > 0) await currentSession().realize([]);
  }

  drop(): void {
    this.#waiting = [];
    this.#waitingBytes = 0;
  }
}

function inPart(
  source: TensorSource,
  model: Module,
  count: number,
  cause: unknown,
): CheckpointError {
  return new CheckpointError(
    {
      asked: `to load ${source.place} into ${model.constructor.name}`,
      found: `${cause instanceof Error ? cause.message : String(cause)}; ${count} tensors had been loaded before`,
      todo: 'Build the model again before you load it, because it has tensors of both',
    },
    { loaded: count },
    { cause },
  );
}
