import { dtypes, elementCount, type HostArrays, Module, Parameter, Tensor } from '@shardwise/core';
import { ShardedParameter } from '@shardwise/strategies';
import type { Holding } from './holding.ts';
import { extentOf, modelTensors } from './model-tensors.ts';

/**
 * What rank `rank` saves of a model: its parts of sharded parameters, and whole parameters, which
 * all ranks have alike. Buffers (statistics of a rank's own batches, it may be) and plain arrays
 * are rank 0's.
 */
export function modelHoldings(model: Module | HostArrays, rank: number): readonly Holding[] {
  if (!(model instanceof Module)) return rank === 0 ? arrayHoldings(model) : [];
  return modelTensors(model)
    .filter(({ tensor }) => rank === 0 || tensor instanceof Parameter)
    .map(({ names: [name], tensor }) => {
      const part = tensor instanceof ShardedParameter ? new Tensor(tensor.partNode) : tensor;
      const { shape, start, stop } = extentOf(tensor);
      return tensorHolding(name, part, { shape, start, stop });
    });
}

/** The names of shared parameters besides the first, to which they lead. */
export function aliasesOf(model: Module | HostArrays): ReadonlyMap<string, string> {
  if (!(model instanceof Module)) return new Map();
  return new Map(
    modelTensors(model).flatMap(({ names: [name, ...others] }) =>
      others.map((other) => [other, name] as const),
    ),
  );
}

/** A tensor that begins with the elements `start` to `stop` of a whole. */
export function tensorHolding(
  name: string,
  tensor: Tensor,
  { shape, start, stop }: Pick<Holding, 'shape' | 'start' | 'stop'>,
): Holding {
  const { dtype } = tensor;
  const byteLength = (stop - start) * dtypes[dtype].bytes;
  const read = async (): Promise<Uint8Array> => {
    const data = await tensor.data();
    return new Uint8Array(data.buffer, data.byteOffset, byteLength);
  };
  return { name, dtype, shape, start, stop, read };
}

function arrayHoldings(arrays: HostArrays): readonly Holding[] {
  return Object.entries(arrays).map(([name, { dtype, shape, bytes }]) => {
    const read = async (): Promise<Uint8Array> => bytes;
    return { name, dtype, shape, start: 0, stop: elementCount(shape), read };
  });
}
