import { recordFields } from '../call/record-codec.ts';

/** Groups that can exist at a time: the world's own and those made by split. */
export const CHANNELS = 64;
/** Collectives of one group that a rank may be ahead by. */
export const SLOTS = 64;
/** Messages of one group that a rank may have on the way. */
export const MESSAGES = 64;
/** Result of a reduction on its way to a buffer outside the shared memory. */
export const BOUNCE_BYTES: number = 64 * 1024;
export const CAUSE_BYTES = 1024;
export const MAX_RANKS = 64;
const LINE = 64;
export const PAGE_BYTES = 65536;

/** i32 words at the start of the control block. */
export const World = { magic: 0, size: 1, abortState: 2, abortRank: 3, causeLength: 4 } as const;
export const MAGIC = 0x53485731;
/**
 * i32 words of a rank's bell: 1 in `rings` while the rank sleeps and wants to be woken. Of a rank
 * that is a process, its id and the descriptor of the pipe that wakes it.
 */
export const Bell = { rings: 0, pid: 1, pipe: 2 } as const;
/** f64 indices within a bell. */
export const BellNumbers = { startTicks: 2, pipeInode: 3 } as const;
/** i32 words at the start of a lane: what one rank says to the others of one group. */
export const Lane = { closed: 0, completed: 1 } as const;
/** i32 words of a slot: one rank's part in one call. The encoded record follows. */
export const Slot = { arrived: 0, reached: 1, staged: 2, address: 3 } as const;
/** f64 index within a slot. */
export const SLOT_BYTE_LENGTH = 3;
const SLOT_RECORD_BYTE = 32;
/** i32 words of a message, which its sender owns. f64 numbers `sent` and `wanted` follow. */
export const Message = {
  state: 0,
  to: 1,
  tag: 2,
  order: 3,
  dtype: 4,
  staged: 5,
  address: 6,
  fragment: 7,
  wantedDType: 8,
  /** Tags of up to 53 bits: what is above the lower 32. */
  tagHigh: 9,
} as const;
const MESSAGE_BYTES = 64;
/** f64 index within a message: bytes sent, bytes the receiver wants. */
export const MessageBytes = { sent: 5, wanted: 6 } as const;

/** Byte offsets of everything in the memory of a world; a pure function of the number of ranks. */
export class MemoryMap {
  readonly size: number;
  /** Buffers outside the shared memory pass through it in fragments of this size. */
  readonly stagingBytes: number;
  readonly #slotBytes: number;
  readonly #laneBytes: number;
  readonly #bellsByte: number;
  readonly #channelsByte: number;
  readonly #tablesByte: number;
  readonly #tableBytes: number;
  readonly #lanesByte: number;
  readonly #bouncesByte: number;
  readonly #stagingByte: number;
  /** Where the arenas begin. */
  readonly byteLength: number;

  constructor(size: number) {
    this.size = size;
    this.stagingBytes = (size <= 8 ? 256 : 64) * 1024;
    this.#slotBytes = align(SLOT_RECORD_BYTE + 8 * recordFields(size), LINE);
    this.#laneBytes = LINE + SLOTS * this.#slotBytes + MESSAGES * MESSAGE_BYTES;
    this.#bellsByte = LINE + CAUSE_BYTES;
    this.#channelsByte = this.#bellsByte + size * LINE;
    this.#tablesByte = align(this.#channelsByte + CHANNELS * 4, LINE);
    this.#tableBytes = align(2 * size * 4, LINE);
    this.#lanesByte = this.#tablesByte + size * this.#tableBytes;
    this.#bouncesByte = this.#lanesByte + CHANNELS * size * this.#laneBytes;
    this.#stagingByte = this.#bouncesByte + size * BOUNCE_BYTES;
    this.byteLength = align(
      this.#stagingByte + CHANNELS * size * 2 * this.stagingBytes,
      PAGE_BYTES,
    );
  }

  cause(): number {
    return LINE;
  }

  bell(rank: number): number {
    return this.#bellsByte + rank * LINE;
  }

  /** One word: how many ranks hold the channel. */
  channelHolders(channel: number): number {
    return this.#channelsByte + channel * 4;
  }

  /** Addresses for a reduction: sources, then destinations. */
  table(rank: number): number {
    return this.#tablesByte + rank * this.#tableBytes;
  }

  lane(channel: number, rank: number): number {
    return this.#lanesByte + (channel * this.size + rank) * this.#laneBytes;
  }

  laneBytes(): number {
    return this.#laneBytes;
  }

  slot(channel: number, rank: number, index: number): number {
    return this.lane(channel, rank) + LINE + index * this.#slotBytes;
  }

  /** Where in a slot the encoded record lies. */
  recordInSlot(): number {
    return SLOT_RECORD_BYTE;
  }

  message(channel: number, rank: number, index: number): number {
    return this.lane(channel, rank) + LINE + SLOTS * this.#slotBytes + index * MESSAGE_BYTES;
  }

  bounce(rank: number): number {
    return this.#bouncesByte + rank * BOUNCE_BYTES;
  }

  staging(channel: number, rank: number, purpose: 'collective' | 'message'): number {
    const index = 2 * (channel * this.size + rank) + (purpose === 'message' ? 1 : 0);
    return this.#stagingByte + index * this.stagingBytes;
  }
}

function align(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}
