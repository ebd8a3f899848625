import {
  currentRegion,
  DividedParameter,
  type DType,
  type HostData,
  isGradEnabled,
  type Layout,
  localShape,
  type Node,
  noGrad,
  ownPlace,
  ParameterPart,
  reinterpret,
  scaleGradient,
  type Shape,
  shardOf,
  Tensor,
  unshard,
  withoutValues,
} from '@shardwise/core/extend';

/** Options of `LayerParameter`. */
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
 * A parameter of a layer in which each rank computes a part. Within the forward pass of the layer it stands for
 * this rank's part. Elsewhere it stands for the whole, which all ranks must use in the same way.
 */
export class LayerParameter extends DividedParameter {
  readonly #part: ParameterPart;
  #layers = 0;
  readonly #batch: BatchRanks[] = [];
  #seen: Seen | null = null;

  /** `data` is null if the part already has its data (constructSharded). Shape: data part. */
  constructor(data: HostData | null, options: LayerParameterOptions) {
    const { wholeShape, layout } = options;
    const part = new ParameterPart(data, localShape(wholeShape, layout, ownPlace), options);
    super(wholeShape, part);
    this.#part = part;
  }

  override get part(): ParameterPart {
    return this.#part;
  }

  /** The whole, through which gradients flow. Shape: -> whole. */
  override get node(): Node {
    this.checkNotReplaced();
    return this.seen(this.#part.node);
  }

  override get shape(): Shape {
    return this.#layers > 0 ? this.#part.shape : super.shape;
  }

  /** Makes the node that expressions read from an expression of the part. Shape: part -> part or whole. */
  seen(part: Node): Node {
    const own = this.#batch.length === 0 ? part : this.#seenInBatch(part, this.#batch);
    return this.#layers > 0 ? own : withoutValues(() => this.#join(new Tensor(own))).node;
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

  /** Returns the same node to all expressions that read the part, so that its gradient is sent once. */
  #seenInBatch(part: Node, batch: readonly BatchRanks[]): Node {
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

  /**
   * Gathers the whole of a tensor that has the layout of the part, such as its gradient. No gradient flows through it.
   * It is a collective. Shape: part -> whole.
   */
  override wholeOf(part: Tensor): Tensor {
    return noGrad(() => this.#join(part));
  }

  override partOf(whole: Tensor): Tensor {
    return shardOf(whole, this.#part.layout);
  }

  /** Makes the parameter stand for its part until `leaveLayer`. See `inLayer`. */
  enterLayer(): void {
    this.#layers++;
  }

  leaveLayer(): void {
    this.#layers--;
  }

  /** Gathers the whole. Its gradient, the same on all ranks, is cut into each rank's part. Shape: part -> whole. */
  #join(part: Tensor): Tensor {
    return unshard(part, this.#part.layout, this.#part.wholeShape);
  }
}
