import { requireSizes } from '../../graph/infer-checks.ts';
import { inputNode } from '../../graph/create-node.ts';
import type { Node } from '../../graph/node.ts';
import { freeNode } from '../../graph/ownership.ts';
import { currentScope, within } from '../../ambient.ts';
import { elementCount, formatShape } from '../../base/shape.ts';
import { type DType, dtypeNames, dtypes, type Shape } from '../../spec/dtype.ts';
import type { Layout } from '../../spec/layout.ts';
import { ShapeError } from '../../spec/errors.ts';
import { type HostData, toBytes } from '../../tensor/host-data.ts';
import { Tensor } from '../../tensor/tensor.ts';
import type { InitialPart, KeepPart } from './initial-part.ts';
import { constructions } from '../construction/constructions.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

/** Options of `Parameter`. */
export interface ParameterOptions {
  /** The dtype. Default: f32. */
  readonly dtype?: DType;
  /** Whether the parameter trains. Default: true. */
  readonly requiresGrad?: boolean;
}

const parameterRules: OptionRules<ParameterOptions> = {
  dtype: option.oneOf(...dtypeNames),
  requiresGrad: option.flag,
};

/**
 * Parameters made inside `body` keep only a part of their initial values, one parameter at a time. So a model
 * can be built that no rank has room for. A strategy must make them whole before use. Throws ConfigError for a
 * body that returns a promise.
 */
export function constructParts<T>(keepPart: KeepPart, body: () => T): T {
  return within('constructParts', { keepPart }, body);
}

/**
 * A leaf that a module trains. It owns the typed array that it is made of. After its first use, its values live
 * on the device and the array is empty. Throws ShapeError if the number of elements is not that of the shape,
 * and TensorStateError for an array that another parameter has emptied.
 */
export class Parameter extends Tensor {
  readonly kind = 'parameter';
  /** The part of the contents that was kept, if the parameter was made inside constructParts. */
  initialPart: InitialPart | null = null;

  /** Without `data`, the parameter has no contents of its own. A subclass then determines where they are. */
  constructor(data: HostData | null, shape: Shape, options: ParameterOptions = {}) {
    checkOptions('a Parameter', options, parameterRules);
    const { keepPart, newParameters } = currentScope();
    const format = options.dtype === undefined ? newParameters : null;
    const { dtype = format?.dtype ?? 'f32' } = options;
    const own = data === null ? null : (format?.of(data) ?? data);
    super(own === null ? absent(shape, dtype) : leaf('parameter', own, shape, dtype));
    if (own === null) return;
    this.initialPart = keepPart?.(toBytes(own), { shape, dtype }) ?? null;
    if (this.initialPart !== null) freeNode(this.contents, 'its construction in parts');
    this.makeResident();
    this.requiresGrad_(options.requiresGrad ?? true);
    constructions.note(this);
  }
}

/** Options of `ParameterPart`. */
export interface ParameterPartOptions extends ParameterOptions {
  readonly wholeShape: Shape;
  /** How the part lies on the mesh: which part of the whole each rank has. */
  readonly layout: Layout;
}

const partRules: OptionRules<ParameterPartOptions> = {
  ...parameterRules,
  wholeShape: option.required(option.listOf(option.count)),
  layout: option.required(option.object('a Layout')),
};

/** The leaf that this rank keeps of a parameter that is sharded over ranks. Optimizers update it. */
export class ParameterPart extends Tensor {
  readonly #wholeShape: Shape;
  readonly #layout: Layout;

  /**
   * Without `data`, the part has no contents: another rank holds the values, or only a part of them was kept
   * (constructParts).
   */
  constructor(data: HostData | null, shape: Shape, options: ParameterPartOptions) {
    checkOptions('a ParameterPart', options, partRules);
    const { dtype = 'f32', requiresGrad = true, wholeShape, layout } = options;
    super(data === null ? absent(shape, dtype) : leaf('part of a parameter', data, shape, dtype));
    this.#wholeShape = wholeShape;
    this.#layout = layout;
    this.makeResident();
    this.requiresGrad_(requiresGrad);
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
}

/** Options of `BufferTensor`. */
export interface BufferOptions {
  /** The dtype. Default: f32. */
  readonly dtype?: DType;
  /** Whether the buffer is part of the state dict. Default: true. */
  readonly persistent?: boolean;
}

const bufferRules: OptionRules<BufferOptions> = {
  dtype: option.oneOf(...dtypeNames),
  persistent: option.flag,
};

/** A tensor that a module keeps but does not train, such as running statistics. */
export class BufferTensor extends Tensor {
  readonly kind = 'buffer';
  readonly persistent: boolean;

  constructor(data: HostData, shape: Shape, options: BufferOptions = {}) {
    checkOptions('a BufferTensor', options, bufferRules);
    super(leaf('buffer', data, shape, options.dtype ?? 'f32'));
    this.persistent = options.persistent ?? true;
    this.makeResident();
    constructions.note(this);
  }
}

function absent(shape: Shape, dtype: DType): Node {
  return inputNode(shape, dtype, { kind: 'freed', by: 'the sharding of it over ranks' });
}

function leaf(kind: string, data: HostData, shape: Shape, dtype: DType): Node {
  requireSizes(kind, shape);
  const bytes = toBytes(data);
  const elements = bytes.byteLength / dtypes[dtype].bytes;
  if (elements !== elementCount(shape)) {
    throw new ShapeError(
      {
        asked: `a ${dtype} ${kind} of shape ${formatShape(shape)} (${elementCount(shape)} elements)`,
        found: `${elements} elements`,
        todo: 'Give as many elements as the shape has',
      },
      { shape, dtype, elements },
    );
  }
  return inputNode(shape, dtype, { kind: 'host', bytes, owned: true });
}

/** Whether a value is a tensor that modules own. */
export function isOwnedTensor(value: unknown): value is Parameter | BufferTensor {
  return value instanceof Parameter || value instanceof BufferTensor;
}
