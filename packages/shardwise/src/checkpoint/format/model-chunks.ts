import {
  chunksOf,
  dtypes,
  type HeldChunk,
  type HostArrays,
  modelTensors,
  Module,
  ownPlace,
  Parameter,
  type SavedType,
  type Tensor,
  wholeChunk,
} from '@shardwise/core/extend';
import { placeOver } from './varying.ts';

/**
 * Returns the chunks that rank `rank` saves of a model: its parts of sharded parameters, its own values of tensors that
 * vary over ranks, and whole parameters, which are equal on all ranks. Only rank 0 saves plain arrays and other
 * buffers, which may be statistics of a rank's own batches.
 */
export function chunksOfModel(model: Module | HostArrays, rank: number): readonly HeldChunk[] {
  if (!(model instanceof Module)) return rank === 0 ? chunksOfArrays(model) : [];
  return modelTensors(model).flatMap(({ names: [name], tensor }) => {
    const { part } = tensor;
    return rank === 0 || tensor instanceof Parameter || part.varyingOver.length > 0
      ? chunksOfTensor(name, () => part, part)
      : [];
  });
}

/**
 * Returns the chunks of the buffers that each rank has whole, and that rank 0 saves. On other ranks they may have other
 * values.
 */
export function chunksOfBuffers(model: Module | HostArrays): readonly HeldChunk[] {
  if (!(model instanceof Module)) return [];
  return modelTensors(model).flatMap(({ names: [name], tensor }) => {
    const { part } = tensor;
    return tensor instanceof Parameter || part.varyingOver.length > 0
      ? []
      : chunksOfTensor(name, () => part, part);
  });
}

/** Returns the other names of shared parameters, each with the first name of its parameter. */
export function aliasesOf(model: Module | HostArrays): ReadonlyMap<string, string> {
  if (!(model instanceof Module)) return new Map();
  return new Map(
    modelTensors(model).flatMap(({ names: [name, ...others] }) =>
      others.map((other) => [other, name] as const),
    ),
  );
}

/**
 * Returns the chunks of the whole tensor that this rank holds. `make` returns a tensor that has their elements one
 * after another. If the tensor varies, each chunk lies at this rank's place.
 */
export function chunksOfTensor(
  name: string,
  make: () => Tensor,
  { dtype, layout, wholeShape }: Pick<SavedType, 'dtype' | 'layout' | 'wholeShape'>,
): readonly HeldChunk[] {
  const { varying, place } = placeOver(layout.varying);
  const shape = [...varying.map(({ size }) => size), ...wholeShape];
  const elementBytes = dtypes[dtype].bytes;
  let offset = 0;
  return chunksOf(wholeShape, layout, ownPlace).map(({ box, start, stop }) => {
    const first = offset;
    const byteLength = (stop - start) * elementBytes;
    offset += byteLength;
    const read = async (): Promise<Uint8Array> => {
      const data = await make().data();
      return new Uint8Array(data.buffer, data.byteOffset + first, byteLength);
    };
    const chunk = { name, dtype, shape, box: [...place, ...box], start, stop };
    return varying.length === 0 ? { ...chunk, read } : { ...chunk, varying, read };
  });
}

function chunksOfArrays(arrays: HostArrays): readonly HeldChunk[] {
  return Object.entries(arrays).flatMap(([name, { dtype, shape, bytes }]) => {
    const read = async (): Promise<Uint8Array> => bytes;
    return [{ name, dtype, shape, ...wholeChunk(shape), read }];
  });
}
