import { dtypeNames, dtypes, reasonText } from '@shardwise/core/spec';
import { CallQueue, type Movement } from '../call/call-queue.ts';
import { abortedError } from '../call/aborted-error.ts';
import { callsDifferError, type LateRanks, SAME_LINES } from '../call/failure.ts';
import type { IssuedCall } from '../call/issued-call.ts';
import { sidesOfMessage, type Transfer } from '../call/calls.ts';
import type { MovementOwner } from './shared-collectives.ts';
import type { CallSlots } from './call-slots.ts';
import { Message, MessageNumbers, MESSAGES } from './world-memory-map.ts';
import type { SharedMemory } from './shared-memory.ts';

/**
 * What a message waits for. The sender writes the message, and the receiver takes the bytes from the sender's
 * memory. Bytes outside of the shared memory are staged in fragments, each when the receiver asks for it.
 */
const State = {
  free: 0,
  posted: 1,
  fragmentWanted: 2,
  fragmentReady: 3,
  taken: 4,
  refused: 5,
} as const;

export interface SharedTransfer extends Transfer {
  /** Whether a mismatch, or that the peer has left, fails only the message and not the group. */
  readonly failsAlone?: boolean;
}

interface TransferProgress {
  /** The first word of the message, which a send has posted or a receive has found. */
  message: number | undefined;
  fragment: number;
}

type PendingTransfer = IssuedCall<SharedTransfer, TransferProgress>;

/** Moves one rank's sends and receives of one group. */
export class SharedMessages implements Movement<SharedTransfer, TransferProgress> {
  readonly queue: CallQueue<SharedTransfer, TransferProgress>;
  readonly #slots: CallSlots;
  readonly #memory: SharedMemory;
  readonly #owner: MovementOwner;
  /** For each rank, the first words of its messages. */
  readonly #messages: readonly (readonly number[])[];
  /** The send whose fragments are in the staging area. */
  #staging: PendingTransfer | undefined;
  #order = 0;

