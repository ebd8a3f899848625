import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as shardwise from '@shardwise/core';
import { expect, it } from 'vitest';
import { withOperations } from '../tools/operations/operations-table.ts';
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

it('the table has the operations that tensors have', () => {
  expect(text).toBe(withOperations(text));
  expect(names).toHaveLength(new Set(names).size);
});
