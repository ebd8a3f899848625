import {
  type HostArray,
  hostArray,
  type Module,
  type Parameter,
  type StateDict,
  Tensor,
} from '@shardwise/core';
import { CutParameter } from '../tensor-parallel/cut-parameter.ts';
import { ShardedParameter } from './sharded-parameter.ts';

/**
 * A model's whole parameters and buffers on every rank, under the names and in the shapes that they
 * had before a strategy was applied. A collective.
 */
export async function fullStateDict(model: Module): Promise<StateDict> {
  const dict: Record<string, HostArray> = {};
  for (const [name, parameter] of model.namedParameters()) {
    dict[name] = await read(wholeOf(parameter));
  }
  for (const [name, buffer] of model.namedBuffers()) {
    if (buffer.persistent) dict[name] = await read(buffer);
  }
  return dict;
}

/** Undoes one cut after the other, the last one first. */
function wholeOf(parameter: Parameter): Tensor {
  if (!(parameter instanceof ShardedParameter)) {
    return parameter instanceof CutParameter ? parameter.whole() : parameter;
  }
  const collected = new Tensor(parameter.wholeFrom(parameter.fullNode()));
  const { original } = parameter;
  return original instanceof CutParameter ? original.whole(collected) : collected;
}

async function read(tensor: Tensor): Promise<HostArray> {
  const data = await tensor.data();
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
  return hostArray(tensor.dtype, tensor.shape, bytes);
}
