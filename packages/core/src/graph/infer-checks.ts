import { kindOf } from '../base/dtype-kind.ts';
import { elementCount, formatShape, sameShape, sizeAt } from '../base/shape.ts';
import type { DType, Shape, ValueType } from '../spec/dtype.ts';
import { DTypeError, ShapeError } from '../spec/errors.ts';

export function first(inputs: readonly ValueType[]): ValueType {
  return at(inputs, 0);
}

export function at(inputs: readonly ValueType[], index: number): ValueType {
  const input = inputs[index];
  if (input === undefined)
    throw new RangeError(`input ${index} of an op with ${inputs.length} inputs`);
  return input;
}

export function requireDType(op: string, input: ValueType, allowed: readonly DType[]): void {
  const { dtype } = input;
  if (allowed.includes(dtype)) return;
  const like = allowed.find((other) => kindOf(other) === kindOf(dtype)) ?? allowed[0];
  throw new DTypeError(
    {
      asked: `${op} of ${article(dtype)} ${dtype} tensor of shape ${formatShape(input.shape)}`,
      found: `${op} takes ${allowed.join(' or ')}`,
      todo: `Convert it first, for example with .to('${like}')`,
    },
    { op, dtype, allowed },
  );
}

/** The article for the name of a dtype as it is spoken. */
export function article(dtype: DType): 'a' | 'an' {
  return dtype === 'bool' || dtype === 'bf16' || dtype === 'u8' ? 'a' : 'an';
}

export function shapeFault(
  op: string,
  inputs: readonly ValueType[],
  found: string,
  todo: string,
): ShapeError {
  const shapes = inputs.map((input) => input.shape);
  return new ShapeError(
    { asked: `${op} of shapes ${shapes.map(formatShape).join(', ')}`, found, todo },
    { op, shapes },
  );
}

export const floats: readonly DType[] = ['f32', 'f64', 'f16', 'bf16'];
/** The dtypes that arithmetic takes. i64 is only stored, moved and cast. */
export const numbers: readonly DType[] = [...floats, 'i32', 'u8'];
export const bools: readonly DType[] = ['bool'];

/** Infers an op of one input. */
export const unary =
  (allowed: readonly DType[]) =>
  (_: unknown, inputs: readonly ValueType[], op: string): ValueType => {
    const x = first(inputs);
    requireDType(op, x, allowed);
    return x;
  };

export function requireSameDType(op: string, inputs: readonly ValueType[]): void {
  const a = at(inputs, 0);
  const b = inputs.find(({ dtype }) => dtype !== a.dtype);
  if (b === undefined) return;
  throw new DTypeError(
    {
      asked: `${op} of ${a.dtype} ${formatShape(a.shape)} and ${b.dtype} ${formatShape(b.shape)}`,
      found: 'two dtypes',
      todo: `Convert one of them with .to('${a.dtype}') or .to('${b.dtype}')`,
    },
    { op, dtypes: inputs.map((input) => input.dtype) },
  );
}

export function requireSame(op: string, inputs: readonly ValueType[]): void {
  requireSameDType(op, inputs);
  const { shape } = at(inputs, 0);
  if (inputs.every((input) => sameShape(input.shape, shape))) return;
  throw shapeFault(op, inputs, 'shapes that differ', 'Expand them to one shape');
}

/** Infers an op of inputs of one shape and dtype. */
export const binary =
  (allowed: readonly DType[]) =>
  (_: unknown, inputs: readonly ValueType[], op: string): ValueType => {
    requireDType(op, first(inputs), allowed);
    requireSame(op, inputs);
    return first(inputs);
  };

/** Infers a comparison. */
export function compare(_: unknown, inputs: readonly ValueType[], op: string): ValueType {
  requireDType(op, first(inputs), numbers);
  requireSame(op, inputs);
  return { shape: first(inputs).shape, dtype: 'bool' };
}

export function without(shape: Shape, dims: readonly number[]): Shape {
  return shape.filter((_, dim) => !dims.includes(dim));
}

export function withSize(shape: Shape, dim: number, size: number): Shape {
  return shape.map((old, d) => (d === dim ? size : old));
}

/**
 * Infers a row-wise op. `vectors` are the inputs whose size must equal the last dim of the first input, and `tensors`
 * those that must have its shape.
 */
export const rowwise =
  (vectors: readonly number[], tensors: readonly number[]) =>
  (_: unknown, inputs: readonly ValueType[], op: string): ValueType => {
    const x = first(inputs);
    for (let i = 0; i < inputs.length; i++) requireDType(op, at(inputs, i), floats);
    const size = x.shape.at(-1);
    if (size === undefined)
      throw shapeFault(op, inputs, 'a scalar', 'Use a tensor with at least one dim');
    for (const i of vectors) {
      if (!sameShape(at(inputs, i).shape, [size])) {
        throw shapeFault(
          op,
          inputs,
          `a last dim of size ${size} and a weight or bias of shape ${formatShape(at(inputs, i).shape)}`,
          `Use weights of shape [${size}], or x of shape [.., ${elementCount(at(inputs, i).shape)}]`,
        );
      }
    }
    for (const i of tensors) {
      if (!sameShape(at(inputs, i).shape, x.shape))
        throw shapeFault(op, inputs, 'shapes that differ', 'Use equal shapes');
    }
    return x;
  };

/** Infers a sum of rows of two tensors of one shape. */
export function rowVector(params: unknown, inputs: readonly ValueType[], op: string): ValueType {
  const x = rowwise([], [1])(params, inputs, op);
  return { shape: [sizeAt(x.shape, x.shape.length - 1)], dtype: x.dtype };
}

/** Throws ShapeError for sizes that no tensor has. */
export function requireSizes(op: string, shape: Shape): void {
  // NaN stands for a number of rows that only a run knows. Whether an input has such rows is checked in row-counts.ts.
  if (
    shape.every(
      (size, dim) => (Number.isSafeInteger(size) && size >= 0) || (dim === 0 && Number.isNaN(size)),
    )
  ) {
    return;
  }
  throw new ShapeError(
    {
      asked: `${op} of shape ${formatShape(shape)}`,
      found: 'a size that is not a whole number of 0 or more',
      todo: 'Use whole numbers; check divisions that do not come out even',
    },
    { op, shape },
  );
}

/** The shape of one of `parts` equal parts along a dim. Throws ShapeError if the dim is not a multiple of `parts`. */
export function divided(
  op: string,
  inputs: readonly ValueType[],
  dim: number,
  parts: number,
  shape: Shape,
): Shape {
  const size = sizeAt(shape, dim);
  if (size % parts !== 0) {
    throw shapeFault(
      op,
      inputs,
      `dim ${dim} of size ${size} for ${parts} ranks`,
      `Pad it to a multiple of ${parts}`,
    );
  }
  return withSize(shape, dim, size / parts);
}

/** Infers an op whose result is like its first input. */
export const same = (_: unknown, inputs: readonly ValueType[]): ValueType => first(inputs);
