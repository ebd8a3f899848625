import { formatShape } from '../base/shape.ts';
import { checkOptions } from '../base/check-options.ts';
import type { Shape } from '../spec/dtype.ts';
import { ConfigError, describeValue, DTypeError, ShapeError } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import type { Node } from '../graph/node.ts';
import { TensorHandle } from './handle.ts';

// TypeScript's types refuse these mistakes. These checks give callers from plain JavaScript a message at the call,
// instead of an error from deep inside.

/** Throws DTypeError for a value that is not a tensor, such as an NDArray of a batch. `tensors` is by argument name. */
export function requireTensors(
  operation: string,
  tensors: Readonly<Record<string, unknown>>,
): void {
  for (const [name, value] of Object.entries(tensors)) {
    if (value instanceof TensorHandle) continue;
    const isArray = typeof value === 'object' && value !== null && 'data' in value;
    throw new DTypeError(
      {
        asked: `${operation} with ${name}`,
        found: `${isArray ? 'an NDArray' : describeValue(value)} in the place of a tensor`,
        todo: isArray
          ? 'Make one of it: fromArray(array)'
          : 'Make one: tensor([…]), fromArray(array)',
      },
      { operation, argument: name },
    );
  }
}

/** Throws DTypeError for an operand that is neither a tensor nor a number. */
function requireOperand(operand: unknown): void {
  if (typeof operand === 'number' || operand instanceof TensorHandle) return;
  throw new DTypeError(
    {
      asked: 'an operation with another operand',
      found: `${describeValue(operand)}, neither a tensor nor a number`,
      todo: 'Give a number, or make a tensor: tensor([…]), fromArray(array)',
    },
    {},
  );
}

/** Returns the node of a tensor, or the number itself. Throws DTypeError for any other operand. */
export function operandOf(operand: TensorHandle | number): Node | number {
  requireOperand(operand);
  return typeof operand === 'number' ? operand : operand.node;
}

/** Throws ShapeError for sizes or dims that are not a list, for example if they were passed as separate arguments. */
export function requireList(operation: string, what: string, list: unknown): void {
  if (Array.isArray(list)) return;
  const first = typeof list === 'number' ? `${list}, …` : '…';
  throw new ShapeError(
    {
      asked: `${operation} with ${what} ${describeValue(list)}`,
      found: 'no list',
      todo: `Write all ${what} as one list: [${first}]`,
    },
    { operation },
  );
}

/** Returns one dim or several dims as a list. Throws ShapeError for anything else. */
export function listOf(operation: string, dims: number | readonly number[]): readonly number[] {
  if (typeof dims === 'number') return [dims];
  requireList(operation, 'dims', dims);
  return dims;
}

/** Throws ConfigError if both bounds are null, or if one is neither null nor a number. */
export function requireBound(low: unknown, high: unknown): void {
  const bounds = [low, high].filter((bound) => bound !== null);
  if (bounds.length > 0 && bounds.every((bound) => typeof bound === 'number')) return;
  throw new ConfigError({
    asked: 'clamp',
    found: 'no bounds that are numbers',
    todo: 'Write clamp(0) for a lower bound, and clamp(null, 1) for an upper one',
  });
}

/** Throws ShapeError unless both sides have a whole number for each dim. */
export function requirePadding(
  shape: Shape,
  sides: { readonly before: readonly number[]; readonly after: readonly number[] },
): void {
  for (const [name, counts] of Object.entries(sides)) {
    requireList('pad', `numbers ${name}`, counts);
    const fits = counts.length === shape.length && counts.every(Number.isSafeInteger);
    if (fits) continue;
    throw new ShapeError(
      {
        asked: `pad of shape ${formatShape(shape)} with ${name} [${counts.join(', ')}]`,
        found: `${counts.length} numbers for ${shape.length} dims`,
        todo: 'Give a whole number of elements for each dim, from the first one on',
      },
      { shape, [name]: counts },
    );
  }
}

/** Returns the index counted from the start of the dim. Throws ShapeError for an index that is out of range. */
export function requireElementAt(shape: Shape, dim: number, index: number, size: number): number {
  const normalized = index < 0 ? index + size : index;
  if (Number.isInteger(index) && normalized >= 0 && normalized < size) return normalized;
  throw new ShapeError(
    {
      asked: `select of element ${index} of dim ${dim} of shape ${formatShape(shape)}`,
      found: `${size} elements there`,
      todo: size === 0 ? 'Use a tensor with elements' : `Use an index from ${-size} to ${size - 1}`,
    },
    { shape, dim, index },
  );
}

const approximations: OptionRules<{ approximate: 'none' | 'tanh' }> = {
  approximate: option.required(option.oneOf('none', 'tanh')),
};

/** Throws ConfigError for an unknown way to compute a GELU. */
export function requireApproximation(of: string, approximate: 'none' | 'tanh'): void {
  checkOptions(of, { approximate }, approximations);
}
