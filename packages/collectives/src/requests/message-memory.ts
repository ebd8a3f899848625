import { randomBytes } from 'node:crypto';
import { closeSync } from 'node:fs';
import { z } from 'zod';
import { allocateMemory } from '../shared-memory/world-size.ts';
import { linuxCalls } from '../shm/linux-calls.ts';
import { memoryFileName, openMemoryFile } from '../shm/open-memory-file.ts';
import { protocolError } from '../wire/wire-error.ts';

/** The length of the memory in bytes. Pages cost nothing until they are used. */
const MEMORY_BYTES = 1 << 30;
const HALF_BYTES = MEMORY_BYTES / 2;
/** Parts shorter than this many bytes are sent over the connection. */
export const LEAST_SHARED_BYTES: number = 1 << 14;
const ALIGNMENT = 64;

const offerSchema = z.strictObject({
  id: z.string().regex(/^[0-9a-f]{32}$/),
  pid: z.int().positive(),
  fd: z.int().nonnegative(),
});

/** Where a client of the same host finds the memory. */
type MemoryOffer = z.infer<typeof offerSchema>;

interface Block {
  readonly start: number;
  readonly end: number;
}

/**
 * Memory that both sides of a connection have, so that long parts of messages need no system calls. Each side writes to
 * its own half. The other half is never trusted to hold more than data, because the other side can write to it at any
 * time. Lengths and places travel in the message.
 */
export class MessageMemory {
  readonly #bytes: Uint8Array;
  readonly #own: number;
  readonly #other: number;
  /** The blocks of the own half that are taken, in the order of their places. */
  #taken: readonly Block[] = [];

  private constructor(memory: WebAssembly.Memory, half: 0 | 1) {
    this.#bytes = new Uint8Array(memory.buffer);
    this.#own = half * HALF_BYTES;
    this.#other = HALF_BYTES - this.#own;
  }

  /** The server's side. Throws ConfigError if processes cannot share memory. */
  static create(): {
    readonly memory: MessageMemory;
    readonly offer: Uint8Array;
    /** Keeps further clients from finding the memory. Clients that have opened it keep it. */
    readonly withdraw: () => void;
  } {
    const id = randomBytes(16).toString('hex');
    const calls = linuxCalls();
    const memory = allocateMemory(MEMORY_BYTES);
    const fd = calls.createMemoryFile(memoryFileName(id), MEMORY_BYTES);
    try {
      calls.mapOver(memory, fd);
    } catch (error) {
      calls.close(fd);
      throw error;
    }
    const offer: MemoryOffer = { id, pid: process.pid, fd };
    let isOffered = true;
    return {
      memory: new MessageMemory(memory, 1),
      offer: new TextEncoder().encode(JSON.stringify(offer)),
      withdraw: () => {
        if (isOffered) calls.close(fd);
        isOffered = false;
      },
    };
  }

  /** The client's side. Throws if the offer is malformed, or comes from another host. */
  static open(offer: Uint8Array): MessageMemory {
    const found = offerSchema.parse(JSON.parse(new TextDecoder().decode(offer)));
    const file = openMemoryFile(found, MEMORY_BYTES);
    try {
      const memory = allocateMemory(MEMORY_BYTES);
      linuxCalls().mapOver(memory, file);
      return new MessageMemory(memory, 0);
    } finally {
      closeSync(file);
    }
  }

  /** Copies bytes into the own half. Returns where they lie, or undefined if there is no room. */
  put(bytes: Uint8Array): number | undefined {
    let start = 0;
    let index = 0;
    for (const block of this.#taken) {
      if (block.start - start >= bytes.byteLength) break;
      start = block.end;
      index++;
    }
    const end = start + Math.ceil(bytes.byteLength / ALIGNMENT) * ALIGNMENT;
    if (end > HALF_BYTES) return undefined;
    this.#taken = this.#taken.toSpliced(index, 0, { start, end });
    this.#bytes.set(bytes, this.#own + start);
    return start;
  }

  /** Frees the blocks at these places of the own half, so that they may be overwritten. */
  free(places: readonly number[]): void {
    const given = new Set(places);
    this.#taken = this.#taken.filter(({ start }) => !given.has(start));
  }

  /** The bytes at a place of the other side's half. Throws CollectiveError for bytes outside of that half. */
  at(place: number, byteLength: number): Uint8Array {
    const isInside = place >= 0 && place % 8 === 0 && place + byteLength <= HALF_BYTES;
    if (isInside) return this.#bytes.subarray(this.#other + place).subarray(0, byteLength);
    throw protocolError(`${byteLength} bytes at ${place} are outside of the memory of its side`);
  }
}
