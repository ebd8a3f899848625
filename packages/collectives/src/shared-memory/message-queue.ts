import { dtypeNames, dtypes } from '@shardwise/core/spec';
import type { Limits } from '../call/call-options.ts';
import type { Transfer } from '../call/checked-group.ts';
import {
  abortedError,
  callsDifferError,
  reasonText,
  timeoutError,
  type AbortCause,
  type CallSite,
} from '../call/failure.ts';
import type { QueueOwner } from './collective-queue.ts';
import type { Lanes } from './lanes.ts';
import { Message, MessageBytes, MESSAGES } from './layout.ts';
import { Settlement } from '../call/settlement.ts';
import type { SharedMemory } from './shared-memory.ts';

/**
 * What a message waits for. Its sender writes it, its receiver takes the bytes from the sender's
 * memory; bytes outside the shared memory are staged in pieces, when the receiver asks for one.
 */
const State = { free: 0, posted: 1, pieceWanted: 2, pieceReady: 3, taken: 4, refused: 5 } as const;

interface PendingTransfer {
  readonly transfer: Transfer;
  /** Whether a mismatch is one of the group's ranks, not of this message alone. */
  readonly endsGroup: boolean;
  readonly sequence: number;
  readonly settlement: Settlement;
  /** First word of the message: the sender's own, or the one that a receive has met. */
  message: number | undefined;
  piece: number;
}

/** One rank's sends and receives of one group. */
export class MessageQueue {
  readonly #lanes: Lanes;
  readonly #memory: SharedMemory;
  readonly #owner: QueueOwner;
  readonly #interrupt: (reason: unknown) => void;
  /** By rank: the first words of its messages. */
  readonly #messages: readonly (readonly number[])[];
  readonly #sends = new Set<PendingTransfer>();
  readonly #receives = new Set<PendingTransfer>();
  /** The send that has the staging area. */
  #staging: PendingTransfer | undefined;
  #issued = 0;
  #order = 0;

