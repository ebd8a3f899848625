/**
 * The name of the method that console.log of Node, Deno and Bun calls for the text of an object. The symbol is global,
 * so no module is imported for it. Browsers show the object itself.
 */
const inspect: unique symbol = Symbol.for('nodejs.util.inspect.custom');

/** `lines` is a text of as many lines as needed. `line` is a text of one line, for an object inside another one. */
export type PrintForm = 'lines' | 'line';

/** The properties that make an object print by `describe` under console.log. The object need not have a class. */
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

/** Like inspecting, but String() returns the text, too. */
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
