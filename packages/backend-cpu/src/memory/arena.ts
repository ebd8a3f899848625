import {
  BackendError,
  ConfigError,
  OutOfMemoryError,
  type DeviceBuffer,
} from '@shardwise/core/spec';
import { ArenaBuffer, type Allocation } from './arena-buffer.ts';
import { FreeList } from './free-list.ts';

/** The alignment of every allocation: a cache line, which is more than any SIMD load asks for. */
export const ALIGNMENT_BYTES = 64;

/**
 * Large buffers lie at the beginning of an arena, and small ones at its end. Small buffers often outlive large ones. If
 * they lay where a large one was freed, the next large one would not fit there. A buffer is large if it has so many bytes,
 * or takes this part of the arena.
 */
const LARGE_BYTES = 1024 * 1024;
const LARGE_PART = 1 / 16;

/** How many bytes of an arena are in use. */
export interface ArenaUsage {
  readonly bytesInUse: number;
  /** The most bytes that were in use at the same time. */
  readonly peakBytes: number;
  readonly capacityBytes: number;
}

function roundUp(byteLength: number): number {
  return Math.max(ALIGNMENT_BYTES, Math.ceil(byteLength / ALIGNMENT_BYTES) * ALIGNMENT_BYTES);
}

/** Hands out ranges of a region of a WebAssembly.Memory. */
export class Arena {
  readonly memory: WebAssembly.Memory;
  readonly byteOffset: number;
  readonly capacityBytes: number;
  readonly #free: FreeList;
  readonly #live = new Set<Allocation>();
  #bytesInUse = 0;
  #peakBytes = 0;

  /** `byteOffset` and `byteLength` default to all of the memory. The range is shrunk to the alignment. */
  constructor(
    memory: WebAssembly.Memory,
    byteOffset = 0,
    byteLength: number = memory.buffer.byteLength - byteOffset,
  ) {
    const end = Math.min(byteOffset + byteLength, memory.buffer.byteLength);
    const start = Math.ceil(byteOffset / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    const capacity = Math.floor((end - start) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    const fits =
      byteOffset >= 0 && byteOffset + byteLength <= memory.buffer.byteLength && capacity > 0;
    if (!fits) {
      throw new ConfigError(
        {
          asked: `an arena of ${byteLength} bytes at byte ${byteOffset}`,
          found: `a memory of ${memory.buffer.byteLength} bytes`,
          todo: `Choose a range of at least ${ALIGNMENT_BYTES} bytes inside the memory`,
        },
        { byteOffset, byteLength, memoryBytes: memory.buffer.byteLength },
      );
    }
    this.memory = memory;
    this.byteOffset = start;
    this.capacityBytes = capacity;
    this.#free = new FreeList(start, capacity);
  }

  alloc(byteLength: number): ArenaBuffer {
    if (!Number.isSafeInteger(byteLength) || byteLength < 0) {
      throw new BackendError(
        {
          asked: `a buffer of ${byteLength} bytes`,
          found: 'not a size',
          todo: 'Pass an integer that is not negative',
        },
        { byteLength },
      );
    }
    const blockBytes = roundUp(byteLength);
    const byteOffset =
      blockBytes < Math.min(LARGE_BYTES, LARGE_PART * this.capacityBytes)
        ? this.#free.takeLast(blockBytes)
        : this.#free.takeSmallest(blockBytes);
    if (byteOffset === undefined) throw this.#outOfMemory(byteLength);
    const allocation = { byteOffset, byteLength: blockBytes, freed: false };
    this.#live.add(allocation);
    this.#bytesInUse += blockBytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#bytesInUse);
    return new ArenaBuffer(allocation, byteOffset, byteLength);
  }

  free(buffer: DeviceBuffer): void {
    this.retire(buffer)();
  }

  /**
   * Forbids further use of a buffer. Call the function that it returns when work on the buffer is done, to free its
   * bytes.
   */
  retire(buffer: DeviceBuffer): () => void {
    const { allocation, byteOffset } = this.own(buffer);
    if (byteOffset !== allocation.byteOffset) {
      throw new BackendError({
        asked: 'to free a buffer',
        found: 'a sub-buffer',
        todo: 'Free the buffer that alloc returned',
      });
    }
    allocation.freed = true;
    this.#live.delete(allocation);
    return () => {
      this.#bytesInUse -= allocation.byteLength;
      this.#free.give(allocation.byteOffset, allocation.byteLength);
    };
  }

  /**
   * Returns the buffer as one of this arena's. Throws BackendError for freed buffers and for those of other backends.
   */
  own(buffer: DeviceBuffer): ArenaBuffer {
    if (buffer instanceof ArenaBuffer && this.#live.has(buffer.allocation)) return buffer;
    const freed = buffer instanceof ArenaBuffer && buffer.allocation.freed;
    throw new BackendError(
      {
        asked: `to use a buffer of ${buffer.byteLength} bytes`,
        found: freed ? 'it has been freed' : 'it belongs to another backend',
        todo: freed
          ? 'Free a buffer after its last use'
          : 'Pass buffers that this backend allocated',
      },
      { byteLength: buffer.byteLength },
    );
  }

  /** The bytes of a buffer. They are the memory itself, not a copy. */
  bytes(buffer: ArenaBuffer): Uint8Array {
    return new Uint8Array(this.memory.buffer, buffer.byteOffset, buffer.byteLength);
  }

  usage(): ArenaUsage {
    return {
      bytesInUse: this.#bytesInUse,
      peakBytes: this.#peakBytes,
      capacityBytes: this.capacityBytes,
    };
  }

  #outOfMemory(byteLength: number): OutOfMemoryError {
    const { bytesInUse, capacityBytes } = this.usage();
    const { largestBytes } = this.#free;
    return new OutOfMemoryError(
      {
        asked: `a buffer of ${byteLength} bytes`,
        found: `${bytesInUse} of ${capacityBytes} bytes are in use and the largest free range has ${largestBytes} bytes`,
        todo: 'Free buffers, use a smaller batch, or give ranks more memory: byteLength of cpu(), arenaBytes of their world, or fewer ranks',
      },
      { byteLength, bytesInUse, capacityBytes, largestFreeBytes: largestBytes },
    );
  }
}
