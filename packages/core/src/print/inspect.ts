/**
 * The name of the method by which console.log of Node, Deno and Bun asks an object how it prints; known
 * without importing a module of theirs. Browsers show the object itself.
 */
const inspect: unique symbol = Symbol.for('nodejs.util.inspect.custom');

/** `lines` takes as many as it needs; `line` is for a part of another object. */
export type PrintForm = 'lines' | 'line';

/** Properties by which objects of a kind print under console.log. They need not be of a class. */
export function inspecting<T extends object>(
  describe: (value: T, form: PrintForm) => string,
): PropertyDescriptorMap & ThisType<T> {
  return {
    [inspect]: {
      value(this: T, depth: number, { depth: first }: { readonly depth?: number | null }): string {
        return describe(this, typeof first === 'number' && depth < first ? 'line' : 'lines');
      },
      configurable: true,
    },
  };
}

/** The same as `inspecting`, and String() prints the text, too. */
export function printing<T extends object>(
  describe: (value: T, form: PrintForm) => string,
): PropertyDescriptorMap & ThisType<T> {
  return {
    ...inspecting(describe),
    toString: {
      value(this: T): string {
        return describe(this, 'lines');
      },
      configurable: true,
    },
  };
}
