import {
  allGather,
  currentSession,
  dropReduction,
  type DType,
  formatShape,
  fromParts,
  type Gradient,
  GradientSum,
  type HostData,
  joinLayouts,
  keepAverage,
  layoutOver,
  type Node,
  noGrad,
  noteUse,
  ownPlace,
  paddedShape,
  type PageStore,
  partShape,
  type Place,
  type Shape,
  type Sharding,
  Tensor,
  TensorStateError,
  toParts,
  type Update,
  withCollectiveName,
  zeros,
} from '@shardwise/core/extend';
import { StoredPart } from '../../parameters/stored-part.ts';
import { type GatherMessage, QuantizedGather } from '../quantized/quantized-gather.ts';
import { sumOf } from './sum-of.ts';

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
}

/** This rank's part of the average of a gradient. `again` reduces the gradient once more. */
interface Reduced {
  readonly average: Node;
  readonly again: () => Node;
}

/**
 * The part of a ShardedParameter that this rank updates. Subclasses differ in what else the rank keeps: the contents
 * and gradient of its part only, or of the whole.
 */
export abstract class ShardedPart extends StoredPart {
  readonly name: string;
  /** The names of its collectives, in full, because building and hashing them takes time in each step. */
  readonly gatherName: string;
  readonly averageName: string;
  readonly axis: string;
  readonly sharding: Sharding;
  /** The number of this part, and the number of parts. */
  readonly place: Place;
  /** The shape of the tensor that is sharded. */
  readonly #whole: Shape;
  readonly #partShape: Shape;
  /** The gradient of the whole parameter, from this rank's batches alone. */
  readonly #local = new GradientSum();
  #waits = false;
  /** The gradient of the part, averaged over the ranks. */
  readonly #gradient: Gradient;
  /** This rank's part of the average, if the rank keeps the whole gradient. */
  #reduced: Reduced | null = null;
  #checkUpdate: ((update: Update) => void) | null = null;
  /** Gathers the values for forward passes in 8 bits. Null: they are sent as they are. */
  #quantized: QuantizedGather | null = null;

