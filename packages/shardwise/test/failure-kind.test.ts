import {
  CheckpointError,
  CollectiveTimeoutError,
  ConfigError,
  DataError,
  LayoutError,
  OutOfMemoryError,
  ShapeError,
} from '@shardwise/core';
import { describe, expect, it } from 'vitest';
import { failureKind } from '../src/launcher/failure-kind.ts';
import { decodeError, encodeError } from '../src/launcher/processes/error-data.ts';

const parts = { asked: 'this', found: 'that', todo: 'Do so' };
const system = (code: string): Error =>
  Object.assign(new Error(`${code}: of the system`), { code });

/** Errors of threads arrive unchanged. Errors of processes are encoded and decoded. */
const ways = [
  ['a thread', (error: unknown) => error],
  ['a process', (error: unknown) => decodeError(structuredClone(encodeError(error)))],
] as const;

describe.each(ways)('what %s throws before its first step', (_, travel) => {
  it.each([
    ['an option', new ConfigError(parts)],
    ['an option that a parser refused', new ConfigError(parts, {}, { cause: new TypeError('no') })],
    ['a shape', new ShapeError(parts)],
    ['a layout', new LayoutError(parts)],
    ['data that are not there', new DataError(parts, {}, { cause: system('ENOENT') })],
    ['a file that is not there', system('ENOENT')],
    ['a checkpoint of another model', new CheckpointError(parts, { missing: ['weight'] })],
    ['a name that is not there', new ReferenceError('x is not defined')],
    ['a method that is not there', new TypeError('x.y is not a function')],
    ['a script that can not be parsed', new SyntaxError('Unexpected token')],
    [
      'a package that is not there',
      Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' }),
    ],
  ])('is a mistake where it is about %s', (_, error) => {
    expect(failureKind(travel(error))).toBe('mistake');
  });

  it.each([
    ['a checkpoint that can not be read', new CheckpointError(parts, { path: 'state.json' })],
  ])('is of the checkpoint where it is about %s', (_, error) => {
    expect(failureKind(travel(error))).toBe('checkpoint');
  });

  it.each([
    ['a port that is taken', new ConfigError(parts, {}, { cause: system('EADDRINUSE') })],
    ['ranks that do not come', new CollectiveTimeoutError(parts)],
    ['memory', new OutOfMemoryError(parts)],
    ['memory of JavaScript', new RangeError('Array buffer allocation failed')],
    ['a fetch', new TypeError('fetch failed', { cause: system('ECONNRESET') })],
    ['data over a network', new DataError(parts, {}, { cause: system('ETIMEDOUT') })],
    ['a worker that was ended', new DataError(parts, { worker: 0 })],
    ['something of the script', new Error('the service is not up yet')],
    ['a text', 'only a text'],
    ['nothing', undefined],
  ])('may go well the next time where it is about %s', (_, error) => {
    expect(failureKind(travel(error))).toBeUndefined();
  });
});
