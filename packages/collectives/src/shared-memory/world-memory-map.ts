import { recordFields } from '../call/record-codec.ts';
import { NAME_BYTES } from '../call/call-names.ts';
import { ADDRESS_BYTES } from '../reduce/address-table.ts';

/** The number of groups that can be open at a time, the world included. */
export const CHANNELS = 64;
/** The number of collectives by which a rank may be ahead of the others of a group. */
export const SLOTS = 64;
/** The number of messages of one group that a rank may have under way. */
export const MESSAGES = 64;
/**
 * The length of the memory through which the result of a reduction goes to a buffer outside of the shared
 * memory.
 */
export const BOUNCE_BYTES: number = 64 * 1024;
export const CAUSE_BYTES = 1024;
export const MAX_RANKS = 64;
const LINE = 64;
/** The places of i32 words in front of the text in which a rank says what its call is. */
export const Name = { sequence: 0, channel: 1 } as const;
const NAME_HEAD_BYTES = 64;
export const PAGE_BYTES = 65536;

/** The places of i32 words at the start of the control block. */
export const World = { magic: 0, size: 1, abortState: 2, abortRank: 3, causeLength: 4 } as const;
export const MAGIC = 0x53485731;
/**
 * The places of a rank's i32 words. `rings` is 1 while the rank sleeps and wants to be woken. Ranks that are
 * processes also have their id there, and the descriptor of the pipe that wakes them.
 */
export const Bell = { rings: 0, pid: 1, pipe: 2 } as const;
/** The places of a rank's f64 numbers, which come after its words. */
export const BellNumbers = { startTicks: 2, pipeInode: 3 } as const;
/**
 * The places of i32 words at the start of a rank area, in which one rank tells the others of one group about itself.
 */
export const RankArea = { closed: 0, completed: 1 } as const;
/** The places of i32 words in a slot, in which one rank tells about one call. The encoded record follows. */
export const Slot = { arrived: 0, reached: 1, staged: 2 } as const;
/** The places of f64 numbers in a slot, which come after its words. */
export const SlotNumbers = { address: 2, byteLength: 3 } as const;
const SLOT_RECORD_BYTE = 32;
/** The places of i32 words in a message, which belongs to its sender. The f64 numbers of MessageNumbers follow. */
export const Message = {
  state: 0,
  to: 1,
  tag: 2,
  order: 3,
  dtype: 4,
  staged: 5,
  fragment: 6,
  wantedDType: 7,
  /** The bits of the tag above the lower 32. Tags have up to 53 bits. */
  tagHigh: 8,
  /** A hash of what the call is, which both ranks must have. 0 if it is not known. */
  identity: 9,
} as const;
const MESSAGE_BYTES = 64;
/** The places of f64 numbers in a message: where its bytes are, how many are sent, and how many the receiver wants. */
export const MessageNumbers = { address: 5, sent: 6, wanted: 7 } as const;

/** The byte offsets of everything in the memory of a world. They follow from the number of ranks alone. */
export class MemoryMap {
  readonly size: number;
  /** The length of the fragments in which buffers outside of the shared memory pass. */
  readonly stagingBytes: number;
  readonly #slotBytes: number;
  readonly #laneBytes: number;
  readonly #bellsByte: number;
  readonly #channelsByte: number;
  readonly #tablesByte: number;
  readonly #tableBytes: number;
  readonly #namesByte: number;
  readonly #lanesByte: number;
  readonly #bouncesByte: number;
  readonly #stagingByte: number;
  /** The length of the control block. The arenas begin after it. */
  readonly byteLength: number;

  constructor(size: number) {
    this.size = size;
    this.stagingBytes = (size <= 8 ? 256 : 64) * 1024;
    this.#slotBytes = align(SLOT_RECORD_BYTE + 8 * recordFields(size), LINE);
    this.#laneBytes = LINE + SLOTS * this.#slotBytes + MESSAGES * MESSAGE_BYTES;
    this.#bellsByte = LINE + CAUSE_BYTES;
    this.#channelsByte = this.#bellsByte + size * LINE;
    this.#tablesByte = align(this.#channelsByte + CHANNELS * 4, LINE);
    this.#tableBytes = align(2 * size * ADDRESS_BYTES, LINE);
    this.#namesByte = this.#tablesByte + size * this.#tableBytes;
    this.#lanesByte = this.#namesByte + size * (NAME_HEAD_BYTES + NAME_BYTES);
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

  /** Where the word is that counts the ranks which hold the channel. */
  channelHolders(channel: number): number {
    return this.#channelsByte + channel * 4;
  }

  /** Where the addresses for a reduction are. Those of the sources come first, then those of the destinations. */
  table(rank: number): number {
    return this.#tablesByte + rank * this.#tableBytes;
  }

  /** Where the words of Name are for a rank. */
  name(rank: number): number {
    return this.#namesByte + rank * (NAME_HEAD_BYTES + NAME_BYTES);
  }

  /** Where the text is in which a rank says what its call is. */
  nameText(rank: number): number {
    return this.name(rank) + NAME_HEAD_BYTES;
  }

  rankArea(channel: number, rank: number): number {
    return this.#lanesByte + (channel * this.size + rank) * this.#laneBytes;
  }

  laneBytes(): number {
    return this.#laneBytes;
  }

  slot(channel: number, rank: number, index: number): number {
    return this.rankArea(channel, rank) + LINE + index * this.#slotBytes;
  }

  /** Where the encoded record is in a slot. */
  recordInSlot(): number {
    return SLOT_RECORD_BYTE;
  }

  message(channel: number, rank: number, index: number): number {
    return this.rankArea(channel, rank) + LINE + SLOTS * this.#slotBytes + index * MESSAGE_BYTES;
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