  /** `data` is the data that this rank keeps. The rest of the part is padding. */
  constructor(
    data: HostData,
    shape: Shape,
    { name, findUnusedParameters, model, axis, sharding, requiresGrad, of }: ShardedPartOptions,
  ) {
    super(data, shape, {
      dtype: of.dtype,
      requiresGrad,
      wholeShape: of.wholeShape,
      layout: joinLayouts(of.layout, layoutOver(axis, sharding, of.ndim)),
    });
    this.name = name;
    const label = `'${name}'${model}${findUnusedParameters ? '' : ` (${advised})`}`;
    this.gatherName = `the gather of ${label}`;
    this.averageName = `the mean of the gradient of ${label}`;
    this.axis = axis;
    this.sharding = sharding;
    this.place = ownPlace(axis);
    this.#whole = of.shape;
    this.#partShape = partShape(of.shape, sharding, this.place.size);
    // takeReduced adds the reduced gradients. The gradient itself gets none from the backward pass.
    this.#gradient = this.reduceGradient({
      expect: () => {},
      arrive: () => {},
      checkUpdate: (update) => this.#checkUpdate?.(update),
    });
  }

  override get shape(): Shape {
    return this.#partShape;
  }

  override get dtype(): DType {
    return this.contents.dtype;
  }

  /** Whether the stored leaf requires a gradient. `node` may be an expression of the leaf. */
  override get requiresGrad(): boolean {
    return this.contents.requiresGrad;
  }

  /** Gathers the parts of all ranks with the values that forward passes read. Shape: -> padded. */
  abstract collect(): Node;

  /** Gathers the parts of all ranks with the values that an optimizer sees. Shape: -> padded. */
  collectExact(): Node {
    return this.#quantized === null ? this.collect() : this.gatherParts(this).node;
  }

  /** Gathers values of the parts of all ranks, under the name of the parameter. Shape: part -> padded. */
  gatherParts(part: Tensor, axis: string = this.axis): Tensor {
    return withCollectiveName(this.gatherName, () => noGrad(() => allGather(part, axis, 0)));
  }

  /** Sends the values that forward passes read in 8 bits, from now on. */
  quantizeGathers(): void {
    this.#quantized = new QuantizedGather(this.gatherName);
  }

  /** Gathers values of the parts of all ranks for forward passes. Shape: part -> padded. */
  protected gatherForForward(part: Tensor): Tensor {
    return this.#quantized?.gather(part, this.axis, this.paddedShape) ?? this.gatherParts(part);
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

  /** Makes the whole that expressions read. Shape: padded -> whole. */
  wholeFrom(padded: Node): Node {
    return noGrad(() => this.fromParts(new Tensor(padded))).node;
  }

  /** The gradient of the part, averaged over the ranks. */
  protected override get accumulated(): Node | null {
    return sumOf(super.accumulated, this.#averageNow());
  }

  /**
   * This rank's part of the average, if the rank keeps the whole gradient. The reduction takes its place in the program
   * where this is asked for. An update uses it up: after that, the whole gradient is reduced again.
   */
  #averageNow(): Node | null {
    if (this.#reduced === null) return null;
    const { average, again } = this.#reduced;
    if (average.isUnused) noteUse(average);
    if (average.id > this.version) return average;
    const next = again();
    this.#replaceReduced({ average: next, again });
    return next;
  }

  /**
   * The number of the latest update. It is the same before and after the update is computed, because ranks may compute
   * it at different times.
   */
  get version(): number {
    const { op, id, updatedAt } = this.stored;
    return op === 'assign' ? id : updatedAt;
  }

  /** Throws TensorStateError while gradients wait to be reduced, because `node` does not include them. */
  override setGradientNode(node: Node): void {
    if (this.#waits) throw waitingError(this.shape);
    if (this.replacesLate) this.replaceLate(node);
    else super.setGradientNode(node);
  }

  /** Whether gradients of this rank's batches wait for a later reduction. */
  get waits(): boolean {
    return this.#waits;
  }

  /** Makes a gradient of this rank's batches wait for a later reduction. Shape: whole. */
  keepLocal(gradient: Node): void {
    this.keepReplacement();
    this.#waits = true;
    this.#local.add(this.narrow(gradient));
  }

  /**
   * Takes the gradient to average over the ranks: that of a pass, if any, plus those that have waited. Zeros if there
   * is neither. Shape: whole -> whole.
   */
  takeLocal(gradient: Node | null): Node {
    this.keepReplacement();
    this.#waits = false;
    const own = gradient === null ? null : this.narrow(gradient);
    if (this.keepsWholeGradient && own !== null) this.#local.add(own);
    const all = this.keepsWholeGradient ? this.#local.node : sumOf(this.#local.take(), own);
    return all ?? this.narrow(zeros(this.#whole, 'f32').node);
  }

  /** Adds this rank's part of an average. `again` makes it once more. Shapes: part, -> part. */
  takeReduced(average: Node, again: () => Node): void {
    if (this.keepsWholeGradient) this.#replaceReduced({ average, again });
    else this.#gradient.addReduced(average);
    this.#gradient.runHooks();
  }

  #replaceReduced(reduced: Reduced | null): void {
    if (this.#reduced !== null) dropReduction(this.#reduced.average);
    if (reduced !== null) keepAverage(reduced.average);
    this.#reduced = reduced;
  }

  /**
   * Whether the whole gradient of this rank's batches is kept until zeroGrad(). Otherwise its part of the average is
   * kept.
   */
  get keepsWholeGradient(): boolean {
    return false;
  }

  /** Whether a replacement of the gradient is computed where it is read, and not kept. */
  protected get replacesLate(): boolean {
    return this.keepsWholeGradient;
  }

  /** The replacement also stands for the gradients that were reduced. */
  protected override keepReplacement(): boolean {
    const isKept = super.keepReplacement();
    if (isKept) {
      this.#replaceReduced(null);
      this.#local.take();
    }
    return isKept;
  }

  /** `check` throws if this rank's part of the gradient is not the one that an update takes. */
  checkUpdatesBy(check: (update: Update) => void): void {
    this.#checkUpdate = check;
  }

  override get keptGradients(): readonly Node[] {
    const { node } = this.#local;
    return node === null ? super.keptGradients : [...super.keptGradients, node];
  }

  /** Also pages the gradient that waits to be reduced over the ranks. */
  override pageGradient(name: string, store: PageStore): void {
    super.pageGradient(name, store);
    this.#local.pages = { store: currentSession().numberOf(store), name: `${name} local` };
  }

  override zeroGrad(): void {
    super.zeroGrad();
    this.#local.clear();
    this.#waits = false;
    this.#replaceReduced(null);
  }
}

function waitingError(shape: Shape): TensorStateError {
  return new TensorStateError(
    {
      asked: `to replace the gradient of a part of shape ${formatShape(shape)}`,
      found: 'gradients of passes inside noSync wait to be added to it',
      todo: 'Clip and unscale gradients after the last backward(), which is outside of noSync',
    },
    { shape },
  );
}
