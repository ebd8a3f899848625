import { describe, expect, it } from 'vitest';
import * as shardwise from 'shardwise';
import * as pages from 'shardwise/browser';

/** Returns what a program finds under a path such as `dist.layout.shard`. */
function valueAt(path: string, root: object): unknown {
  return path.split('.').reduce<unknown>((value, name) => Reflect.get(Object(value), name), root);
}

/** Returns the old names of an entry point, each with the error of a program that calls it. */
function oldNamesOf(root: object): ReadonlyMap<string, Error> {
  const errors = Object.entries(root).flatMap(([name, value]): [string, Error][] => {
    if (typeof value !== 'function') return [];
    try {
      Reflect.get(value, 'name');
      return [];
    } catch (error) {
      return error instanceof Error ? [[name, error]] : [];
    }
  });
  return new Map(errors);
}

describe.each([
  ['shardwise', shardwise, 155],
  ['shardwise/browser', pages, 153],
])('the groups of %s', (_, root, count) => {
  const old = oldNamesOf(root);

  it('an old name is an error that says the new one, which exists', () => {
    expect(old.size).toBe(count);
    for (const [name, error] of old) {
      expect(error).toBeInstanceOf(shardwise.ConfigError);
      const path = /Write ([\w.]+), and import/.exec(error.message)?.[1] ?? '';
      expect(valueAt(path, root), name).toBeDefined();
    }
  });

  it('an old name is refused however it is used', () => {
    const message =
      'ddp, from the root of shardwise: it is in the group dist. Write dist.ddp, and import { dist }.';
    const ddp: unknown = Reflect.get(root, 'ddp');
    if (typeof ddp !== 'function') throw new TypeError('there is no old name');
    expect(() => ddp()).toThrow(message);
    expect(() => Reflect.construct(ddp, [])).toThrow(message);
    expect(() => Reflect.get(ddp, 'length')).toThrow(message);
  });

  it('names that PyTorch has at the root are errors that name the group', () => {
    const parameter: unknown = Reflect.get(root, 'Parameter');
    if (typeof parameter !== 'function') throw new TypeError('there is no such name');
    expect(() => Reflect.construct(parameter, [])).toThrow('Write nn.Parameter, and import { nn }');
  });

  it('the root has tensors and groups, and nothing else that concerns several ranks', () => {
    const names = Object.keys(root).filter((name) => !old.has(name));
    expect(names.length).toBeLessThanOrEqual(67);
    for (const name of Object.keys(shardwise.dist)) expect(names).not.toContain(name);
  });
});
