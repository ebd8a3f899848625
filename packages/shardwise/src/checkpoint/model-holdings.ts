import {
  dtypes,
  type Extent,
  extentOfWhole,
  type HostArrays,
  Module,
  Parameter,
  type Tensor,
} from '@shardwise/core';
import type { Holding } from './holding.ts';
import { modelTensors } from './model-tensors.ts';

/**
 * What rank `rank` saves of a model: its parts of sharded parameters, and whole parameters, which
 * all ranks have alike. Buffers (statistics of a rank's own batches, it may be) and plain arrays
 * are rank 0's.
 */
export function modelHoldings(model: Module | HostArrays, rank: number): readonly Holding[] {
  if (!(model instanceof Module)) return rank === 0 ? arrayHoldings(model) : [];
  return modelTensors(model)
    .filter(({ tensor }) => rank === 0 || tensor instanceof Parameter)
    .flatMap(({ names: [name], tensor: { part } }) => tensorHoldings(name, part, part.extent));
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

/** A tensor that has, behind each other, the regions of a whole. */
export function tensorHoldings(
  name: string,
  tensor: Tensor,
  { shape, regions }: Extent,
): readonly Holding[] {
  const { dtype } = tensor;
  const elementBytes = dtypes[dtype].bytes;
  let offset = 0;
  return regions.map((region) => {
    const first = offset;
    const byteLength = (region.stop - region.start) * elementBytes;
    offset += byteLength;
    const read = async (): Promise<Uint8Array> => {
      const data = await tensor.data();
      return new Uint8Array(data.buffer, data.byteOffset + first, byteLength);
    };
    return { name, dtype, shape, ...region, read };
  });
}

function arrayHoldings(arrays: HostArrays): readonly Holding[] {
  return Object.entries(arrays).flatMap(([name, { dtype, shape, bytes }]) => {
    const read = async (): Promise<Uint8Array> => bytes;
    const { regions } = extentOfWhole(shape);
    return regions.map((region) => ({ name, dtype, shape, ...region, read }));
  });
}
