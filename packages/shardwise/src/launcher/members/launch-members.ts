import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import { describeEnd } from '../failure.ts';
import { failureKind } from '../failure-kind.ts';
import { GRACE_MS, type LaunchEnd, type LaunchOptions, startsOf } from '../launch.ts';
import { RankProcess } from '../processes/rank-process.ts';
import type { MemberMessage } from '../ranks/member-message.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import type { LaunchResult, RankEnd } from '../ranks/rank-handle.ts';
import { RankWorker } from '../threads/rank-worker.ts';
import { MemberSlot } from './member-slot.ts';
import { changeReason, changeText, type LostRank } from './membership-change.ts';

/** How a run goes on without ranks that are lost. */
export interface MembersOptions {
  /** The least number of ranks with which the others go on. */
  readonly min: number;
  /** Takes one restart of the budget. Returns false if none is left, so that the others go on without the rank. */
  readonly takeRestart: () => boolean;
  /** Tells the user who goes on. */
  readonly onNotice: (text: string) => void;
}

/**
 * Runs a script on the ranks of this host, of which some may be lost while the others go on. Waits for all of them.
 *
 *   a rank is lost ── enough are left, and they survive ──► the others get a new membership at once
 *                  └─ otherwise ──► all ranks are ended, as `launch` does
 *   a rank comes   ──────────────► all get a new membership, to which they go over after a commit
 */
export async function launchMembers(
  options: LaunchOptions,
  members: MembersOptions,
): Promise<LaunchResult> {
  const directory = join(options.generation.runDirectory, 'logs');
  await mkdir(directory, { recursive: true });
  keepGenericWasmWrappers();
  return new MembersLaunch(options, members, directory).run();
}

class MembersLaunch {
  readonly #options: LaunchOptions;
  readonly #members: MembersOptions;
  readonly #slots: readonly MemberSlot[];
  /** The latest membership, in the order of its ranks. */
  #present: readonly MemberSlot[] = [];
  #epoch = -1;
  /** The latest membership whose ranks have joined each other. */
  #enteredEpoch = -1;
  /** The ranks of the slots in that membership, by the numbers of the slots. */
  #rankOf: ReadonlyMap<number, number> = new Map();
  /** Who was lost and who came since then. */
  #lost: LostRank[] = [];
  #come: number[] = [];
  /** Why the ranks cannot go on without each other. */
  #bound: string | undefined;
  #culprit: number | undefined;
  #grace: NodeJS.Timeout | undefined;
  readonly #ending: Promise<unknown>[] = [];

