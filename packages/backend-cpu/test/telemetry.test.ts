import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

it.each(['main', 'worker'])(
  'ONNX Runtime leaves nothing in the home of the user, and so sends nothing: %s thread',
  async (thread) => {
    const home = await mkdtemp(join(tmpdir(), 'shardwise-home-'));
    const { XDG_CACHE_HOME: _, ORT_DISABLE_TELEMETRY: __, ...variables } = process.env;
    const env = { ...variables, HOME: home };
    const child = fork(new URL('./telemetry.worker.ts', import.meta.url), [thread], { env });
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(await readdir(home)).toEqual([]);
    await rm(home, { recursive: true });
  },
);
