import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { cpu } from '../src/cpu.ts';

// Reports by how many bytes this process has grown after arrays of one mebibyte have come and gone. A large array that
// was freed before has made glibc keep freed memory.

const MIB = 1024 * 1024;

await cpu();
setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');
if (typeof collect !== 'function') throw new TypeError('no garbage collector');

make(1, 30 * MIB);
const full = residentBytes();
const before = await residentBytesOnce((bytes) => bytes < full - 20 * MIB);
make(32, MIB);
const most = residentBytes() - before;
const left = (await residentBytesOnce((bytes) => bytes - before <= 4 * MIB)) - before;
process.send?.({ most, left });

/** Allocates arrays, touches every page of them, and drops them. */
function make(count: number, byteLength: number): void {
  Array.from({ length: count }, () => new Uint8Array(byteLength).fill(1));
}

/**
 * Waits until the resident memory is low, for four seconds at most. Another thread gives freed array buffers back, so
 * this may take a while.
 */
async function residentBytesOnce(isLow: (bytes: number) => boolean): Promise<number> {
  let bytes = residentBytes();
  for (let tries = 0; tries < 100 && !isLow(bytes); tries++) {
    await setTimeout(20);
    if (typeof collect === 'function') collect();
    await setTimeout(20);
    bytes = residentBytes();
  }
  return bytes;
}

function residentBytes(): number {
  const [, kibibytes] =
    /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return Number(kibibytes) * 1024;
}
