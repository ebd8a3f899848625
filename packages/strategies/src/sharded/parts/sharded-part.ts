import {
  allGather,
  fromParts,
  type HostData,
  joinLayouts,
  layoutOver,
  type LowPrecision,
  type Node,
  noGrad,
  ownPlace,
  paddedShape,
  ParameterPart,
  partShape,
  type Place,
  type Shape,
  type Sharding,
  Tensor,
  toParts,
  withCollectiveName,
} from '@shardwise/core/extend';
import { LowPrecisionValues } from '../../parameters/low-precision-values.ts';
import { type GatherMessage, QuantizedGather } from '../quantized/quantized-gather.ts';
import { keptWhole } from './kept-whole.ts';
import { ShardedGradient } from './sharded-gradient.ts';

const advised = 'findUnusedParameters: true lets the losses of ranks use different parameters';

export interface ShardedPartOptions {
  /** The name of the parameter in the model. */
  readonly name: string;
  /** Whether ranks may use different parameters. Otherwise the errors of ranks that do say how they may. */
  readonly findUnusedParameters: boolean;
  /** What the names of its collectives end with (`ModelNumbers`). */
  readonly model: string;
  /** The mesh axis whose ranks have one part each. */
  readonly axis: string;
  readonly sharding: Sharding;
  readonly requiresGrad: boolean;
  /** The tensor that is sharded, which may be a part itself. */
  readonly of: Tensor;
  /**
   * What each rank keeps of the values that forward passes read. Optimizers update a part, from which the others get the
   * rest.
   */
  readonly values: 'part' | 'whole';
  /** Whether each rank keeps its part of the averaged gradient, or the whole gradient of its own batches. */
  readonly gradient: 'part' | 'whole';
  /**
   * The dtypes of the values that forward passes read, and of gradients, if they have fewer bits than the f32 part that
   * an optimizer updates. Undefined: the optimizer updates the values themselves.
   */
  readonly lowPrecision: LowPrecision | undefined;
}

/**
 * What this rank keeps of a parameter that ranks share out, and how it is gathered. ZeRO-1, 2 and 3 and FSDP differ only
 * in `values` and `gradient`.
 */
export class ShardedPart {
  readonly name: string;
  /** The names of its collectives, in full, because building and hashing them takes time in each step. */
  readonly gatherName: string;
  readonly averageName: string;
  readonly axis: string;
  readonly sharding: Sharding;
  /** The number of this part, and the number of parts. */
  readonly place: Place;
  /** What optimizers update. */
  readonly leaf: ParameterPart;
  readonly gradient: ShardedGradient;
  /** The shape of the tensor that is sharded. */
  readonly #whole: Shape;
  readonly #values: ShardedPartOptions['values'];
  /** The values in fewer bits. Null: there are none. */
  readonly #low: LowPrecisionValues | null;
  /** Gathers the values for forward passes in 8 bits. Null: they are sent as they are. */
  #quantized: QuantizedGather | null = null;

  /**
   * `data` is what this rank keeps: all parts, if it keeps the whole values and these are what the optimizer updates.
   * Otherwise its part. The rest is padding.
   */
  constructor(data: HostData, options: ShardedPartOptions) {
    const { name, findUnusedParameters, model, axis, sharding, requiresGrad, of } = options;
    this.name = name;
    const label = `'${name}'${model}${findUnusedParameters ? '' : ` (${advised})`}`;
    this.gatherName = `the gather of ${label}`;
    this.averageName = `the mean of the gradient of ${label}`;
    this.axis = axis;
    this.sharding = sharding;
    this.place = ownPlace(axis);
    this.#whole = of.shape;
    this.#values = options.values;
    const shape = partShape(of.shape, sharding, this.place.size);
    const gather = (part: Tensor): Tensor => this.gatherParts(part);
    this.#low = lowValues(options, { part: shape, all: this.paddedShape, gather });
    this.gradient = new ShardedGradient({
      partShape: shape,
      wholeShape: of.shape,
      keepsWhole: options.gradient === 'whole',
      low: this.#low,
      version: () => this.version,
    });
    const { place } = this;
    const keepsAll = options.values === 'whole' && this.#low === null;
    this.leaf = new ParameterPart(data, keepsAll ? this.paddedShape : shape, {
      dtype: of.dtype,
      requiresGrad,
      wholeShape: of.wholeShape,
      layout: joinLayouts(of.layout, layoutOver(axis, sharding, of.ndim)),
      gradient: this.gradient,
      ...(keepsAll ? { keptWhole: keptWhole({ axis, place, partShape: shape, gather }) } : {}),
      ...(this.#low === null ? {} : { copy: this.#low }),
    });
  }

  /**
   * The number of the latest update. It is the same before and after the update is computed, because ranks may compute
   * it at different times.
   */
  get version(): number {
    const { op, id, updatedAt } = this.leaf.stored;
    return op === 'assign' ? id : updatedAt;
  }

  /** Gathers the parts of all ranks with the values that forward passes read. Shape: -> padded. */
  collect(): Node {
    const kept = this.#low?.kept ?? null;
    if (this.#values === 'whole') return kept?.node ?? this.leaf.contents;
    const part = kept ?? this.leaf;
    return (this.#quantized?.gather(part, this.axis, this.paddedShape) ?? this.gatherParts(part))
      .node;
  }

  /** Gathers the parts of all ranks with the values that an optimizer sees. Shape: -> padded. */
  collectExact(): Node {
    const isCollected = this.#low === null && this.#quantized === null;
    return isCollected ? this.collect() : this.gatherParts(this.leaf).node;
  }

  /** Gathers values of the parts of all ranks, under the name of the parameter. Shape: part -> padded. */
  gatherParts(part: Tensor, axis: string = this.axis): Tensor {
    return withCollectiveName(this.gatherName, () => noGrad(() => allGather(part, axis, 0)));
  }

  /** Sends the values that forward passes read in 8 bits, from now on. */
  quantizeGathers(): void {
    this.#quantized = new QuantizedGather(this.gatherName);
  }

  /** The messages of which a result of `collect` is made. */
  messagesOf(padded: Node): readonly GatherMessage[] {
    const again = (part: Tensor, axis: string): Tensor => this.gatherParts(part, axis);
    return this.#quantized?.messagesOf(padded) ?? [{ node: padded, again }];
  }

  /** The shape of all parts, concatenated along the dim of `sharding`. */
  get paddedShape(): Shape {
    return paddedShape(this.#whole, this.sharding, this.place.size);
  }

  /** Shape: whole -> padded. */
  toParts(whole: Tensor): Tensor {
    return toParts(whole, this.sharding, this.place.size);
  }

  /** Shape: padded -> whole. */
  fromParts(padded: Tensor): Tensor {
    return fromParts(padded, this.sharding, this.place.size, this.#whole);
  }

  /** Makes the whole that expressions read, from what `collect` or `collectExact` returned. Shape: padded -> whole. */
  wholeFrom(padded: Node): Node {
    const values = this.#low?.read(padded) ?? padded;
    return noGrad(() => this.fromParts(new Tensor(values))).node;
  }
}

interface PartShapes {
  readonly part: Shape;
  readonly all: Shape;
  readonly gather: (part: Tensor) => Tensor;
}

function lowValues(
  { lowPrecision: policy, values }: ShardedPartOptions,
  { part, all, gather }: PartShapes,
): LowPrecisionValues | null {
  if (policy === undefined) return null;
  return values === 'part'
    ? new LowPrecisionValues({ policy, shape: part })
    : new LowPrecisionValues({ policy, shape: all, complete: gather });
}
