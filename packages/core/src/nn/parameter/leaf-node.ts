import { elementCount, formatShape } from '../../base/shape.ts';
import { inputNode } from '../../graph/create-node.ts';
import { requireSizes } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { type DType, dtypes, type Shape } from '../../spec/dtype.ts';
import { ShapeError } from '../../spec/errors.ts';
import { type HostData, toBytes } from '../../tensor/host-data.ts';

/** Makes a leaf without contents, which ranks have in parts. */
export function absentNode(shape: Shape, dtype: DType): Node {
  return inputNode(shape, dtype, { kind: 'freed', by: 'the sharding of it over ranks' });
}

/** Makes a leaf that owns `data`. `kind` says what it is. Throws ShapeError if the number of elements is not that of the shape. */
export function leafNode(kind: string, data: HostData, shape: Shape, dtype: DType): Node {
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