  constructor(lanes: Lanes, memory: SharedMemory, owner: QueueOwner) {
    this.#lanes = lanes;
    this.#memory = memory;
    this.#owner = owner;
    this.#interrupt = (reason) => owner.abort(reason);
    this.#messages = lanes.members.map((member) => {
      const { layout } = lanes.control;
      const word = (index: number): number => layout.message(lanes.channel, member, index) / 4;
      return Array.from({ length: MESSAGES }, (_, index) => word(index));
    });
  }

  /** `sequence` of the next transfer. */
  get next(): number {
    return this.#issued;
  }

  /** The transfer moves with the next `advance`. A mismatch ends the group, or fails the message alone. */
  issue(transfer: Transfer, limits: Limits, endsGroup: boolean): Settlement {
    const settlement = new Settlement(limits, this.#interrupt);
    const sequence = this.#issued++;
    const pending = { transfer, endsGroup, sequence, settlement, message: undefined, piece: 0 };
    (transfer.operation === 'send' ? this.#sends : this.#receives).add(pending);
    return settlement;
  }

  isPending(): boolean {
    return this.#sends.size > 0 || this.#receives.size > 0;
  }

  deadline(): number {
    return Math.min(...this.#all().map((pending) => pending.settlement.deadline));
  }

  advance(): boolean {
    if (!this.isPending()) return false;
    let moved = false;
    for (const pending of this.#sends) moved = this.#send(pending) || moved;
    /** Receives of one sender and tag take messages in the order in which they were issued. */
    const blocked = new Set<string>();
    for (const pending of this.#receives) {
      const { peer, tag } = pending.transfer;
      const key = `${peer}:${tag}`;
      if (pending.message === undefined && blocked.has(key)) continue;
      moved = this.#receive(pending) || moved;
      if (this.#receives.has(pending) && pending.message === undefined) blocked.add(key);
    }
    return moved;
  }

  expire(now: number): void {
    const late = this.#all().find((pending) => pending.settlement.deadline <= now);
    if (late === undefined) return;
    const { transfer, settlement, message } = late;
    const error = timeoutError(this.#site(late), describe(transfer), settlement.timeoutMs, {
      missing: transfer.operation === 'recv' && message !== undefined ? [] : [transfer.peer],
      slow: [transfer.peer],
    });
    this.#drop(late);
    settlement.reject(error);
    this.#owner.abort(error);
  }

  fail(cause: AbortCause): void {
    for (const pending of this.#all()) {
      this.#drop(pending);
      pending.settlement.reject(abortedError(this.#site(pending), cause));
    }
  }

  /** Whether anything moved. */
  #send(pending: PendingTransfer): boolean {
    const { message } = pending;
    if (message === undefined) return this.#post(pending);
    switch (this.#state(message)) {
      case State.pieceWanted:
        return this.#stage(pending, message);
      case State.taken:
        this.#setState(message, State.free);
        this.#drop(pending);
        pending.settlement.resolve();
        return true;
      case State.refused:
        this.#setState(message, State.free);
        this.#mismatch(pending, message);
        return true;
      case State.posted:
        return this.#checkClosed(pending);
      default:
        return false;
    }
  }

  #post(pending: PendingTransfer): boolean {
    const message = this.#messages[this.#lanes.rank]?.find(
      (word) => this.#state(word) === State.free,
    );
    if (message === undefined) return false;
    const { buffer, peer, tag } = pending.transfer;
    const { words, numbers } = this.#lanes.control;
    const address = this.#memory.addressOf(buffer.bytes, undefined);
    words[message + Message.to] = peer;
    words[message + Message.tag] = tag | 0;
    words[message + Message.tagHigh] = highWord(tag);
    words[message + Message.order] = this.#order++ | 0;
    words[message + Message.dtype] = dtypeNames.indexOf(buffer.dtype);
    words[message + Message.staged] = address === undefined ? 1 : 0;
    words[message + Message.address] = address ?? this.#stagingAddress(this.#lanes.rank);
    numbers[message / 2 + MessageBytes.sent] = buffer.bytes.byteLength;
    pending.message = message;
    this.#setState(message, State.posted);
    this.#lanes.ring(peer);
    return true;
  }

  #stage(pending: PendingTransfer, message: number): boolean {
    if (this.#staging !== undefined && this.#staging !== pending) return false;
    this.#staging = pending;
    const { words } = this.#lanes.control;
    const piece = words[message + Message.piece] ?? 0;
    const { bytes } = pending.transfer.buffer;
    const start = piece * this.#pieceBytes();
    this.#memory.copyIn(
      bytes.subarray(start, start + this.#pieceBytes()),
      this.#stagingAddress(this.#lanes.rank),
    );
    this.#setState(message, State.pieceReady);
    this.#lanes.ring(pending.transfer.peer);
    return true;
  }

  #receive(pending: PendingTransfer): boolean {
    if (pending.message === undefined) {
      pending.message = this.#find(pending.transfer);
      if (pending.message === undefined) return this.#checkClosed(pending);
      return this.#meet(pending, pending.message);
    }
    if (this.#state(pending.message) !== State.pieceReady) return this.#checkClosed(pending);
    const { bytes } = pending.transfer.buffer;
    const start = pending.piece * this.#pieceBytes();
    const piece = bytes.subarray(start, start + this.#pieceBytes());
    this.#memory.copyOut(this.#address(pending.message), piece);
    pending.piece += 1;
    if (pending.piece * this.#pieceBytes() >= bytes.byteLength) {
      this.#taken(pending, pending.message);
    } else {
      this.#wantPiece(pending, pending.message);
    }
    return true;
  }

  #meet(pending: PendingTransfer, message: number): boolean {
    const { words, numbers } = this.#lanes.control;
    const { buffer, peer } = pending.transfer;
    const dtype = dtypeNames.indexOf(buffer.dtype);
    const sentBytes = numbers[message / 2 + MessageBytes.sent];
    if (words[message + Message.dtype] !== dtype || sentBytes !== buffer.bytes.byteLength) {
      words[message + Message.wantedDType] = dtype;
      numbers[message / 2 + MessageBytes.wanted] = buffer.bytes.byteLength;
      this.#mismatch(pending, message);
      this.#setState(message, State.refused);
      this.#lanes.ring(peer);
      return true;
    }
    if (words[message + Message.staged] === 1 && sentBytes > 0) {
      this.#wantPiece(pending, message);
    } else {
      this.#memory.copyOut(this.#address(message), buffer.bytes);
      this.#taken(pending, message);
    }
    return true;
  }

  #wantPiece(pending: PendingTransfer, message: number): void {
    this.#lanes.control.words[message + Message.piece] = pending.piece;
    this.#setState(message, State.pieceWanted);
    this.#lanes.ring(pending.transfer.peer);
  }

  #taken(pending: PendingTransfer, message: number): void {
    this.#setState(message, State.taken);
    this.#lanes.ring(pending.transfer.peer);
    this.#drop(pending);
    pending.settlement.resolve();
  }

  /** The first message that was posted for this rank with this tag. */
  #find(transfer: Transfer): number | undefined {
    // While one looks, the sender posts more: at the second look all that came before are there.
    return this.#firstPosted(transfer) === undefined ? undefined : this.#firstPosted(transfer);
  }

  #firstPosted({ peer, tag }: Transfer): number | undefined {
    const { words } = this.#lanes.control;
    let first: number | undefined;
    for (const message of this.#messages[peer] ?? []) {
      if (this.#state(message) !== State.posted) continue;
      if (words[message + Message.to] !== this.#lanes.rank) continue;
      if (words[message + Message.tag] !== (tag | 0)) continue;
      if (words[message + Message.tagHigh] !== highWord(tag)) continue;
      if (first === undefined || this.#isBefore(message, first)) first = message;
    }
    return first;
  }

  /** Orders wrap around, so only their difference counts. */
  #isBefore(message: number, other: number): boolean {
    const { words } = this.#lanes.control;
    const order = words[message + Message.order] ?? 0;
    return ((order - (words[other + Message.order] ?? 0)) | 0) < 0;
  }

  #checkClosed(pending: PendingTransfer): boolean {
    const { peer } = pending.transfer;
    if (!this.#lanes.closed(peer)) return false;
    // It may have posted or taken the message just before it closed.
    if (pending.transfer.operation === 'recv' && this.#find(pending.transfer) !== undefined) {
      return false;
    }
    if (pending.message !== undefined && this.#state(pending.message) !== State.posted) {
      return false;
    }
    const reason = `it closed the group before ${describe(pending.transfer)} was done`;
    this.#owner.end({ rank: this.#lanes.members[peer], reason });
    return true;
  }

  /** Fails the message, and with it mostly the group on this rank; the peer finds the same mismatch. */
  #mismatch(pending: PendingTransfer, message: number): void {
    const { words, numbers } = this.#lanes.control;
    const sent = describeBytes(
      words[message + Message.dtype] ?? -1,
      numbers[message / 2 + MessageBytes.sent] ?? 0,
    );
    const wanted = describeBytes(
      words[message + Message.wantedDType] ?? -1,
      numbers[message / 2 + MessageBytes.wanted] ?? 0,
    );
    const { operation, peer, tag } = pending.transfer;
    const isSend = operation === 'send';
    const [from, to] = isSend ? [this.#lanes.rank, peer] : [peer, this.#lanes.rank];
    const error = callsDifferError(this.#site(pending), [
      { ranks: [from], call: `send(to ${to}, tag ${tag}, ${sent})` },
      { ranks: [to], call: `recv(from ${from}, tag ${tag}, ${wanted})` },
    ]);
    this.#drop(pending);
    pending.settlement.reject(error);
    if (!pending.endsGroup) return;
    this.#owner.end({ rank: this.#lanes.members[this.#lanes.rank], reason: reasonText(error) });
  }

  #drop(pending: PendingTransfer): void {
    this.#sends.delete(pending);
    this.#receives.delete(pending);
    if (this.#staging === pending) this.#staging = undefined;
  }

  #all(): readonly PendingTransfer[] {
    return [...this.#sends, ...this.#receives];
  }

  #state(message: number): number {
    return Atomics.load(this.#lanes.control.words, message + Message.state);
  }

  #setState(message: number, state: number): void {
    Atomics.store(this.#lanes.control.words, message + Message.state, state);
  }

  #address(message: number): number {
    return (this.#lanes.control.words[message + Message.address] ?? 0) >>> 0;
  }

  #stagingAddress(rank: number): number {
    const { control, channel, members } = this.#lanes;
    return control.layout.staging(channel, members[rank] ?? 0, 'message');
  }

  #pieceBytes(): number {
    return this.#lanes.control.layout.stagingBytes;
  }

  #site({ transfer, sequence }: PendingTransfer): CallSite {
    return { operation: transfer.operation, sequence, rank: this.#lanes.rank };
  }
}

function highWord(tag: number): number {
  return Math.floor(tag / 2 ** 32);
}

function describe({ operation, buffer, peer, tag }: Transfer): string {
  const dtype = dtypeNames.indexOf(buffer.dtype);
  const where = operation === 'send' ? `to ${peer}` : `from ${peer}`;
  return `${operation}(${where}, tag ${tag}, ${describeBytes(dtype, buffer.bytes.byteLength)})`;
}

function describeBytes(dtype: number, byteLength: number): string {
  const name = dtypeNames[dtype];
  return name === undefined
    ? `${byteLength} bytes`
    : `${name} [${byteLength / dtypes[name].bytes}]`;
}
