// The assertions of the suites. They also run without a test runner and without Node.

/** Throws if two values differ. Numbers are compared by Object.is, and lists and plain objects by their contents. */
export function equal(actual: unknown, expected: unknown, about = ''): void {
  if (isEqual(actual, expected)) return;
  fail(`${show(actual)} where ${show(expected)} is expected`, about);
}

/** Throws if a condition does not hold. */
export function holds(condition: boolean, about: string): asserts condition {
  if (!condition) throw new Error(about);
}

/** Throws if a text does not match. */
export function matches(text: string | undefined, pattern: RegExp, about = ''): void {
  if (text === undefined || !pattern.test(text))
    fail(`${show(text)} does not match ${pattern}`, about);
}

type ErrorClass<E extends Error> = abstract new (...args: never[]) => E;

/** Throws if `body` throws nothing, or an error of another class. Returns the error. */
export function throws(body: () => unknown): Error;
export function throws<E extends Error>(body: () => unknown, type: ErrorClass<E>): E;
export function throws(body: () => unknown, type: ErrorClass<Error> = Error): Error {
  let error: unknown;
  try {
    body();
  } catch (thrown) {
    error = thrown;
  }
  return requireError(error, type);
}

/** Rejects if `promise` does not reject, or rejects with an error of another class. Resolves to the error. */
export function rejects(promise: Promise<unknown>): Promise<Error>;
export function rejects<E extends Error>(
  promise: Promise<unknown>,
  type: ErrorClass<E>,
): Promise<E>;
export async function rejects(
  promise: Promise<unknown>,
  type: ErrorClass<Error> = Error,
): Promise<Error> {
  let error: unknown;
  try {
    await promise;
  } catch (thrown) {
    error = thrown;
  }
  return requireError(error, type);
}

function requireError(error: unknown, type: ErrorClass<Error>): Error {
  if (error instanceof type) return error;
  const found = error instanceof Error ? `${error.name}: ${error.message}` : show(error);
  throw new Error(`${found} where ${type.name} is expected`, { cause: error });
}

function fail(what: string, about: string): never {
  throw new Error(about === '' ? what : `${about}: ${what}`);
}

function isEqual(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (ArrayBuffer.isView(a) && ArrayBuffer.isView(b)) {
    return (
      a.constructor === b.constructor && (sameBytes(a, b) || sameItems(itemsOf(a), itemsOf(b)))
    );
  }
  if (Array.isArray(a) && Array.isArray(b)) return sameItems(a, b);
  if (!isRecord(a) || !isRecord(b)) return false;
  const [keys, others] = [Object.keys(a), Object.keys(b)];
  return (
    keys.length === others.length &&
    keys.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]))
  );
}

function sameBytes(a: ArrayBufferView, b: ArrayBufferView): boolean {
  if (a.byteLength !== b.byteLength) return false;
  const [left, right] = [a, b].map(
    ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength),
  );
  return left?.every((byte, index) => byte === right?.[index]) ?? false;
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
  // All other views are lists of numbers.
  return view as unknown as ArrayLike<unknown>;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

const SHOWN_CHARACTERS = 400;

function show(value: unknown): string {
  const text =
    JSON.stringify(value, (_, item: unknown) =>
      typeof item === 'bigint' || (typeof item === 'number' && !Number.isFinite(item))
        ? String(item)
        : ArrayBuffer.isView(item)
          ? Array.from(itemsOf(item))
          : item,
    ) ?? String(value);
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}
