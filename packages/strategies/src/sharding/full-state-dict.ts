import { type HostArray, type Module, type StateDict, Tensor } from '@shardwise/core';
import { ShardedParameter } from './sharded-parameter.ts';

/**
 * A model's whole parameters and buffers on every rank, under the names and in the shapes that they
 * had before a strategy was applied. A collective.
 */
export async function fullStateDict(model: Module): Promise<StateDict> {
  const dict: Record<string, HostArray> = {};
  for (const [name, parameter] of model.namedParameters()) {
    dict[name] = await read(
      parameter instanceof ShardedParameter
        ? new Tensor(parameter.wholeFrom(parameter.fullNode()))
        : parameter,
    );
  }
  for (const [name, buffer] of model.namedBuffers()) {
    if (buffer.persistent) dict[name] = await read(buffer);
  }
  return dict;
}

async function read(tensor: Tensor): Promise<HostArray> {
  const data = await tensor.data();
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
  return { dtype: tensor.dtype, shape: tensor.shape, bytes };
}
