import type { HostArrays } from '@shardwise/core/extend';
import { readTensorFile } from './tensor-file.ts';

/**
 * The tensors of a safetensors file by name, of saveTensors or any other writer, as a state dict has them:
 * `model.loadStateDict(await loadTensors(path))`, or `fromHostArray(tensors.x)`. Throws CheckpointError, and DTypeError for a
 * dtype that is none of ours.
 */
export async function loadTensors(path: string): Promise<HostArrays> {
  return (await readTensorFile(path)).tensors;
}
