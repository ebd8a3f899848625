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

function run(
  partitions: readonly (typeof partition)[],
  firstUpdate = Number.POSITIVE_INFINITY,
): Promise<void> {
  const locations = { of: new Map(), scratchBytes: 0, temporaries: { parts: 0, values: [] } };
  const noBuffers: DeviceBuffer[] = [];
  const signature = { inputs: [], outputs: [] };
  const storage = { copiesBefore: [], copiesAfter: [], firstUpdate };
  const program = { signature, partitions, parts: [], storage };
  return new CpuExecutable(host, locations, [], () => program).run(noBuffers, noBuffers);
}

describe('a kernel that fails', () => {
  it('may have written updates where it writes them, or where an earlier one does', async () => {
    await expect(run([partition, failing], 1)).rejects.toMatchObject({
      code: 'BACKEND',
      fields: { updated: true },
      cause: { message: 'a kernel failed' },
    });
    await expect(run([partition, partition, failing], 1)).rejects.toMatchObject({
      code: 'BACKEND',
    });
  });

  it('has written none where a later one writes them, or where there are none', async () => {
    await expect(run([failing, partition], 1)).rejects.toThrow(/^a kernel failed$/);
    await expect(run([failing])).rejects.toThrow(/^a kernel failed$/);
  });
});
