// The few assertions of the suites, which run where there is no test runner and no Node.

/** Throws where two values differ: numbers as Object.is says, lists and plain objects by what they hold. */
export function equal(actual: unknown, expected: unknown, about = ''): void {
  if (isEqual(actual, expected)) return;
  fail(`${show(actual)} where ${show(expected)} is expected`, about);
}

/** Throws where a condition does not hold. */
export function holds(condition: boolean, about: string): asserts condition {
  if (!condition) throw new Error(about);
}

/** Throws where a text does not match. */
export function matches(text: string | undefined, pattern: RegExp, about = ''): void {
  if (text === undefined || !pattern.test(text))
    fail(`${show(text)} does not match ${pattern}`, about);
}

/** What a thrown error must be: of a class, or with a message that matches. */
export type Thrown = RegExp | (abstract new (...args: never[]) => Error);

/** Throws where `body` throws nothing, or another error. */
export function throws(body: () => unknown, expected?: Thrown): void {
  let error: unknown;
  try {
    body();
  } catch (thrown) {
    error = thrown;
  }
  requireError(error, expected);
}

/** Rejects where `promise` does not reject, or does with another error. */
export async function rejects(promise: Promise<unknown>, expected?: Thrown): Promise<void> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  requireError(error, expected);
}

function requireError(error: unknown, expected: Thrown | undefined): void {
  if (!(error instanceof Error)) fail('no error where one is expected', show(expected));
  if (expected === undefined) return;
  if (expected instanceof RegExp) matches(error.message, expected);
  else if (!(error instanceof expected)) {
    throw new Error(`${String(error)} where ${expected.name} is expected`, { cause: error });
  }
}

function fail(what: string, about: string): never {
  throw new Error(about === '' ? what : `${about}: ${what}`);
}

function isEqual(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (ArrayBuffer.isView(a) && ArrayBuffer.isView(b)) {
    return a.constructor === b.constructor && sameItems(itemsOf(a), itemsOf(b));
  }
  if (Array.isArray(a) && Array.isArray(b)) return sameItems(a, b);
  if (!isRecord(a) || !isRecord(b)) return false;
  const [keys, others] = [Object.keys(a), Object.keys(b)];
  return (
    keys.length === others.length &&
    keys.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]))
  );
}

function sameItems(a: ArrayLike<unknown>, b: ArrayLike<unknown>): boolean {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) {
    if (!isEqual(a[index], b[index])) return false;
  }
  return true;
}

function itemsOf(view: ArrayBufferView): ArrayLike<unknown> {
  if (view instanceof DataView) {
    return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  }
  // All others are lists of numbers.
  return view as unknown as ArrayLike<unknown>;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

const shownCharacters = 400;

function show(value: unknown): string {
  if (typeof value === 'function') return value.name;
  if (value instanceof Error || value instanceof RegExp) return String(value);
  const text =
    JSON.stringify(value, (_, item: unknown) =>
      typeof item === 'bigint' || (typeof item === 'number' && !Number.isFinite(item))
        ? String(item)
        : ArrayBuffer.isView(item)
          ? Array.from(itemsOf(item))
          : item,
    ) ?? String(value);
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
}
