import { formatShape } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import { ShapeError } from '../../spec/errors.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import type { Tensor } from '../../tensor/tensor.ts';

/** An expected dim: a letter for any size, or a size and what it counts. `..` at the beginning stands for any dims. */
export type ExpectedDim = string | readonly [counts: string, size: number];

/** An argument of an operation, with the names for messages. */
export interface Argument {
  readonly operation: string;
  readonly name: string;
  readonly value: Tensor;
}

/**
 * Throws DTypeError for a value that is not a tensor, and ShapeError for another number of dims or other sizes than
 * expected. `hint` returns advice for a shape, which is added to the message.
 */
export function requireShape(
  { operation, name, value }: Argument,
  expected: readonly ExpectedDim[],
  hint?: (shape: Shape) => string | undefined,
): void {
  requireTensors(operation, { [name]: value });
  const { shape } = value;
  const isOpen = expected[0] === '..';
  const dims = isOpen ? expected.slice(1) : expected;
  const first = shape.length - dims.length;
  if (isOpen ? first >= 0 : first === 0) {
    const wrong = dims.findIndex((dim, index) => isOther(dim, shape[first + index]));
    if (wrong < 0) return;
    const at = isOpen ? wrong - dims.length : wrong;
    throw misfit(sizeText(dims[wrong], shape[first + wrong], at));
  }
  const least = isOpen ? `${dims.length} or more` : String(dims.length);
  throw misfit(`${countOf(shape.length)} instead of ${least}`);

  function misfit(found: string): ShapeError {
    const use = `Use ${name} of shape [${expected.map(dimText).join(', ')}]`;
    const better = hint?.(shape);
    return new ShapeError(
      {
        asked: `${operation} with ${name} of shape ${formatShape(shape)}`,
        found,
        todo: better === undefined ? use : `${use}; ${better}`,
      },
      { operation, argument: name, shape },
    );
  }
}

function isOther(expected: ExpectedDim | undefined, size: number | undefined): boolean {
  return Array.isArray(expected) && expected[1] !== size;
}

function sizeText(dim: ExpectedDim | undefined, size: number | undefined, at: number): string {
  const [counts, expected] = typeof dim === 'object' ? dim : ['', size];
  return `${size} ${counts} (dim ${at}) instead of ${expected}`;
}

function dimText(dim: ExpectedDim): string {
  return typeof dim === 'string' ? dim : String(dim[1]);
}

function countOf(dims: number): string {
  return dims === 1 ? '1 dim' : `${dims} dims`;
}
