import { readFile } from 'node:fs/promises';
import { profiler } from 'shardwise';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const letters = { none: 'N', warmup: 'W', record: 'R', recordAndSave: 'S' } as const;

describe('profiler.schedule', () => {
  it('says of each step what torch.profiler.schedule says', async () => {
    const path = new URL('golden/profiler-schedule.json', import.meta.url);
    const table = z.record(z.string(), z.string()).parse(JSON.parse(await readFile(path, 'utf8')));
    const own = Object.fromEntries(
      Object.keys(table).map((key) => {
        const [wait = 0, warmup = 0, active = 0, repeat = 0, skipFirst = 0, skipFirstWait = 0] = key
          .split(' ')
          .map(Number);
        const options = { wait, warmup, active, repeat, skipFirst, skipFirstWait };
        const actionOf = profiler.schedule(options);
        return [key, Array.from({ length: 30 }, (_, step) => letters[actionOf(step)]).join('')];
      }),
    );
    expect(Object.keys(table).length).toBeGreaterThan(200);
    expect(own).toEqual(table);
  });

  it('refuses cycles without steps to record, and unknown options', () => {
    expect(() => profiler.schedule({ wait: 1, warmup: 1, active: 0 })).toThrow(/active/);
    // @ts-expect-error no such option
    expect(() => profiler.schedule({ wait: 1, warmup: 1, active: 1, skip: 2 })).toThrow(/skip/);
  });
});
