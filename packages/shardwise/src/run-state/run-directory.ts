import { readdir } from 'node:fs/promises';
import { basename, dirname, extname, join, resolve } from 'node:path';

const TIME_AND_ATTEMPT = /^(\d{8}-\d{6})(?:-(\d+))?$/;
const GENERIC_NAMES = new Set(['train', 'main', 'index']);

const GENERIC_FOLDERS = new Set(['src', 'scripts']);

/**
 * Returns the default directory of a run, such as `runs/gpt-20260131-235959` for `examples/gpt/train.ts` and for
 * `gpt/src/train.ts`. The folder's name is used because it says more than a script's name such as train, main or index.
 * The time is local.
 */
export function runDirectoryName(script: string, date: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}${two(date.getMonth() + 1)}${two(date.getDate())}`;
  const time = `${two(date.getHours())}${two(date.getMinutes())}${two(date.getSeconds())}`;
  return join('runs', `${labelOf(script)}-${day}-${time}`);
}

/**
 * Returns the directories of earlier runs of a script, the newest first. It knows only runs that were started in this
 * working directory without `--run-dir`, because it looks for their names.
 */
export async function earlierRuns(script: string): Promise<readonly string[]> {
  const entries = await readdir('runs').catch(() => []);
  const label = `${labelOf(script)}-`;
  return entries
    .flatMap((entry) => {
      if (!entry.startsWith(label)) return [];
      const [, time, attempt = '1'] = TIME_AND_ATTEMPT.exec(entry.slice(label.length)) ?? [];
      return time === undefined ? [] : [{ entry, time, attempt: Number(attempt) }];
    })
    .toSorted((a, b) => (a.time === b.time ? b.attempt - a.attempt : a.time < b.time ? 1 : -1))
    .map(({ entry }) => join('runs', entry));
}

function labelOf(script: string): string {
  const name = basename(script, extname(script));
  const parent = dirname(resolve(script));
  const folder = basename(GENERIC_FOLDERS.has(basename(parent)) ? dirname(parent) : parent);
  return GENERIC_NAMES.has(name) && folder !== '' ? folder : name;
}
