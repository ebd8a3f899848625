import {
  checkOptions,
  CheckpointError,
  ConfigError,
  type DType,
  dtypes,
  encodeSafetensorsHeader,
  option,
  type OptionRules,
  roundArray,
} from '@shardwise/core/extend';
import type { CheckpointPlace } from '../places/checkpoint-place.ts';
import { diskFiles } from '../places/disk-files.ts';
import { loadCheckpoint } from '../load/load-checkpoint.ts';
import type { Checkpoint } from '../load/open-checkpoint.ts';
import { replaceFile } from '../places/replace-file.ts';
import type { StoredTensor } from '../format/index-file.ts';
import { describeVarying } from '../format/varying.ts';

/** The dtypes that an exported model can have. */
export const exportDTypes = ['f32', 'bf16', 'f16'] as const;

/** Options of `exportModel`. */
export interface ExportOptions {
  /**
   * The dtype of all floats in the file. They are rounded to it; a finite number that would become infinite is a
   * ConfigError. Default: each keeps its dtype.
   */
  readonly dtype?: (typeof exportDTypes)[number];
  /** Texts that the file has beside the tensors. Default: `format: 'pt'`, which is in the file in any case. */
  readonly metadata?: Readonly<Record<string, string>>;
}

const exportRules: OptionRules<ExportOptions> = {
  dtype: option.oneOf(...exportDTypes),
  metadata: {
    fits: (value): value is Readonly<Record<string, string>> =>
      typeof value === 'object' &&
      value !== null &&
      Object.values(value).every((text) => typeof text === 'string'),
    expected: 'texts by name',
  },
};

/**
 * Writes the model of a checkpoint (found as by checkpoints.load) to one safetensors file. As PyTorch expects,
 * shared parameters are in the file under all their names. Only some megabytes of the model are in memory at a
 * time. The file appears when it is complete. Throws CheckpointError.
 */
export async function exportModel(
  place: CheckpointPlace,
  path: string,
  options: ExportOptions = {},
): Promise<void> {
  checkOptions('exportModel', options, exportRules);
  const checkpoint = await loadCheckpoint(place);
  const tensors = new Map<string, ExportedTensor>();
  for (const name of [...checkpoint.model.names, ...checkpoint.aliases.keys()]) {
    const stored = checkpoint.model.get(checkpoint.aliases.get(name) ?? name);
    if (stored?.varying !== undefined) throw varyingError(checkpoint.directory, path, stored);
    if (stored === undefined) continue;
    const { shape } = stored;
    const isFloat = dtypes[stored.dtype].kind === 'float';
    tensors.set(name, {
      stored,
      shape,
      dtype: isFloat ? (options.dtype ?? stored.dtype) : stored.dtype,
    });
  }
  const asked = `Exporting ${checkpoint.directory} to ${path}`;
  const metadata = { ...options.metadata, format: 'pt' };
  await replaceFile(asked, path, contents(checkpoint, tensors, metadata), diskFiles);
}

/** A tensor of the checkpoint with the dtype that it has in the file. */
interface ExportedTensor {
  readonly stored: StoredTensor;
  readonly shape: readonly number[];
  readonly dtype: DType;
}

async function* contents(
  checkpoint: Checkpoint,
  tensors: ReadonlyMap<string, ExportedTensor>,
  metadata: Readonly<Record<string, string>>,
): AsyncGenerator<Uint8Array> {
  const { header, places } = encodeSafetensorsHeader(Object.fromEntries(tensors), metadata);
  yield header;
  await using chunks = checkpoint.model.open();
  for (const { name } of places) {
    const tensor = tensors.get(name);
    if (tensor === undefined) continue;
    for await (const bytes of chunks.boxes(tensor.stored)) yield converted(tensor, bytes);
  }
}

function converted({ stored, dtype }: ExportedTensor, bytes: Uint8Array): Uint8Array {
  const shape = [bytes.byteLength / dtypes[stored.dtype].bytes];
  const array = roundArray({ dtype: stored.dtype, shape, bytes }, dtype);
  if (array !== undefined) return array.bytes;
  throw new ConfigError({
    asked: `to export '${stored.name}' as ${dtype}`,
    found: `numbers in ${stored.dtype} that would be infinite in ${dtype}`,
    todo: 'Export the model without a dtype, or as f32',
  });
}

function varyingError(from: string, path: string, tensor: StoredTensor): CheckpointError {
  return new CheckpointError(
    {
      asked: `Exporting ${from} to ${path}`,
      found: `${tensor.name}: ${describeVarying(tensor)}`,
      todo: 'Average the parameters over the ranks, or take those of one, and save that model',
    },
    { name: tensor.name, varying: tensor.varying },
  );
}
