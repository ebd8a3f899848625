import { inputNode } from '../graph/node.ts';
import { elementCount, formatShape } from '../shape.ts';
import { type DType, dtypes, type Shape } from '../spec/dtype.ts';
import { ShapeError } from '../spec/errors.ts';
import { type HostData, toBytes } from '../tensor/host-data.ts';
import { Tensor } from '../tensor/tensor.ts';

export interface ParameterOptions {
  /** Default f32. */
  readonly dtype?: DType;
  /** Default true. */
  readonly requiresGrad?: boolean;
}

/**
 * A leaf that a module trains. It owns the typed array it is made of, and lives on the device from
 * its first use on. Throws ShapeError where the number of elements is not that of the shape.
 */
export class Parameter extends Tensor {
  readonly kind = 'parameter';

  constructor(data: HostData, shape: Shape, options: ParameterOptions = {}) {
    super(leaf('parameter', data, shape, options.dtype ?? 'f32'));
    this.makeResident();
    this.requiresGrad_(options.requiresGrad ?? true);
  }
}

export interface BufferOptions {
  /** Default f32. */
  readonly dtype?: DType;
  /** Whether it is part of the state dict; default true. */
  readonly persistent?: boolean;
}

/** A leaf that a module keeps but does not train, as running statistics. */
export class BufferTensor extends Tensor {
  readonly kind = 'buffer';
  readonly persistent: boolean;

  constructor(data: HostData, shape: Shape, options: BufferOptions = {}) {
    super(leaf('buffer', data, shape, options.dtype ?? 'f32'));
    this.persistent = options.persistent ?? true;
    this.makeResident();
  }
}

function leaf(kind: string, data: HostData, shape: Shape, dtype: DType): Tensor['node'] {
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
  return inputNode(shape, dtype, { kind: 'host', bytes });
}
