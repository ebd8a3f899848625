import {
  checkOptions,
  CheckpointError,
  type HostArray,
  hostArray,
  type HostArrays,
  option,
  type OptionRules,
  Tensor,
} from '@shardwise/core/extend';
import { requirePath } from '../format/check-arguments.ts';
import { isHostArray, isPlainObject } from '../format/state-tree.ts';
import { readTensorFile, writeTensorFile } from './safetensors-file.ts';

type Tensors = Readonly<Record<string, Tensor | HostArray>>;

const tensorsRules: OptionRules<{ readonly tensors: Tensors }> = {
  tensors: option.required({
    fits: (value): value is Tensors => isPlainObject(value),
    expected: 'tensors by name, such as await model.stateDict()',
  }),
};

/**
 * Writes tensors, or a state dict, to one safetensors file, which PyTorch and other readers can read. `path` may also be an
 * address such as `s3://bucket/weights.safetensors`. The file is written completely or not at all, and replaces a file that is there. Parameters that are sharded over ranks are
 * written whole. In this case all ranks must call it, with a path that each may write. Throws CheckpointError, and
 * ConfigError for what are no tensors by name, such as a model.
 */
export async function saveTensorFile(path: string, tensors: Tensors): Promise<void> {
  requirePath('saveTensorFile', path);
  checkOptions('saveTensorFile', { tensors }, tensorsRules);
  const arrays: Record<string, HostArray> = {};
  for (const [name, value] of Object.entries(tensors)) {
    arrays[name] = value instanceof Tensor ? await arrayOf(value) : checked(name, value);
  }
  await writeTensorFile(path, { tensors: arrays, metadata: { format: 'pt' } });
}

async function arrayOf(tensor: Tensor): Promise<HostArray> {
  const { buffer, byteOffset, byteLength } = await tensor.data();
  const bytes = new Uint8Array(buffer, byteOffset, byteLength).slice();
  return hostArray(tensor.dtype, tensor.shape, bytes);
}

function checked(name: string, value: unknown): HostArray {
  if (isHostArray(value)) return value;
  throw new CheckpointError(
    {
      asked: `Saving '${name}' as a tensor`,
      found: 'neither a tensor nor an array of a state dict',
      todo: 'Save what has other values in it, as an optimizer, with saveStateFile(path, optimizer)',
    },
    { name },
  );
}

/**
 * The tensors of a safetensors file by name, from saveTensorFile or any other writer, or of all files that an index
 * (`model.safetensors.index.json`) names. They have the form of a state dict: `model.loadStateDict(await loadTensorFile(path))`, or `fromHostArray(tensors.x)`. Throws
 * CheckpointError, and DTypeError for a dtype that this library does not have.
 */
export async function loadTensorFile(path: string): Promise<HostArrays> {
  requirePath('loadTensorFile', path);
  return (await readTensorFile(path)).tensors;
}
