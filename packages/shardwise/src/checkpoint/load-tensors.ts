import type { HostArrays } from '@shardwise/core/extend';
import { requirePath } from './check-arguments.ts';
import { readTensorFile } from './tensor-file.ts';

/**
 * The tensors of a safetensors file by name, from saveTensors or any other writer. They have the form of a
 * state dict: `model.loadStateDict(await loadTensors(path))`, or `fromHostArray(tensors.x)`. Throws
 * CheckpointError, and DTypeError for a dtype that this library does not have.
 */
export async function loadTensors(path: string): Promise<HostArrays> {
  requirePath('loadTensors', path);
  return (await readTensorFile(path)).tensors;
}
