import { open, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { modelParts, type OnnxInitializer } from '@shardwise/backend-cpu/onnx';
import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
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
 * Writes what `exportOnnx` returns to a file. Weights of 2 GiB or more are written to a file beside it, one tensor at a
 * time. The files replace older ones when they are complete. Throws the errors of `exportOnnx`.
 */
export async function saveOnnx<Inputs extends readonly unknown[]>(
  path: string,
  model: ExportableModule<Inputs>,
  sample: Inputs,
  options: SaveOnnxOptions = {},
): Promise<void> {
  checkOptions('saveOnnx', options, saveRules);
  const { externalData } = options;
  const { graph, weights, byteLength } = await onnxModel(model, sample, options);
  const isApart = externalData ?? byteLength > MAX_BYTES;
  const written = isApart ? writeWeights(`${path}.data`, weights) : readWeights(weights);
  const initializers = [...graph.initializers, ...(await written)];
  const parts = modelParts({ ...graph, initializers });
  await writeWhole(path, async (append) => {
    for (const part of parts) await append(part);
  });
}

async function writeWeights(
  path: string,
  weights: readonly OnnxWeight[],
): Promise<readonly OnnxInitializer[]> {
  const placed: OnnxInitializer[] = [];
  await writeWhole(path, async (append) => {
    let offset = 0;
    for (const { name, type, shape, byteLength, read } of weights) {
      const external = { location: basename(path), offset, length: byteLength };
      placed.push({ name, type, shape, external });
      await append(await read());
      const padding = -byteLength & (PAGE_BYTES - 1);
      await append(new Uint8Array(padding));
      offset += byteLength + padding;
    }
  });
  return placed;
}

/** Writes a file under another name first. If that fails, an older file stays. */
async function writeWhole(
  path: string,
  write: (append: (bytes: Uint8Array) => Promise<void>) => Promise<void>,
): Promise<void> {
  const partial = `${path}.partial`;
  const file = await open(partial, 'w');
  try {
    await write(async (bytes) => {
      for (let done = 0; done < bytes.byteLength;) {
        done += (await file.write(bytes, done)).bytesWritten;
      }
    });
    await file.sync();
    await file.close();
    await rename(partial, path);
  } catch (error) {
    await file.close();
    await rm(partial, { force: true });
    throw error;
  }
}
