import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Node } from '../../graph/node.ts';
import { type DType, dtypeNames, type Shape } from '../../spec/dtype.ts';
import type { Layout } from '../../spec/layout.ts';
import type { LeafGradient } from '../../tensor/gradient.ts';
import type { HostData } from '../../tensor/host-data.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { absentNode, leafNode } from './leaf-node.ts';

/** How a rank keeps more of a parameter than its part: as a leaf of which the part is computed. */
export interface KeptWhole {
  /** The shape of the part. */
  readonly partShape: Shape;
  /** Returns the part of the contents. Shape: contents -> part. */
  read(contents: Node): Node;
  /** Returns the contents for a new part. Shape: part -> contents. */
  write(part: Node): Node;
}

/** Another copy of a part's values, such as one in fewer bits, which forward passes read. */
export interface PartCopy {
  readonly kept: Tensor;
  /** Stores new values of the part. */
  store(values: Node): void;
  dispose(): void;
}

/** Options of `ParameterPart`. */
export interface ParameterPartOptions {
  /** The dtype. Default: f32. */
  readonly dtype?: DType;
  /** Whether the parameter trains. Default: true. */
  readonly requiresGrad?: boolean;
  readonly wholeShape: Shape;
  /** How the part lies on the mesh: which part of the whole each rank has. */
  readonly layout: Layout;
  /** Collects the gradients. Default: they add up in the dtype and layout of the part. */
  readonly gradient?: LeafGradient;
  /** How the contents have more than the part. Default: they are the part. */
  readonly keptWhole?: KeptWhole;
  /** A copy of the values that follows each update. Default: none. */
  readonly copy?: PartCopy;
  /** What a read of the contents throws, if another rank has them. Updates then do nothing. Default: they are here. */
  readonly elsewhere?: Error;
}

const partRules: OptionRules<ParameterPartOptions> = {
  dtype: option.oneOf(...dtypeNames),
  requiresGrad: option.flag,
  wholeShape: option.required(option.listOf(option.count)),
  layout: option.required(option.object('a Layout')),
  gradient: option.object('a LeafGradient'),
  keptWhole: option.object('a KeptWhole'),
  copy: option.object('a PartCopy'),
  elsewhere: option.instanceOf(Error),
};

/** The leaf that this rank keeps of a parameter that ranks share out. Optimizers update it. */
export class ParameterPart extends Tensor {
  readonly #wholeShape: Shape;
  readonly #layout: Layout;
  readonly #keptWhole: KeptWhole | null;
  readonly #copy: PartCopy | null;
  /** Whether this rank has the contents. */
  readonly isHere: boolean;

  /**
   * Without `data`, the part has no contents: another rank holds the values, or only a part of them was kept
   * (constructParts). Shape: data that of the contents.
   */
  constructor(data: HostData | null, shape: Shape, options: ParameterPartOptions) {
    checkOptions('a ParameterPart', options, partRules);
    const { dtype = 'f32', requiresGrad = true, wholeShape, layout, gradient, elsewhere } = options;
    const contents =
      data === null
        ? absentNode(shape, dtype)
        : leafNode('part of a parameter', data, shape, dtype);
    super(contents, gradient ?? null);
    this.#wholeShape = wholeShape;
    this.#layout = layout;
    this.#keptWhole = options.keptWhole ?? null;
    this.#copy = options.copy ?? null;
    this.isHere = elsewhere === undefined;
    this.makeResident();
    this.requiresGrad_(requiresGrad);
    if (elsewhere !== undefined) contents.value = { kind: 'failed', error: elsewhere };
    this.#copy?.store(contents);
  }

  /** The shape of the tensor that the ranks hold together. */
  override get wholeShape(): Shape {
    return this.#wholeShape;
  }

  /** How this part lies on the mesh. */
  override get layout(): Layout {
    const { varyingOver } = this;
    return varyingOver.length === 0 ? this.#layout : { ...this.#layout, varying: varyingOver };
  }

  override get shape(): Shape {
    return this.#keptWhole?.partShape ?? this.contents.shape;
  }

  override get node(): Node {
    return this.#keptWhole?.read(this.contents) ?? this.contents;
  }

  /** The values that forward passes read and this rank keeps. The optimizer updates `contents`. */
  get stored(): Node {
    return this.#copy?.kept.contents ?? this.contents;
  }

  /** Stores this rank's part of new contents. A part that another rank has stays as it is. Shape: value part. */
  override store(value: Node): this {
    if (!this.isHere) return this;
    super.store(this.#keptWhole?.write(value) ?? value);
    this.#copy?.store(value);
    return this;
  }

  override async realize(): Promise<this> {
    return this.isHere ? super.realize() : this;
  }

  override dispose(): void {
    super.dispose();
    this.#copy?.dispose();
  }
}
