import {
  allGather,
  type DType,
  type Extent,
  type HostData,
  noGrad,
  type Shape,
  type Tensor,
} from '@shardwise/core';
import { CutParameter } from './cut-parameter.ts';
import { partExtent, type Partition, wholeOf } from './partition.ts';

export interface PartitionedParameterOptions {
  readonly partition: Partition;
  readonly wholeShape: Shape;
  /** The mesh axis whose ranks hold one part each. */
  readonly axis: string;
  /** Number of parts. */
  readonly size: number;
  /** Which of them this rank holds. */
  readonly part: number;
  readonly dtype: DType;
  readonly requiresGrad: boolean;
}

/** A parameter that is cut along one dim. */
export class PartitionedParameter extends CutParameter {
  readonly partition: Partition;
  readonly wholeShape: Shape;
  readonly axis: string;
  readonly size: number;
  readonly part: number;

  /** Shape: data part. */
  constructor(data: HostData, shape: Shape, options: PartitionedParameterOptions) {
    super(data, shape, { dtype: options.dtype, requiresGrad: options.requiresGrad });
    this.partition = options.partition;
    this.wholeShape = options.wholeShape;
    this.axis = options.axis;
    this.size = options.size;
    this.part = options.part;
  }

  override get shardedOver(): readonly string[] {
    return [this.axis];
  }

  override get extent(): Extent {
    return partExtent(this.partition, this.wholeShape, this.size, this.part);
  }

  /** Shape: part -> wholeShape. */
  override whole(part: Tensor = this): Tensor {
    const { axis, partition, size } = this;
    return noGrad(() => wholeOf(allGather(part, axis, partition.dim), partition, size));
  }
}