  constructor(slots: CallSlots, memory: SharedMemory, owner: MovementOwner) {
    this.#slots = slots;
    this.#memory = memory;
    this.#owner = owner;
    this.#messages = slots.members.map((member) => {
      const { map } = slots.control;
      const word = (index: number): number => map.message(slots.channel, member, index) / 4;
      return Array.from({ length: MESSAGES }, (_, index) => word(index));
    });
    this.queue = new CallQueue(slots.rank, this, { isTimed: false });
  }

  begin(): TransferProgress {
    return { message: undefined, fragment: 0 };
  }

  move(): void {
    this.#owner.poke();
  }

  /** Always false. Peers do not write to the caller's buffers, because this rank itself copies what it receives. */
  isMoving(): boolean {
    return false;
  }

  abort(reason: unknown): void {
    this.#owner.abort(reason);
  }

  late({ call: { operation, peer }, state }: PendingTransfer): LateRanks {
    const hasMet = operation === 'recv' && state.message !== undefined;
    return { missing: hasMet ? [] : [peer], slow: [peer] };
  }

  /** Does what has become possible. Returns whether there was anything. */
  advance(): boolean {
    let moved = false;
    /** Senders and tags with a receive that has no message yet. Later receives must not take its message. */
    let blocked: Set<string> | undefined;
    let next: PendingTransfer | undefined;
    for (let pending = this.queue.oldest; pending !== undefined; pending = next) {
      next = pending.next;
      const { operation, peer, tag } = pending.call;
      if (operation === 'send') {
        moved = this.#send(pending) || moved;
      } else {
        const key = `${peer}:${tag}`;
        if (pending.state.message === undefined && blocked?.has(key) === true) continue;
        moved = this.#receive(pending) || moved;
        if (pending.isOpen && pending.state.message === undefined) {
          blocked ??= new Set();
          blocked.add(key);
        }
      }
      if (this.queue.ended !== undefined) return true;
    }
    return moved;
  }

  /** Moves a send. Returns whether anything moved. */
  #send(pending: PendingTransfer): boolean {
    const { message } = pending.state;
    if (message === undefined) return this.#post(pending);
    // It is read first, because what the peer has done just before it closed counts.
    const isClosed = this.#slots.closed(pending.call.peer);
    switch (this.#state(message)) {
      case State.fragmentWanted:
        return this.#stage(pending, message);
      case State.taken:
        this.#setState(message, State.free);
        this.#settle(pending);
        return true;
      case State.refused:
        this.#setState(message, State.free);
        this.#mismatch(pending, message);
        return true;
      case State.posted:
      case State.fragmentReady:
        return isClosed && this.#miss(pending);
      default:
        return false;
    }
  }

  #post(pending: PendingTransfer): boolean {
    const message = this.#messages[this.#slots.rank]?.find(
      (word) => this.#state(word) === State.free,
    );
    if (message === undefined) return false;
    const { buffer, peer, tag, identity } = pending.call;
    const { words, numbers } = this.#slots.control;
    const isStaged = !this.#memory.holds(buffer.bytes, undefined);
    words[message + Message.to] = peer;
    words[message + Message.tag] = tag | 0;
    words[message + Message.tagHigh] = highWord(tag);
    words[message + Message.order] = this.#order++ | 0;
    words[message + Message.dtype] = dtypeNames.indexOf(buffer.dtype);
    words[message + Message.identity] = (identity?.hash ?? 0) | 0;
    words[message + Message.staged] = isStaged ? 1 : 0;
    numbers[message / 2 + MessageNumbers.address] = isStaged
      ? this.#stagingAddress(this.#slots.rank)
      : buffer.bytes.byteOffset;
    numbers[message / 2 + MessageNumbers.sent] = buffer.bytes.byteLength;
    pending.state.message = message;
    this.#setState(message, State.posted);
    this.#slots.ring(peer);
    return true;
  }

  #stage(pending: PendingTransfer, message: number): boolean {
    if (this.#staging !== undefined && this.#staging !== pending) return false;
    this.#staging = pending;
    const { words } = this.#slots.control;
    const fragment = words[message + Message.fragment] ?? 0;
    const { bytes } = pending.call.buffer;
    const start = fragment * this.#fragmentBytes();
    this.#memory.copyIn(
      bytes.subarray(start, start + this.#fragmentBytes()),
      this.#stagingAddress(this.#slots.rank),
    );
    this.#setState(message, State.fragmentReady);
    this.#slots.ring(pending.call.peer);
    return true;
  }

  #receive(pending: PendingTransfer): boolean {
    const { state } = pending;
    const isClosed = this.#slots.closed(pending.call.peer);
    if (state.message === undefined) {
      state.message = this.#find(pending.call);
      if (state.message === undefined) return isClosed && this.#miss(pending);
      return this.#meet(pending, state.message);
    }
    if (this.#state(state.message) !== State.fragmentReady) return isClosed && this.#miss(pending);
    const { bytes } = pending.call.buffer;
    const start = state.fragment * this.#fragmentBytes();
    const fragmentBytes = Math.min(this.#fragmentBytes(), bytes.byteLength - start);
    this.#memory.copyOut(this.#address(state.message), bytes, start, fragmentBytes);
    state.fragment += 1;
    if (state.fragment * this.#fragmentBytes() >= bytes.byteLength) {
      this.#taken(pending, state.message);
    } else {
      this.#wantFragment(pending, state.message);
    }
    return true;
  }

  #meet(pending: PendingTransfer, message: number): boolean {
    const { words, numbers } = this.#slots.control;
    const { buffer, peer, identity } = pending.call;
    const dtype = dtypeNames.indexOf(buffer.dtype);
    const sentBytes = numbers[message / 2 + MessageNumbers.sent];
    const isOther = words[message + Message.identity] !== ((identity?.hash ?? 0) | 0);
    if (
      isOther ||
      words[message + Message.dtype] !== dtype ||
      sentBytes !== buffer.bytes.byteLength
    ) {
      words[message + Message.wantedDType] = dtype;
      numbers[message / 2 + MessageNumbers.wanted] = buffer.bytes.byteLength;
      this.#mismatch(pending, message);
      this.#setState(message, State.refused);
      this.#slots.ring(peer);
      return true;
    }
    if (words[message + Message.staged] === 1 && sentBytes > 0) {
      this.#wantFragment(pending, message);
    } else {
      const { bytes } = buffer;
      this.#memory.copyOut(this.#address(message), bytes, 0, bytes.byteLength);
      this.#taken(pending, message);
    }
    return true;
  }

  #wantFragment(pending: PendingTransfer, message: number): void {
    this.#slots.control.words[message + Message.fragment] = pending.state.fragment;
    this.#setState(message, State.fragmentWanted);
    this.#slots.ring(pending.call.peer);
  }

  #taken(pending: PendingTransfer, message: number): void {
    this.#setState(message, State.taken);
    this.#slots.ring(pending.call.peer);
    this.#settle(pending);
  }

  /** The first message that was posted for this rank with this tag. */
  #find(transfer: Transfer): number | undefined {
    // The sender may post more messages while this rank looks. The second look sees all messages that came before the
    // one that the first look found.
    return this.#firstPosted(transfer) === undefined ? undefined : this.#firstPosted(transfer);
  }

  #firstPosted({ peer, tag }: Transfer): number | undefined {
    const { words } = this.#slots.control;
    let first: number | undefined;
    for (const message of this.#messages[peer] ?? []) {
      if (this.#state(message) !== State.posted) continue;
      if (words[message + Message.to] !== this.#slots.rank) continue;
      if (words[message + Message.tag] !== (tag | 0)) continue;
      if (words[message + Message.tagHigh] !== highWord(tag)) continue;
      if (first === undefined || this.#isBefore(message, first)) first = message;
    }
    return first;
  }

  /** Order numbers wrap around, so only their difference counts. */
  #isBefore(message: number, other: number): boolean {
    const { words } = this.#slots.control;
    const order = words[message + Message.order] ?? 0;
    return ((order - (words[other + Message.order] ?? 0)) | 0) < 0;
  }

  /** Fails a message that its peer, which has closed the group, has not moved on. Returns true. */
  #miss(pending: PendingTransfer): true {
    const { operation, peer, failsAlone } = pending.call;
    const { message } = pending.state;
    const reason = `it closed the group before ${pending.description} was done`;
    const cause = { rank: this.#slots.members[peer], reason };
    if (failsAlone !== true) {
      this.#owner.end(cause);
      return true;
    }
    if (operation === 'send' && message !== undefined) this.#setState(message, State.free);
    this.#release(pending);
    this.queue.reject(pending, abortedError(pending.label, cause));
    return true;
  }

  /** Fails the message and, unless it fails alone, the group on this rank. The peer finds the same mismatch. */
  #mismatch(pending: PendingTransfer, message: number): void {
    const { words, numbers } = this.#slots.control;
    const sent = describeBytes(
      words[message + Message.dtype] ?? -1,
      numbers[message / 2 + MessageNumbers.sent] ?? 0,
    );
    const wanted = describeBytes(
      words[message + Message.wantedDType] ?? -1,
      numbers[message / 2 + MessageNumbers.wanted] ?? 0,
    );
    const { operation, peer, tag } = pending.call;
    const isSend = operation === 'send';
    const [from, to] = isSend ? [this.#slots.rank, peer] : [peer, this.#slots.rank];
    const error =
      sent === wanted
        ? callsDifferError(
            pending.label,
            sidesOfMessage(this.#slots.rank, pending.call),
            SAME_LINES,
          )
        : callsDifferError(pending.label, [
            { ranks: [from], call: `send(to ${to}, tag ${tag}, ${sent})` },
            { ranks: [to], call: `recv(from ${from}, tag ${tag}, ${wanted})` },
          ]);
    this.#release(pending);
    this.queue.reject(pending, error);
    if (pending.call.failsAlone === true) return;
    this.#owner.end({ rank: this.#slots.members[this.#slots.rank], reason: reasonText(error) });
  }

  #settle(pending: PendingTransfer): void {
    this.#release(pending);
    this.queue.settle(pending);
  }

  /** Lets other sends use the staging area. */
  #release(pending: PendingTransfer): void {
    if (this.#staging === pending) this.#staging = undefined;
  }

  #state(message: number): number {
    return Atomics.load(this.#slots.control.words, message + Message.state);
  }

  #setState(message: number, state: number): void {
    Atomics.store(this.#slots.control.words, message + Message.state, state);
  }

  #address(message: number): number {
    return this.#slots.control.numbers[message / 2 + MessageNumbers.address] ?? 0;
  }

  #stagingAddress(rank: number): number {
    const { control, channel, members } = this.#slots;
    return control.map.staging(channel, members[rank] ?? 0, 'message');
  }

  #fragmentBytes(): number {
    return this.#slots.control.map.stagingBytes;
  }
}

function highWord(tag: number): number {
  return Math.floor(tag / 2 ** 32);
}

function describeBytes(dtype: number, byteLength: number): string {
  const name = dtypeNames[dtype];
  return name === undefined
    ? `${byteLength} bytes`
    : `${name} [${byteLength / dtypes[name].bytes}]`;
}
