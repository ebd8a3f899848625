import {
  currentRegion,
  type DType,
  gradientHookError,
  type HostData,
  isGradEnabled,
  type Layout,
  localShape,
  type Node,
  noGrad,
  ownPlace,
  Parameter,
  ParameterPart,
  type Placement,
  reinterpret,
  scaleGradient,
  type Shape,
  shardOf,
  Tensor,
  unshard,
  withoutValues,
} from '@shardwise/core/extend';

/** Options of `layerParameter`. */
export interface LayerParameterOptions {
  readonly wholeShape: Shape;
  /** The part of the whole with which each rank computes. */
  readonly layout: Layout;
  readonly dtype: DType;
  readonly requiresGrad: boolean;
}

/** An axis whose ranks have different batches. They all have the parameter, or each has a part. */
export interface BatchRanks {
  readonly axis: string;
  readonly size: number;
  /**
   * Whether gradients are averaged over the axis. A part already gets gradients from the tokens of all ranks, so its
   * gradient is only divided by their number.
   */
  readonly averages: boolean;
}

/** The node that expressions read until the next update, and the conditions under which it was made. */
interface Seen {
  readonly part: Node;
  readonly region: ReturnType<typeof currentRegion>;
  readonly isGradEnabled: boolean;
  readonly node: Node;
}

/**
 * Makes a parameter of a layer in which each rank computes with a part. The parameter stands for the whole, which all
 * ranks must use in the same way. `inLayer` returns what the layer computes with. `data` is null if the part already has
 * its data (constructSharded). Shape: data part.
 */
export function layerParameter(data: HostData | null, options: LayerParameterOptions): Parameter {
  const { wholeShape, layout, dtype } = options;
  const part = new ParameterPart(data, localShape(wholeShape, layout, ownPlace), options);
  return new Parameter(null, wholeShape, { dtype, placement: new LayerPlacement(part) });
}

/** The placement of a parameter of a layer in which each rank computes with a part. */
export class LayerPlacement implements Placement<ParameterPart> {
  readonly part: ParameterPart;
  /** What the layer computes with. Shape: that of the part. */
  readonly inLayer: Parameter;
  readonly #batch: BatchRanks[] = [];
  #seen: Seen | null = null;

  constructor(part: ParameterPart) {
    this.part = part;
    this.inLayer = this.partInLayer({
      part,
      dtype: part.dtype,
      read: () => part.node,
      wholeOf: (own) => own,
      partOf: (own) => own,
      hookError: gradientHookError,
    });
  }

  get dtype(): DType {
    return this.part.dtype;
  }

  /** The whole, through which gradients flow. Shape: -> whole. */
  read(): Node {
    return this.wholeFrom(this.part.node);
  }

  /** Makes the whole that expressions read from an expression of the part. Shape: part -> whole. */
  wholeFrom(part: Node): Node {
    const own = this.#inBatch(part);
    return withoutValues(() => this.#join(new Tensor(own))).node;
  }

  /** Makes the parameter that the layer computes with, of what is read in its place. Shape: -> that of the part. */
  partInLayer<Part extends Tensor>(placement: Placement<Part>): Parameter {
    const own: Placement<Tensor> = {
      get part() {
        return placement.part;
      },
      get dtype() {
        return placement.dtype;
      },
      read: () => this.#inBatch(placement.read()),
      wholeOf: (part) => placement.wholeOf(part),
      partOf: (whole) => placement.partOf(whole),
      hookError: (shape) => placement.hookError(shape),
    };
    return new Parameter(null, this.part.shape, { dtype: this.part.dtype, placement: own });
  }

  /** From now on, gradients from ranks with other batches are averaged before they arrive. */
  averageOverBatches(ranks: BatchRanks): void {
    this.#batch.push(ranks);
  }

  /**
   * Has expressions read a node of their own from now on. A pipeline calls it before each pass, because it frees what the
   * pass before has read, when that pass runs.
   */
  forgetSeen(): void {
    this.#seen = null;
  }

  /**
   * Gathers the whole of a node that has the layout of the part, such as its gradient. No gradient flows through it.
   * It is a collective. Shape: part -> whole.
   */
  wholeOf(part: Node): Node {
    return withoutValues(() => noGrad(() => this.#join(new Tensor(part)))).node;
  }

  partOf(whole: Node): Node {
    return withoutValues(() => noGrad(() => shardOf(new Tensor(whole), this.part.layout))).node;
  }

  hookError(shape: Shape): Error {
    return gradientHookError(shape);
  }

  /** Returns the same node to all expressions that read the part, so that its gradient is sent once. */
  #inBatch(part: Node): Node {
    const batch = this.#batch;
    if (batch.length === 0) return part;
    const own = { part, region: currentRegion(), isGradEnabled: isGradEnabled() };
    const known = this.#seen;
    if (
      known?.part === part &&
      known.region === own.region &&
      known.isGradEnabled === own.isGradEnabled &&
      known.node.requiresGrad === part.requiresGrad &&
      known.node.value === null &&
      known.node.id > part.updatedAt
    ) {
      return known.node;
    }
    const { node } = withoutValues(() => {
      const ranks = batch.reduce((product, { size }) => product * size, 1);
      return batch.reduce(
        (x, { axis, averages }) => (averages ? reinterpret(x, axis, 'invariant', 'replicate') : x),
        scaleGradient(new Tensor(part), 1 / ranks),
      );
    });
    this.#seen = { ...own, node };
    return node;
  }

  /** Gathers the whole. Its gradient, the same on all ranks, is cut into each rank's part. Shape: part -> whole. */
  #join(part: Tensor): Tensor {
    return unshard(part, this.part.layout, this.part.wholeShape);
  }
}
