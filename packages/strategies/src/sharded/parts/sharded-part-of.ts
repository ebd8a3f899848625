import {
  chunksOf,
  type DType,
  dtypes,
  elementCount,
  fromBytes,
  type HostData,
  layoutOver,
  type LowPrecision,
  noGrad,
  ownPlace,
  paddedShape,
  type Parameter,
  type ParameterPlan,
  partShape,
  type Shape,
  takeChunks,
} from '@shardwise/core/extend';
import { ofRankZero } from '../../plan/from-rank-zero.ts';
import { shardingOf } from '../../plan/planned-bytes.ts';
import { ShardedPart, type ShardedPartOptions } from './sharded-part.ts';

export interface ShardedPartRequest {
  readonly axis: string;
  readonly planned: ParameterPlan;
  readonly lowPrecision: LowPrecision | undefined;
  /** Whether ranks may use different parameters. */
  readonly findUnusedParameters: boolean;
  /** What the names of its collectives end with (`ModelNumbers`). */
  readonly model: string;
  /** The axes along which ranks get the values of the first rank. */
  readonly axes: readonly string[];
}

/**
 * Returns the part that this rank keeps of a parameter that a plan shards over an axis. It is a collective, because the
 * values are rank 0's.
 */
export async function shardedPart(
  parameter: Parameter,
  { axis, axes, planned, lowPrecision, findUnusedParameters, model }: ShardedPartRequest,
): Promise<ShardedPart> {
  const { part: of, initialPart: initial, requiresGrad } = parameter;
  const { shape, dtype } = of;
  const { size } = ownPlace(axis);
  const sharding = shardingOf(planned, 'optimizer', axis);
  if (sharding === null) throw new RangeError(`'${planned.name}' is not sharded over '${axis}'`);
  const keepsParameter = shardingOf(planned, 'parameter', axis) === null;
  const keepsGradient = shardingOf(planned, 'gradient', axis) === null;
  const options: ShardedPartOptions = {
    name: planned.name,
    findUnusedParameters,
    model,
    axis,
    sharding,
    requiresGrad,
    of,
    values: keepsParameter ? 'whole' : 'part',
    gradient: keepsGradient ? 'whole' : 'part',
    lowPrecision,
  };
  const ownShape = partShape(shape, sharding, size);
  if (initial !== null) return new ShardedPart(ownData(initial.bytes, ownShape, dtype), options);
  noGrad(() => of.assign(ofRankZero(of, axes)));
  const data = await of.data();
  const whole = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (keepsParameter && lowPrecision === undefined) {
    return new ShardedPart(paddedData(whole, paddedShape(shape, sharding, size), dtype), options);
  }
  const own = chunksOf(shape, layoutOver(axis, sharding, shape.length), ownPlace);
  const bytes = takeChunks(whole, shape, own, dtypes[dtype].bytes);
  return new ShardedPart(ownData(bytes, ownShape, dtype), options);
}

/** Makes elements of these bytes and of zeros after them. Shape: -> shape N. */
function paddedData(bytes: Uint8Array, shape: Shape, dtype: DType): HostData {
  const padded = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
  padded.set(bytes);
  return fromBytes(padded, dtype);
}

/** Makes elements of bytes that belong to nobody else. They are copied only if zeros are to follow. Shape: -> shape N. */
function ownData(bytes: Uint8Array<ArrayBuffer>, shape: Shape, dtype: DType): HostData {
  const isWhole = bytes.byteLength === elementCount(shape) * dtypes[dtype].bytes;
  const isAlone = bytes.byteLength === bytes.buffer.byteLength;
  return isWhole && isAlone ? fromBytes(bytes, dtype) : paddedData(bytes, shape, dtype);
}
