import {
  DividedParameter,
  type DType,
  type HostData,
  type Layout,
  localShape,
  type Node,
  noGrad,
  ownPlace,
  ParameterPart,
  type Shape,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import { shardOf, unshard } from '../layout/redistribute.ts';

export interface LayerParameterOptions {
  readonly wholeShape: Shape;
  /** What part of the whole each rank computes with. */
  readonly layout: Layout;
  readonly dtype: DType;
  readonly requiresGrad: boolean;
}

/**
 * A parameter of whose layer each rank computes a part: within the forward pass of the layer it stands for
 * this rank's part, and elsewhere for the whole, which the ranks are taken to use all alike.
 */
export class LayerParameter extends DividedParameter {
  readonly #part: ParameterPart;
  #layers = 0;

  /** Without `data`, as all that there is of the part is a part of it (constructSharded). Shape: data part. */
  constructor(data: HostData | null, options: LayerParameterOptions) {
    const { wholeShape, layout } = options;
    const part = new ParameterPart(data, localShape(wholeShape, layout, ownPlace), options);
    super(wholeShape, part);
    this.#part = part;
  }

  override get part(): ParameterPart {
    return this.#part;
  }

  override get node(): Node {
    this.checkNotReplaced();
    return this.seen(this.#part.node);
  }

  override get shape(): Shape {
    return this.#layers > 0 ? this.#part.shape : super.shape;
  }

  /** What expressions read, made of an expression of the part. Shape: part -> part or whole. */
  seen(part: Node): Node {
    return this.#layers > 0 ? part : withoutValues(() => this.#join(new Tensor(part))).node;
  }

  override wholeOf(part: Tensor): Tensor {
    return noGrad(() => this.#join(part));
  }

  override partOf(whole: Tensor): Tensor {
    return shardOf(whole, this.#part.layout);
  }

  /** It stands for the part until `leaveLayer`; see `inLayer`. */
  enterLayer(): void {
    this.#layers++;
  }

  leaveLayer(): void {
    this.#layers--;
  }

  /** Its gradient is each rank's part of that of the whole, which all have alike. Shape: part -> whole. */
  #join(part: Tensor): Tensor {
    return unshard(part, this.#part.layout, this.#part.wholeShape);
  }
}
