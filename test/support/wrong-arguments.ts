/** A correct argument of a call, and the wrong values that plain JavaScript may pass instead. */
export interface Argument {
  readonly given: unknown;
  readonly wrong: readonly unknown[];
  /** Whether the argument may be left out. */
  readonly isOptional?: boolean;
}

/** A call with all of its arguments, including optional ones. */
export interface Call {
  readonly call: (...given: never[]) => unknown;
  readonly takes: readonly Argument[];
  /** Whether any number of further arguments is allowed. */
  readonly isOpen?: boolean;
}

const strange: readonly unknown[] = [null, {}, (): number => 1];
const notNumbers: readonly unknown[] = [...strange, '1', true, [[1]]];

export const tensor = (given: unknown): Argument => ({ given, wrong: [...notNumbers, 1] });
/** An argument that is a tensor or a number. */
export const operand = (given: unknown): Argument => ({ given, wrong: notNumbers });
export const number = (given: number): Argument => ({ given, wrong: notNumbers });
/** An argument that is a number other than NaN. */
export const setting = (given: number): Argument => ({ given, wrong: [...notNumbers, Number.NaN] });
export const whole = (given: number): Argument => ({
  given,
  wrong: [...notNumbers, Number.NaN, given + 0.5],
});
export const flag = (given: boolean): Argument => ({ given, wrong: [...strange, 'no', 1, 0] });
export const text = (given: string): Argument => ({
  given,
  wrong: [...strange, 1, true, 'surprise'],
});
/** An argument that is a list of integers. */
export const list = (given: readonly number[]): Argument => ({
  given,
  wrong: [...strange, 1, true, '1', given.map(String), given.map((size) => size + 0.5)],
});
/** An argument that is a dim or several dims. */
export const dims = (given: number | readonly number[]): Argument => ({
  given,
  wrong: [...strange, '1', true, ['0'], [0.5], 0.5, Number.NaN],
});
export const tensors = (given: readonly unknown[]): Argument => ({
  given,
  wrong: [...notNumbers, 1, given.map(() => '1'), given[0]],
});
export const callback = (given: (...inputs: never[]) => unknown): Argument => ({
  given,
  wrong: [null, {}, '1', 1, true],
});
export const options = (given: object): Argument => ({
  given,
  wrong: [null, () => 1, '1', 1, true, [], { surprise: 1 }],
});
/** An argument that is an object, but not a table of options. */
export const object = (given: unknown): Argument => ({ given, wrong: [null, 1, true, '1'] });
export const optional = (argument: Argument): Argument => ({ ...argument, isOptional: true });

function show(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'string') return `'${value}'`;
  if (Array.isArray(value)) return `[${value.map(show).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  return value.constructor === Object ? JSON.stringify(value) : value.constructor.name;
}

/** Yields each call with one argument wrong, missing or too many, and the text that shows it. */
function* wrongCalls({
  takes,
  isOpen = false,
}: Call): Generator<[shown: string, given: unknown[]]> {
  const right = takes.map(({ given }) => given);
  for (const [place, { wrong, isOptional = false }] of takes.entries()) {
    for (const value of isOptional ? wrong : [...wrong, undefined]) {
      yield [`argument ${place + 1}: ${show(value)}`, right.with(place, value)];
    }
  }
  if (isOpen) return;
  for (const value of [{ alpha: 2 }, true]) yield [`one more: ${show(value)}`, [...right, value]];
}

/** Returns the wrong calls that did not fail as expected, with the error that they threw, if any. */
export async function unnoticed(
  call: Call,
  isExpected: (error: unknown) => boolean,
): Promise<readonly string[]> {
  const silent: string[] = [];
  for (const [shown, given] of wrongCalls(call)) {
    try {
      await call.call(...(given as never[]));
      silent.push(shown);
    } catch (error) {
      if (!isExpected(error)) silent.push(`${shown} (${String(error)})`);
    }
  }
  return silent;
}
