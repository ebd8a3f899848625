import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as shardwise from '@shardwise/core';
import { expect, it } from 'vitest';
import { repository } from './support/documents.ts';

const text = readFileSync(join(repository, 'docs/tensor-operations.md'), 'utf8');

/** Our names, from the second column of the table. */
const names = text
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .flatMap((line) =>
    Array.from((line.split('|')[2] ?? '').matchAll(/`([^`]+)`/g), ([, name = '']) => name),
  );

function valueOf(name: string): unknown {
  const root: object = name.startsWith('x.') ? { x: shardwise.ones([2, 2]) } : shardwise;
  const path = name.replace('nn.Module.', 'nn.Module.prototype.').split('.');
  return path.reduce<unknown>(
    (value, key) => (Object(value) === value ? Reflect.get(Object(value), key) : undefined),
    root,
  );
}

it('every name in the table of operations is there', () => {
  expect(names.length).toBeGreaterThan(150);
  expect(names.filter((name) => valueOf(name) === undefined)).toEqual([]);
});

it('every operation of a tensor is in the table', () => {
  const methods = new Set<string>();
  // The classes with the operations are between Tensor and the class that has its state.
  let prototype: unknown = Object.getPrototypeOf(shardwise.Tensor.prototype);
  while (prototype instanceof Object && Object.getPrototypeOf(prototype) !== Object.prototype) {
    for (const name of Object.getOwnPropertyNames(prototype)) methods.add(`x.${name}`);
    prototype = Object.getPrototypeOf(prototype);
  }
  methods.delete('x.constructor');
  expect(methods.size).toBeGreaterThan(100);
  expect([...methods].filter((name) => !names.includes(name))).toEqual([]);
});
