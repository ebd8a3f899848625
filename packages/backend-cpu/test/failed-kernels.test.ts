import type { DeviceBuffer } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { CpuExecutable } from '../src/run/executable.ts';
import { Arena } from '../src/memory/arena.ts';
import { Scratch } from '../src/memory/scratch.ts';
import { WorkQueue } from '../src/run/work-queue.ts';

const arena = new Arena(new WebAssembly.Memory({ initial: 1 }));
const host = { arena, scratch: new Scratch(arena), queue: new WorkQueue() };
const partition = { run: (): void => {} };
const failing = {
  run: (): void => {
    throw new RangeError('a kernel failed');
  },
};

function run(partitions: readonly (typeof partition)[], updatesInPlace: boolean): Promise<void> {
  const locations = { of: new Map(), scratchBytes: 0 };
  const noBuffers: DeviceBuffer[] = [];
  const signature = { inputs: [], outputs: [] };
  const storage = { copiesBefore: [], copiesAfter: [], updatesInPlace };
  const program = { signature, partitions, parts: [], storage };
  return new CpuExecutable(host, locations, [], () => program).run(noBuffers, noBuffers);
}

describe('a kernel that fails', () => {
  it('may have written updates where it is the last one of a program with updates', async () => {
    await expect(run([partition, failing], true)).rejects.toMatchObject({
      code: 'BACKEND',
      fields: { updated: true },
      cause: { message: 'a kernel failed' },
    });
  });

  it('has written none where another one writes them, or where there are none', async () => {
    await expect(run([failing, partition], true)).rejects.toThrow(/^a kernel failed$/);
    await expect(run([failing], false)).rejects.toThrow(/^a kernel failed$/);
  });
});
