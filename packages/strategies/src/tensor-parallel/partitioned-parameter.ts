import {
  allGather,
  type DType,
  type HostData,
  ParameterPart,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';
import { CutParameter } from './cut-parameter.ts';
import { partExtent, type Partition, partShape, takePart, wholeOf } from './partition.ts';

export interface PartitionedParameterOptions {
  readonly partition: Partition;
  readonly wholeShape: Shape;
  /** The mesh axis whose ranks hold one part each. */
  readonly axis: string;
  /** Number of parts. */
  readonly size: number;
  /** Which of them this rank holds. */
  readonly index: number;
  readonly dtype: DType;
  readonly requiresGrad: boolean;
}

/** A parameter that is cut along one dim. */
export class PartitionedParameter extends CutParameter {
  readonly partition: Partition;
  readonly axis: string;
  readonly size: number;
  readonly index: number;

  /** Without `data`, as all that there is of the part is a part of it (constructSharded). Shape: data part. */
  constructor(data: HostData | null, options: PartitionedParameterOptions) {
    const { partition, wholeShape, axis, size, index, dtype, requiresGrad } = options;
    super(
      new ParameterPart(data, partShape(partition, wholeShape, size), {
        dtype,
        requiresGrad,
        extent: partExtent(partition, wholeShape, size, index),
        shardedOver: [axis],
      }),
    );
    this.partition = partition;
    this.axis = axis;
    this.size = size;
    this.index = index;
  }

  override partOf(whole: Tensor): Tensor {
    return takePart(whole, this.partition, this.size, this.index);
  }

  protected override join(part: Tensor): Tensor {
    const { axis, partition, size } = this;
    return wholeOf(allGather(part, axis, partition.dim, 'invariant'), partition, size);
  }
}
