import { setTimeout as delay } from 'node:timers/promises';
import { mpiGroup } from '@shardwise/collectives/node';
import type { ProcessGroup } from '@shardwise/core/spec';

/** The binary of (module (memory 1) (func (export "load") (drop (i32.load (i32.const 65536))))) */
const OUT_OF_BOUNDS = Uint8Array.from([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1, 7, 8, 1, 4, 108, 111,
  97, 100, 0, 0, 10, 12, 1, 10, 0, 65, 128, 128, 4, 40, 2, 0, 26, 11,
]);

// A program for mpiexec in which rank 1 does what the argument says. The other ranks reduce until they fail. Each line
// of output begins with the rank that prints it.
const [fault = ''] = process.argv.slice(2);
const group = await mpiGroup();
const { rank } = group;
/** A call must be long for a rank to be killed while it is inside the call. */
const elements = fault === 'is killed inside a call' ? 1 << 22 : 2;

const faults: Readonly<Record<string, () => Promise<void>>> = {
  nothing: async () => {},
  'a trap': async () => {
    const access = await WebAssembly.instantiate(OUT_OF_BOUNDS);
    const { load } = access.instance.exports;
    try {
      if (typeof load === 'function') load();
    } catch (error) {
      say(String(error));
    }
  },
  throws: async () => {
    throw new Error('out of coffee');
  },
  'is killed': async () => {
    process.kill(process.pid, 'SIGKILL');
  },
  'is killed inside a call': async () => {
    const done = group.allReduce(ones(), 'sum');
    process.kill(process.pid, 'SIGKILL');
    await done;
  },
  'is stopped': async () => {
    process.kill(process.pid, 'SIGSTOP');
  },
  'calls another operation': async () => {
    await group.broadcast(ones(), 0);
  },
  'closes the group': async () => {
    group.close(new Error('the disk is full'));
  },
  leaves: async () => {
    group.close();
    // The process lives longer than the other ranks may take to notice.
    setTimeout(() => {}, 5000);
  },
};

try {
  await play(group);
} catch (error) {
  say(String(error));
  // A launcher may end all ranks as soon as one has failed. The delay lets the others report first.
  if (fault !== 'throws' || rank !== 1) await delay(1000);
  throw error;
}

async function play(all: ProcessGroup): Promise<void> {
  for (let step = 0; step < 5; step++) await all.allReduce(ones(), 'sum');
  if (fault === 'goes on') say(`pid ${process.pid}`);
  if (rank === 1) await faults[fault]?.();
  if (fault === 'nothing' || fault === 'a trap') return;
  const timeoutMs = fault === 'is stopped' ? 1500 : 30_000;
  for (;;) await all.allReduce(ones(), 'sum', { timeoutMs });
}

function ones() {
  return {
    bytes: new Uint8Array(new Float32Array(elements).fill(1).buffer),
    dtype: 'f32',
  } as const;
}

function say(text: string): void {
  process.stdout.write(`rank ${rank} says ${text}\n`);
}
