import { ConfigError, type HostMemory } from '@shardwise/core/spec';

/** Blocks begin and end at whole cache lines. */
const ALIGNMENT_BYTES = 64;
/** The most bytes of free blocks outside the region that are kept. */
const MAX_KEPT_BYTES = 256 << 20;

/** A part of a memory, such as a rank's region of the shared memory of its world. */
export interface HostRegion {
  readonly memory: WebAssembly.Memory;
  readonly byteOffset?: number | undefined;
  readonly byteLength?: number | undefined;
}

/**
 * Memory of the host for values on their way to other ranks and back. Freed blocks are used again for the same size.
 */
export class HostPool {
  readonly #region: HostRegion | undefined;
  readonly #free = new Map<number, Uint8Array[]>();
  #next: number;
  readonly #end: number;
  #keptBytes = 0;

  /** Blocks lie in the region while it has room. Throws ConfigError if the region does not lie in its memory. */
  constructor(region?: HostRegion) {
    const whole = region?.memory.buffer.byteLength ?? 0;
    const byteOffset = region?.byteOffset ?? 0;
    const byteLength = region?.byteLength ?? whole - byteOffset;
    if (byteLength < 0 || byteOffset + byteLength > whole) {
      throw new ConfigError(
        {
          asked: `host memory of ${byteLength} bytes at byte ${byteOffset}`,
          found: `a memory of ${whole} bytes`,
          todo: 'Choose a range inside the memory',
        },
        { byteOffset, byteLength, memoryBytes: whole },
      );
    }
    this.#region = region;
    this.#next = roundUp(byteOffset);
    this.#end = byteOffset + byteLength;
  }

  take(byteLength: number): HostMemory {
    const size = roundUp(byteLength);
    const kept = this.#free.get(size)?.pop();
    const block = kept ?? this.#create(size);
    const isOwn = this.#isOwn(block);
    if (isOwn && kept !== undefined) this.#keptBytes -= size;
    return {
      bytes: block.subarray(0, byteLength),
      free: () => {
        if (isOwn && this.#keptBytes + size > MAX_KEPT_BYTES) return;
        if (isOwn) this.#keptBytes += size;
        const ofSize = this.#free.get(size);
        if (ofSize === undefined) this.#free.set(size, [block]);
        else ofSize.push(block);
      },
    };
  }

  #isOwn({ buffer }: Uint8Array): boolean {
    return buffer !== this.#region?.memory.buffer;
  }

  #create(size: number): Uint8Array {
    const byteOffset = this.#next;
    if (this.#region === undefined || byteOffset + size > this.#end) return new Uint8Array(size);
    this.#next += size;
    return new Uint8Array(this.#region.memory.buffer, byteOffset, size);
  }
}

function roundUp(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
}
