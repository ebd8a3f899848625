import type { Instruction } from '@shardwise/core/spec';
import type { Values } from './values.ts';

/** The least and the greatest number that the elements of an i32 value may be. */
export interface Bounds {
  readonly least: number;
  readonly greatest: number;
}

/** What is known about the elements of an input. Undefined if nothing is known. */
export type InputBounds = (input: number) => Bounds | undefined;

/**
 * The bounds of an i32 value, as far as they follow from the sizes in a program and from the bounds of its inputs.
 * Undefined if they do not follow, as for a value that is cast from floats, or that may have wrapped around.
 */
export function boundsOf(values: Values, id: number, ofInput: InputBounds): Bounds | undefined {
  const known = new Map<number, Bounds | undefined>();
  const of = (value: number): Bounds | undefined => {
    if (values.type(value).dtype !== 'i32') return undefined;
    if (value < values.inputCount) return ofInput(value);
    if (known.has(value)) return known.get(value);
    const instruction = values.instruction(value);
    const bounds = instruction === undefined ? undefined : boundsOfResult(values, instruction, of);
    known.set(value, bounds);
    return bounds;
  };
  return of(id);
}

function boundsOfResult(
  values: Values,
  { op, params, inputs }: Instruction,
  of: (value: number) => Bounds | undefined,
): Bounds | undefined {
  const [first = -1, second = -1, third = -1] = inputs;
  switch (op) {
    case 'constant':
      return within(params.value, params.value);
    case 'iota':
      return within(0, Math.max(0, (params.shape[params.dim] ?? 0) - 1));
    case 'argMax':
    case 'argSort':
      return within(0, Math.max(0, (values.shape(first)[params.dim] ?? 0) - 1));
    case 'cast':
      return values.type(first).dtype === 'bool' ? within(0, 1) : of(first);
    case 'reshape':
    case 'permute':
    case 'expand':
    case 'slice':
    case 'gather':
    case 'indexSelect':
    case 'max':
      return of(first);
    case 'pad':
      return around([of(first), within(params.value, params.value)]);
    case 'concat':
      return around(inputs.map(of));
    case 'where':
      return around([of(second), of(third)]);
    case 'scatter':
      return around([of(first), of(third)]);
    case 'add':
      return combine(of(first), of(second), (a, b) =>
        within(a.least + b.least, a.greatest + b.greatest),
      );
    case 'sub':
      return combine(of(first), of(second), (a, b) =>
        within(a.least - b.greatest, a.greatest - b.least),
      );
    case 'mul':
      return combine(of(first), of(second), (a, b) => {
        const corners = [a.least, a.greatest].flatMap((x) => [x * b.least, x * b.greatest]);
        return within(Math.min(...corners), Math.max(...corners));
      });
    case 'maximum':
      return combine(of(first), of(second), (a, b) =>
        within(Math.max(a.least, b.least), Math.max(a.greatest, b.greatest)),
      );
    case 'minimum':
      return combine(of(first), of(second), (a, b) =>
        within(Math.min(a.least, b.least), Math.min(a.greatest, b.greatest)),
      );
    default:
      return undefined;
  }
}

function within(least: number, greatest: number): Bounds | undefined {
  return least < -(2 ** 31) || greatest >= 2 ** 31 ? undefined : { least, greatest };
}

/** The bounds that hold for the elements of all of the given values. Undefined if one of them has unknown bounds. */
function around(all: readonly (Bounds | undefined)[]): Bounds | undefined {
  const known = all.filter((bounds) => bounds !== undefined);
  if (known.length < all.length || known.length === 0) return undefined;
  return {
    least: Math.min(...known.map(({ least }) => least)),
    greatest: Math.max(...known.map(({ greatest }) => greatest)),
  };
}

function combine(
  a: Bounds | undefined,
  b: Bounds | undefined,
  join: (a: Bounds, b: Bounds) => Bounds | undefined,
): Bounds | undefined {
  return a === undefined || b === undefined ? undefined : join(a, b);
}
