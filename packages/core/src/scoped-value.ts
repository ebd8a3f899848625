import { ConfigError } from './spec/errors.ts';

/** A value that code reads without being given it, and that is another one while a body runs. */
export class ScopedValue<T> {
  readonly #scope: string;
  #current: T;

  /** `scope` names the function that users call, for errors. */
  constructor(scope: string, initial: T) {
    this.#scope = scope;
    this.#current = initial;
  }

  get current(): T {
    return this.#current;
  }

  /** Throws ConfigError for a body that returns a promise. */
  run<R>(value: T, body: () => R): R {
    const before = this.#current;
    this.#current = value;
    try {
      return synchronously(this.#scope, body);
    } finally {
      this.#current = before;
    }
  }
}

/**
 * Runs a body whose surroundings end when it returns. Throws ConfigError where it returns a promise:
 * what stands behind its first `await` would run outside of them, without a word.
 */
export function synchronously<T>(scope: string, body: () => T): T {
  const result = body();
  if (!isPromiseLike(result)) return result;
  // What becomes of it is of no interest any more.
  result.then(undefined, () => {});
  throw new ConfigError(
    {
      asked: `${scope} with a body that returns a promise`,
      found: 'it would end at the first await, and what follows would run outside of it',
      todo: `Build tensors in a body that is not async, and await them outside: const y = ${scope}(() => model.forward(x)); await y.data()`,
    },
    { scope },
  );
}

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'then' in value &&
    typeof value.then === 'function'
  );
}