  constructor(options: LaunchOptions, members: MembersOptions, logDirectory: string) {
    this.#options = options;
    this.#members = members;
    const create = { threads: RankWorker, processes: RankProcess }[options.form];
    // A slot listens for what the ranks of its start end with.
    const ends = { onDoomed: () => undefined, onEnd: () => undefined };
    this.#slots = startsOf(options, undefined, logDirectory, ends).map(
      (start) =>
        new MemberSlot(
          create,
          {
            ...start,
            onMessage: (message) => {
              const { rank: number } = message;
              options.onMessage({ ...message, rank: this.#rankOf.get(number) ?? number });
            },
          },
          {
            onMember: (slot, message) => this.#hear(slot, message),
            onGone: (slot, end) => this.#lose(slot, end),
          },
        ),
    );
  }

  async run(): Promise<LaunchResult> {
    const { stop, signal, ended } = this.#options;
    const whenStopped = (): void => this.#orderAll({ kind: 'stop' });
    const force = (): void => this.#force();
    const listeners = [
      [stop, whenStopped],
      [signal, force],
    ] as const;
    for (const [listened, listener] of listeners) {
      listened.addEventListener('abort', listener, { once: true });
      if (listened.aborted) listener();
    }
    let isOver = false;
    void ended?.then((end) => {
      if (!isOver) this.#release(end);
    });
    try {
      const outcomes = await Promise.all(this.#slots.map(({ outcome }) => outcome));
      return { outcomes, culprit: this.#culprit };
    } finally {
      isOver = true;
      clearTimeout(this.#grace);
      for (const [listened, listener] of listeners) {
        listened.removeEventListener('abort', listener);
      }
      await Promise.all(this.#ending);
    }
  }

  #hear(slot: MemberSlot, message: MemberMessage): void {
    switch (message.kind) {
      case 'ready':
        slot.phase = 'ready';
        if (!message.survives) this.#bound ??= 'the script calls init(), and not survive()';
        if (this.#options.stop.aborted) slot.order({ kind: 'stop' });
        this.#form(undefined);
        return;
      case 'entered':
        slot.hasEntered = true;
        if (message.epoch === this.#epoch) this.#enter(message.step);
        return;
      case 'bound':
        if (this.#bound !== undefined) return;
        this.#bound = message.reason;
        this.#members.onNotice(
          `Ranks that are lost end the others, which start again from the last checkpoint: ${message.reason}.`,
        );
        return;
      default:
        message satisfies never;
    }
  }

  /** Notes that the ranks of the latest membership have joined each other, with a state of `step` updates. */
  #enter(step: number): void {
    if (this.#enteredEpoch === this.#epoch) return;
    this.#enteredEpoch = this.#epoch;
    this.#rankOf = new Map(this.#present.map(({ number }, rank) => [number, rank]));
    const worldSize = this.#present.length;
    const reason = changeReason(this.#lost, this.#epoch === 0 ? [] : this.#come);
    this.#lost = [];
    this.#come = [];
    if (reason === '') return;
    const change = { worldSize, step, reason };
    this.#options.onMessage({ kind: 'membership', ...change });
    this.#members.onNotice(changeText(change));
  }

  #lose(slot: MemberSlot, end: RankEnd): void {
    const rank = this.#rankOf.get(slot.number);
    if (rank !== undefined) this.#options.onMessage({ kind: 'exit', rank, code: end.exitCode });
    const isMember = slot.phase === 'member';
    if (end.exitCode === 0) {
      slot.phase = 'finished';
      this.#dismissNewcomers();
      return;
    }
    slot.phase = 'gone';
    if (end.terminated || this.#grace !== undefined) return;
    const hasStepped = this.#slots.some((each) => each.hasStepped);
    const occursAgain = !hasStepped && failureKind(end.error) !== undefined;
    if (occursAgain || (isMember && this.#bound !== undefined) || !this.#isEnough()) {
      this.#fail(slot, end);
      return;
    }
    this.#lost.push({ number: slot.number, end });
    const isOver = this.#options.stop.aborted || this.#has('finished');
    if (!isOver && this.#members.takeRestart()) slot.startAgain();
    if (isMember || this.#epoch < 0) this.#form(isMember ? describeEnd(end) : undefined);
  }

  /** Whether enough ranks are left, of which one has the state of the training, if there is one. */
  #isEnough(): boolean {
    const left = this.#slots.filter(
      ({ phase }) => phase !== 'gone' && (phase !== 'starting' || this.#epoch < 0),
    );
    if (left.length < this.#members.min) return false;
    return this.#enteredEpoch < 0 || left.some(({ hasEntered }) => hasEntered);
  }

  /**
   * Makes the membership of all ranks that are there and tells it to them. `lost` says why a rank of the membership
   * before is gone. The first membership waits for all ranks.
   */
  #form(lost: string | undefined): void {
    if (this.#grace !== undefined || (this.#epoch < 0 && this.#has('starting'))) return;
    const isOver = this.#has('finished');
    const next = this.#slots.filter(
      ({ phase }) => phase === 'member' || (phase === 'ready' && !isOver),
    );
    const isSame = next.length === this.#present.length && next.every(({ phase }) => phase === 'member');
    if (next.length === 0 || (isSame && lost === undefined)) return;
    this.#come.push(...next.filter(({ phase }) => phase === 'ready').map(({ number }) => number));
    this.#present = next;
    this.#epoch += 1;
    const worldSize = next.length;
    for (const [rank, slot] of next.entries()) {
      slot.phase = 'member';
      slot.order({ kind: 'membership', epoch: this.#epoch, rank, worldSize, lost });
    }
  }

  /** Ends ranks that would join others which have ended their training. */
  #dismissNewcomers(): void {
    for (const slot of this.#slots) {
      const isNew = slot.phase === 'member' && this.#epoch > 0 && !slot.hasEntered;
      if (slot.phase !== 'starting' && slot.phase !== 'ready' && !isNew) continue;
      // At the start, a rank may end while others still load the script.
      if (this.#epoch < 0) continue;
      slot.phase = 'gone';
      this.#ending.push(slot.terminate());
    }
  }

  #fail(slot: MemberSlot, end: RankEnd): void {
    this.#culprit = slot.number;
    this.#options.onFailure?.(slot.number, end);
    this.#release({ rank: slot.number, reason: describeEnd(end) });
  }

  /** Releases the ranks from their calls, and ends those that do not end by themselves. */
  #release({ rank, reason }: LaunchEnd): void {
    if (this.#grace !== undefined) return;
    this.#orderAll({ kind: 'abort', rank, reason });
    this.#grace = setTimeout(() => this.#force(), this.#options.graceMs ?? GRACE_MS);
  }

  #force(): void {
    this.#ending.push(Promise.all(this.#slots.map((slot) => slot.terminate())));
  }

  #orderAll(order: LauncherOrder): void {
    for (const slot of this.#slots) slot.order(order);
  }

  #has(phase: MemberSlot['phase']): boolean {
    return this.#slots.some((slot) => slot.phase === phase);
  }
}
