import {
  dtypes,
  extentOfWhole,
  type HostArrays,
  Module,
  Parameter,
  type SavedType,
  type Tensor,
} from '@shardwise/core/extend';
import type { Holding } from './holding.ts';
import { modelTensors } from './model-tensors.ts';
import { placeOver } from './varying.ts';

/**
 * What rank `rank` saves of a model: its parts of sharded parameters, what varies over ranks, and whole
 * parameters, which all ranks have alike. Other buffers (statistics of a rank's own batches, it may be) and
 * plain arrays are rank 0's.
 */
export function modelHoldings(model: Module | HostArrays, rank: number): readonly Holding[] {
  if (!(model instanceof Module)) return rank === 0 ? arrayHoldings(model) : [];
  return modelTensors(model).flatMap(({ names: [name], tensor }) => {
    const { part } = tensor;
    return rank === 0 || tensor instanceof Parameter || part.varyingOver.length > 0
      ? tensorHoldings(name, () => part, part)
      : [];
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

/** A tensor that has, behind each other, the regions of a whole, this rank's where it varies. */
export function tensorHoldings(
  name: string,
  make: () => Tensor,
  { dtype, extent, varyingOver }: Pick<SavedType, 'dtype' | 'extent' | 'varyingOver'>,
): readonly Holding[] {
  const { varying, place } = placeOver(varyingOver);
  const shape = [...varying.map(({ size }) => size), ...extent.shape];
  const elementBytes = dtypes[dtype].bytes;
  let offset = 0;
  return extent.regions.map(({ block, start, stop }) => {
    const first = offset;
    const byteLength = (stop - start) * elementBytes;
    offset += byteLength;
    const read = async (): Promise<Uint8Array> => {
      const data = await make().data();
      return new Uint8Array(data.buffer, data.byteOffset + first, byteLength);
    };
    const region = { name, dtype, shape, block: [...place, ...block], start, stop };
    return varying.length === 0 ? { ...region, read } : { ...region, varying, read };
  });
}

function arrayHoldings(arrays: HostArrays): readonly Holding[] {
  return Object.entries(arrays).flatMap(([name, { dtype, shape, bytes }]) => {
    const read = async (): Promise<Uint8Array> => bytes;
    const { regions } = extentOfWhole(shape);
    return regions.map((region) => ({ name, dtype, shape, ...region, read }));
  });
}
