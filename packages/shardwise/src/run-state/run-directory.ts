import { basename, dirname, extname, join, resolve } from 'node:path';

const GENERIC_NAMES = new Set(['train', 'main', 'index']);

/**
 * `runs/gpt-20260131-235959` for `examples/gpt/train.ts`: a folder's name says more than that of a
 * script called train, main or index. In local time.
 */
export function runDirectoryName(script: string, date: Date): string {
  const name = basename(script, extname(script));
  const folder = basename(dirname(resolve(script)));
  const label = GENERIC_NAMES.has(name) && folder !== '' ? folder : name;
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}${two(date.getMonth() + 1)}${two(date.getDate())}`;
  const time = `${two(date.getHours())}${two(date.getMinutes())}${two(date.getSeconds())}`;
  return join('runs', `${label}-${day}-${time}`);
}
