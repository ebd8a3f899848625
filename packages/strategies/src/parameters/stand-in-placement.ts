import {
  type DType,
  gradientHookError,
  type Node,
  Parameter,
  type ParameterPart,
  type Placement,
  type Shape,
  withoutValues,
} from '@shardwise/core/extend';
import { LayerPlacement } from './layer-placement.ts';

/**
 * How a strategy makes what expressions read from the part that a rank keeps. The whole of it is the parameter that the
 * strategy was applied to, which may be the part of a layer.
 */
export interface PartReader {
  readonly part: ParameterPart;
  /** Returns the node that one expression outside of forward passes reads, at which the backward pass ends. Shape: -> whole. */
  readOutsideForward(): Node;
  /**
   * Returns the node whose value is sent to a rank whose stage does not have the parameter. Its value is that of a
   * forward pass here, and the gradient of the other rank arrives at it. Shape: -> whole.
   */
  readForStage(): Node;
  /** Makes the whole of a node with the layout of the part. No gradient flows through it. Shape: part -> whole. */
  wholeOf(part: Node): Node;
  /** Shape: whole -> part. */
  partOf(whole: Node): Node;
}

/**
 * The placement of a parameter that a strategy has put in the place of another one. Forward passes read the node that the
 * strategy has made for them. Expressions outside of forward passes read a node of their own.
 */
export class StandInPlacement<Reader extends PartReader> implements Placement<ParameterPart> {
  readonly reader: Reader;
  /** How the parameter is the part of a layer that other axes shard. Null: it is no such part. */
  readonly layer: LayerPlacement | null;
  /** What this layer computes with. Null: it is no part of a layer. */
  readonly inLayer: Parameter | null;
  #inForward: (() => Node) | null = null;

  /** `original` is the parameter that this one replaces. */
  constructor(reader: Reader, { placement }: Parameter) {
    this.reader = reader;
    this.layer = layerOf(placement);
    this.inLayer = this.layer?.partInLayer(this.#withoutLayer()) ?? null;
  }

  get part(): ParameterPart {
    return this.reader.part;
  }

  get dtype(): DType {
    return this.#inForward?.().dtype ?? this.part.dtype;
  }

  read(): Node {
    const own = this.#readOwn();
    return this.layer?.wholeFrom(own) ?? own;
  }

  wholeOf(part: Node): Node {
    const own = this.reader.wholeOf(part);
    return this.layer?.wholeOf(own) ?? own;
  }

  partOf(whole: Node): Node {
    return this.reader.partOf(this.layer?.partOf(whole) ?? whole);
  }

  hookError(shape: Shape): Error {
    return gradientHookError(shape);
  }

  /**
   * Makes expressions read the node that `own` returns, from now on. With null, each reads a node of its own. Shape:
   * that of the original.
   */
  useInForward(own: (() => Node) | null): void {
    this.#inForward = own;
  }

  /** The leaves below everything on this rank that reads the parameter. */
  get leaves(): readonly Node[] {
    const { contents, stored } = this.part;
    return [contents, stored];
  }

  #readOwn(): Node {
    return withoutValues(() => this.#inForward?.() ?? this.reader.readOutsideForward());
  }

  /** How the part of the layer is placed. */
  #withoutLayer(): Placement<ParameterPart> {
    const { reader } = this;
    const dtypeNow = (): DType => this.dtype;
    return {
      part: reader.part,
      get dtype() {
        return dtypeNow();
      },
      read: () => this.#readOwn(),
      wholeOf: (part) => reader.wholeOf(part),
      partOf: (whole) => reader.partOf(whole),
      hookError: gradientHookError,
    };
  }
}

/** Makes the parameter that stands for another one. */
export function standIn<Reader extends PartReader>(
  original: Parameter,
  placement: StandInPlacement<Reader>,
): Parameter {
  const { dtype } = placement.part;
  return new Parameter(null, original.shape, { dtype, placement });
}

function layerOf(placement: Parameter['placement']): LayerPlacement | null {
  if (placement instanceof StandInPlacement) return placement.layer;
  return placement instanceof LayerPlacement ? placement : null;
}
