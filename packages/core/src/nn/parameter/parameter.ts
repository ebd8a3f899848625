import { currentScope, within } from '../../ambient.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { freeNode } from '../../graph/ownership.ts';
import { type DType, dtypeNames, type Shape } from '../../spec/dtype.ts';
import { type HostData, toBytes } from '../../tensor/host-data.ts';
import type { Placement } from '../../tensor/placement.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { constructions } from '../construction/constructions.ts';
import type { InitialPart, KeepPart } from './initial-part.ts';
import { absentNode, leafNode } from './leaf-node.ts';

/** Options of `Parameter`. */
export interface ParameterOptions {
  /** The dtype. Default: f32. */
  readonly dtype?: DType;
  /** Whether the parameter trains. Default: true. */
  readonly requiresGrad?: boolean;
  /**
   * How the ranks share the parameter out, from a strategy, whose part then has the contents and says whether it trains.
   * Default: this rank has all of it.
   */
  readonly placement?: Placement<Tensor>;
}

const parameterRules: OptionRules<ParameterOptions> = {
  dtype: option.oneOf(...dtypeNames),
  requiresGrad: option.flag,
  placement: option.object('a Placement'),
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
  /** How the ranks share the parameter out. Null: this rank has all of it. */
  readonly placement: Placement<Tensor> | null;
  /** The part of the contents that was kept, if the parameter was made inside constructParts. */
  initialPart: InitialPart | null = null;

  /** `data` is null for a parameter with a placement. Its part has the contents. */
  constructor(data: HostData | null, shape: Shape, options: ParameterOptions = {}) {
    checkOptions('a Parameter', options, parameterRules);
    const { keepPart, newParameters } = currentScope();
    const format = options.dtype === undefined ? newParameters : null;
    const { dtype = format?.dtype ?? 'f32', placement = null } = options;
    const own = data === null ? null : (format?.of(data) ?? data);
    const contents =
      own === null ? absentNode(shape, dtype) : leafNode('parameter', own, shape, dtype);
    super(contents, null, placement);
    this.placement = placement;
    if (own === null) return;
    this.initialPart = keepPart?.(toBytes(own), { shape, dtype }) ?? null;
    if (this.initialPart !== null) freeNode(this.contents, 'its construction in parts');
    this.makeResident();
    this.requiresGrad_(options.requiresGrad ?? true);
    constructions.note(this);
  }

  override get part(): Tensor {
    return this.placement?.part ?? this;
  }

  override wholeOf(part: Tensor): Tensor {
    return this.placement === null ? part : new Tensor(this.placement.wholeOf(part.node));
  }

  override partOf(whole: Tensor): Tensor {
    return this.placement === null ? whole : new Tensor(this.placement.partOf(whole.node));
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
    super(leafNode('buffer', data, shape, options.dtype ?? 'f32'));
    this.persistent = options.persistent ?? true;
    this.makeResident();
    constructions.note(this);
  }
}

/** Whether a value is a tensor that modules own. */
export function isOwnedTensor(value: unknown): value is Parameter | BufferTensor {
  return value instanceof Parameter || value instanceof BufferTensor;
}
