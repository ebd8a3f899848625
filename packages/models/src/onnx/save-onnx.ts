import { open, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { modelParts, type OnnxInitializer } from '@shardwise/backend-cpu/onnx';
import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { fileAt, isAddress, writableFolderAt } from '@shardwise/core/node';
import {
  MAX_BYTES,
  onnxModel,
  onnxRules,
  type OnnxOptions,
  type OnnxWeight,
  readWeights,
} from './export-onnx.ts';
import type { ExportableModule } from './traces.ts';

/** Options of `saveOnnx`. */
export interface SaveOnnxOptions extends OnnxOptions {
  /**
   * Whether the weights are in a file beside the model, whose name ends in `.data`. Default: only if they are so large
   * that one file cannot have them.
   */
  readonly externalData?: boolean;
}

const saveRules: OptionRules<SaveOnnxOptions> = { ...onnxRules, externalData: option.flag };

/** Weights in a file of their own begin at multiples of this, so that a runtime can map them. */
const PAGE_BYTES = 4096;

/**
 * Writes what `exportOnnx` returns to a file: that of a path, or of an address such as `s3://bucket/models/small.onnx`.
 * Weights of 2 GiB or more are written to a file beside it, one tensor at a time. The files replace older ones when they
 * are complete. Throws the errors of `exportOnnx`, and ConfigError for an address to which nothing can be written.
 */
export async function saveOnnx<Inputs extends readonly unknown[]>(
  path: string,
  model: ExportableModule<Inputs>,
  sample: Inputs,
  options: SaveOnnxOptions = {},
): Promise<void> {
  checkOptions('saveOnnx', options, saveRules);
  const { externalData } = options;
  const write = writerAt(path);
  const { graph, weights, byteLength } = await onnxModel(model, sample, options);
  const isApart = externalData ?? byteLength > MAX_BYTES;
  const written = isApart ? placesOf(`${basename(path)}.data`, weights) : readWeights(weights);
  const initializers = [...graph.initializers, ...(await written)];
  const parts = modelParts({ ...graph, initializers });
  if (isApart) await write('.data', contentsOf(weights));
  await write('', parts);
}

/** The number of bytes after a weight up to the next page. */
function paddingOf({ byteLength }: OnnxWeight): number {
  return -byteLength & (PAGE_BYTES - 1);
}

/** Where weights are in a file beside the model. */
function placesOf(location: string, weights: readonly OnnxWeight[]): readonly OnnxInitializer[] {
  let next = 0;
  return weights.map((weight) => {
    const { name, type, shape, byteLength } = weight;
    const offset = next;
    next += byteLength + paddingOf(weight);
    return { name, type, shape, external: { location, offset, length: byteLength } };
  });
}

async function* contentsOf(weights: readonly OnnxWeight[]): AsyncGenerator<Uint8Array> {
  for (const weight of weights) {
    yield await weight.read();
    yield new Uint8Array(paddingOf(weight));
  }
}

type Chunks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** Returns what writes the files whose names begin with that of a path or of an address. */
function writerAt(path: string): (ending: string, chunks: Chunks) => Promise<void> {
  if (!isAddress(path)) return (ending, chunks) => writeWhole(`${path}${ending}`, chunks);
  const { folder, name } = fileAt(path);
  const writable = writableFolderAt('to save a model of ONNX', folder);
  return (ending, chunks) => writable.write(`${name}${ending}`, chunks);
}

/** Writes a file under another name first. If that fails, an older file stays. */
async function writeWhole(path: string, chunks: Chunks): Promise<void> {
  const partial = `${path}.partial`;
  const file = await open(partial, 'w');
  try {
    for await (const bytes of chunks) {
      for (let done = 0; done < bytes.byteLength;) {
        done += (await file.write(bytes, done)).bytesWritten;
      }
    }
    await file.sync();
    await file.close();
    await rename(partial, path);
  } catch (error) {
    await file.close();
    await rm(partial, { force: true });
    throw error;
  }
}
