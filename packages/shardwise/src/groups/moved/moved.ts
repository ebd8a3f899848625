import { ConfigError } from '@shardwise/core';

/** The type of a name that is in a group now. Nothing can be done with it: errors of the compiler say the new name. */
export interface Moved<Name extends string> {
  readonly movedTo: Name;
}

/** Returns what stands for a value under its old name. Calling it, or reading from it, throws ConfigError. */
export function moved<Name extends string>(name: Name): Moved<Name> {
  const refuse = (): never => {
    const [group = '', ...path] = name.split('.');
    throw new ConfigError(
      {
        asked: `${path.at(-1) ?? name}, from the root of shardwise`,
        found: `it is in the group ${group}`,
        todo: `Write ${name}, and import { ${group} }.`,
      },
      { name },
    );
  };
  // The trap `construct` needs a target that can be called with `new`.
  function target(): void {}
  return new Proxy(Object.assign(target, { movedTo: name }), {
    apply: refuse,
    construct: refuse,
    get: refuse,
  });
}
