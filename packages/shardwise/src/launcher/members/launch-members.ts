import { worldSizeOf } from '../../rendezvous/generation.ts';
import type { RankMessage } from '../../run-state/run-message.ts';
import { describeEnd } from '../failure.ts';
import { failureKind } from '../failure-kind.ts';
import { GRACE_MS, type LaunchEnd, type LaunchOptions } from '../launch.ts';
import type { EnteredMessage, MemberMessage } from '../ranks/member-message.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import type { LaunchResult, RankEnd, RankOutcome } from '../ranks/rank-handle.ts';
import { chooseMembers, haveWholeState } from './choose-members.ts';
import { DueRestarts } from './due-restarts.ts';
import { memberStarts } from './member-start.ts';
import { MemberSlot, type SlotPlace } from './member-slot.ts';
import { changeReason, changeText, type LostRanks } from './membership-change.ts';
import type { MembersOptions } from './members-options.ts';
import { RemoteHosts } from './remote-hosts.ts';

/**
 * Runs a script on the ranks of all hosts, of which some may be lost while the others go on. Waits for all of them. It
 * runs on the host that leads; the launchers of other hosts do what it says (`followLeader`).
 *
 *   a rank is lost ── enough are left, and they survive ──► the others get a new membership at once, except those that
 *                  │                                        make up no whole replica, which wait
 *                  └─ otherwise ──► all ranks are ended, as `launch` does
 *   a host is lost ── as if all its ranks were lost at once, but none is started in their place
 *   a host comes   ── its ranks are started
 *   a rank comes   ──────────────► all get a new membership, to which they go over after a commit
 */
export async function launchMembers(
  options: LaunchOptions,
  members: MembersOptions,
): Promise<LaunchResult> {
  const { generation } = options;
  const starts = await memberStarts(options);
  const own = [...starts].map(([number, start]) => ({ number, host: generation.nodeRank, start }));
  return new MembersLaunch(options, members).run(own);
}

/** A membership that the launcher has told to its ranks. */
interface Told {
  /** The slots of the ranks, in rank order. */
  readonly slots: readonly MemberSlot[];
  /** Who was lost, and who has come, since the membership before. */
  readonly lost: readonly LostRanks[];
  readonly come: readonly number[];
  /** The slots whose ranks have joined the others. */
  readonly entered: Set<MemberSlot>;
}

class MembersLaunch {
  readonly #options: LaunchOptions;
  readonly #members: MembersOptions;
  #slots: readonly MemberSlot[] = [];
  /** The slots with which the generation has begun. */
  #first: ReadonlySet<MemberSlot> = new Set();
  readonly #hosts: RemoteHosts | undefined;
  /** How the ranks of this host ended, by their numbers. */
  readonly #outcomes = new Map<number, RankOutcome>();
  readonly #running = new Set<MemberSlot>();
  /** Settles when no rank runs. */
  readonly #over = Promise.withResolvers<void>();
  /** The memberships, by their epochs. */
  readonly #told: Told[] = [];
  /** The latest membership whose ranks have joined each other. */
  #entered = -1;
  /** The ranks of the slots in that membership, by the numbers of the slots. */
  #rankOf: ReadonlyMap<number, number> = new Map();
  /** What slots have sent since they joined others of whom the user does not know yet, by the numbers of the slots. */
  readonly #held = new Map<number, RankMessage[]>();
  readonly #due: DueRestarts;
  /** Who was lost since the latest membership. */
  #lost: LostRanks[] = [];
  /** The number of ranks that have the state together, as the first one has said. */
  #replicaSize: number | undefined;
  /** Why the ranks cannot go on without each other. */
  #bound: string | undefined;
  #culprit: number | undefined;
  #grace: NodeJS.Timeout | undefined;
  readonly #ending: Promise<unknown>[] = [];

  constructor(options: LaunchOptions, members: MembersOptions) {
    this.#options = options;
    this.#members = members;
    this.#due = new DueRestarts(members);
    const { store } = members;
    this.#hosts =
      store === undefined
        ? undefined
        : new RemoteHosts(store, options.generation, {
            onCame: (places) => {
              if (!this.#isOver && this.#grace === undefined) this.#take(places);
            },
            onLost: (host, reason) => this.#loseHost(host, reason),
          });
  }

  async run(own: readonly SlotPlace[]): Promise<LaunchResult> {
    const { stop, signal, ended, generation } = this.#options;
    const hosts = this.#hosts;
    this.#take([...own, ...(hosts?.begin(generation.nodeRank) ?? [])]);
    this.#first = new Set(this.#slots);
    this.#lost.push(...(hosts?.lostAtFirst() ?? []));
    if (hosts !== undefined) this.#members.onHosts((change) => hosts.change(change));
    const whenStopped = (): void => this.#endAll({ kind: 'stop' });
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
    const releaseIfRunning = (end: LaunchEnd): void => {
      if (!isOver) this.#release(end);
    };
    void ended?.then(releaseIfRunning);
    try {
      await this.#over.promise;
      return { outcomes: [...this.#outcomes.values()], culprit: this.#culprit };
    } finally {
      isOver = true;
      clearTimeout(this.#grace);
      for (const [listened, listener] of listeners) {
        listened.removeEventListener('abort', listener);
      }
      await Promise.all(this.#ending);
      await hosts?.close();
    }
  }

  /** Starts ranks, in the place of those that were there before with the same numbers. */
  #take(places: readonly SlotPlace[]): void {
    const slots = places.map(
      (place) =>
        new MemberSlot(place, {
          onMessage: (message) => this.#pass(message),
          onMember: (slot, message) => this.#hear(slot, message),
          onGone: (slot, end) => this.#lose([slot], end),
        }),
    );
    const numbers = new Set(places.map(({ number }) => number));
    this.#slots = [...this.#slots.filter(({ number }) => !numbers.has(number)), ...slots];
    for (const slot of slots) {
      this.#running.add(slot);
      void this.#awaitEnd(slot);
    }
  }

  async #awaitEnd(slot: MemberSlot): Promise<void> {
    const outcome = await slot.outcome;
    // Other hosts have the logs of their ranks, and say how these ended.
    if (slot.host === this.#options.generation.nodeRank) this.#outcomes.set(slot.number, outcome);
    this.#running.delete(slot);
    if (this.#running.size === 0) this.#over.resolve();
  }

  /** The ranks of a host are lost at once, so that no membership has some of them. */
  #loseHost(host: number, reason: string): void {
    const slots = this.#slots.filter((slot) => slot.host === host);
    for (const slot of slots) slot.abandon();
    const living = slots.filter(({ phase }) => phase !== 'finished' && phase !== 'gone');
    if (living.length === 0) return;
    const end = { exitCode: 1, error: undefined, fate: reason, terminated: false };
    this.#lose(living, end);
  }

  #hear(slot: MemberSlot, message: MemberMessage): void {
    switch (message.kind) {
      case 'ready':
        slot.phase = 'ready';
        if (message.replicaSize === null) {
          this.#bound ??= 'the script calls init(), and not survive()';
        }
        this.#replicaSize ??= message.replicaSize ?? 1;
        if (this.#options.stop.aborted) slot.order({ kind: 'stop' });
        this.#form(undefined);
        return;
      case 'entered':
        slot.hasEntered = true;
        this.#enter(slot, message);
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

  /** Passes on a message, with the rank that the slot has for the user. */
  #pass(message: RankMessage): void {
    const { rank: number } = message;
    const held = this.#held.get(number);
    if (held === undefined) {
      this.#options.onMessage({ ...message, rank: this.#rankOf.get(number) ?? number });
    } else held.push(message);
  }

  /** Passes on what a slot has sent since its rank joined others of whom the user does not know yet. */
  #passHeld({ number }: MemberSlot): void {
    const held = this.#held.get(number) ?? [];
    this.#held.delete(number);
    for (const message of held) this.#pass(message);
  }

  /**
   * Notes that a rank has joined the others of a membership, with a state of `step` updates. When all have, all reports
   * of the memberships before have come, and those of this one are passed on.
   */
  #enter(slot: MemberSlot, { epoch, step }: EnteredMessage): void {
    const told = this.#told[epoch];
    this.#passHeld(slot);
    if (told === undefined || epoch <= this.#entered) return;
    this.#held.set(slot.number, []);
    told.entered.add(slot);
    const { slots } = told;
    if (told.entered.size < slots.length) return;
    const since = this.#told.slice(this.#entered + 1, epoch + 1);
    this.#entered = epoch;
    // The members make updates from now on, which those that wait do not have.
    for (const other of this.#slots) if (!slots.includes(other)) other.hasEntered = false;
    this.#announce(since, slots, step);
    for (const each of slots) this.#passHeld(each);
    if (!this.#isChanging) this.#due.start();
    this.#form(undefined);
  }

  /**
   * Tells the user who trains from now on, if these are others than before. `since`: the memberships since those of whom
   * the user knows. `step`: undefined if the ranks do not say where they begin.
   */
  #announce(since: readonly Told[], slots: readonly MemberSlot[], step: number | undefined): void {
    const worldSize = slots.length;
    const atFirst = worldSizeOf(this.#options.generation);
    // Before the first membership, the user knows of the ranks with which the generation has begun.
    const known = this.#rankOf.size === 0 ? atFirst : this.#rankOf.size;
    this.#rankOf = new Map(slots.map(({ number }, rank) => [number, rank]));
    const come = new Set(since.flatMap((told) => told.come));
    const changed = changeReason(
      since.flatMap((told) => told.lost),
      { numbers: [...come], atFirst },
    );
    if (changed === '' && worldSize === known) return;
    const reason = changed || `${worldSize} ranks make up whole replicas`;
    const waiting = this.#slots.filter(({ waits }) => waits).map(({ number }) => number);
    this.#options.onMessage({ kind: 'membership', worldSize, step: step ?? 0, reason });
    this.#members.onNotice(changeText({ worldSize, step, reason, waiting }));
  }

  #lose(slots: readonly MemberSlot[], end: RankEnd): void {
    for (const slot of slots) {
      this.#passHeld(slot);
      const rank = this.#rankOf.get(slot.number);
      if (rank !== undefined) this.#options.onMessage({ kind: 'exit', rank, code: end.exitCode });
    }
    const areMembers = slots.some(({ phase }) => phase === 'member');
    if (end.exitCode === 0) {
      for (const slot of slots) slot.phase = 'finished';
      this.#due.giveUp();
      this.#dismissNewcomers();
      return;
    }
    for (const slot of slots) {
      slot.phase = 'gone';
      slot.waits = false;
    }
    const [first] = slots;
    const isEnding = this.#grace !== undefined || this.#options.signal.aborted;
    // This launcher ends ranks by itself only if all are to end, or if they would join others that have finished.
    const isOwnDoing = isEnding || (end.terminated && this.#has('finished'));
    if (first === undefined || isOwnDoing) return;
    const hasStepped = this.#slots.some((each) => each.hasStepped);
    const occursAgain = !hasStepped && failureKind(end.error) !== undefined;
    const lack = this.#lack();
    if (occursAgain || (areMembers && this.#bound !== undefined) || lack !== undefined) {
      if (lack !== undefined && (this.#replicaSize ?? 1) > 1) this.#members.onNotice(lack);
      this.#fail(first, end);
      return;
    }
    this.#lost.push({ numbers: slots.map(({ number }) => number), end });
    // A launcher that has ended its ranks by itself is about to end.
    if (!this.#isOver && !end.terminated) for (const slot of slots) this.#due.add(slot, end);
    if (areMembers || this.#told.length === 0)
      this.#form(areMembers ? describeEnd(end) : undefined);
    if (!this.#isChanging) this.#due.start();
  }

  /** Whether ranks have yet to join each other in the latest membership. */
  get #isChanging(): boolean {
    return this.#told.length - 1 > this.#entered;
  }

  /** Whether ranks that come have nothing more to do. */
  get #isOver(): boolean {
    return this.#options.stop.aborted || this.#has('finished');
  }

  /** Says why those that are left cannot go on: too few of them make up replicas, or none has a part of the state. */
  #lack(): string | undefined {
    const { min } = this.#members;
    const size = this.#replicaSize ?? 1;
    const left = this.#slots.filter(
      ({ phase }) => phase !== 'gone' && (phase !== 'starting' || this.#told.length === 0),
    );
    const count = chooseMembers(left, size).length;
    if (count < Math.max(min, 1)) {
      return `The ranks that are left make up ${count / size} replicas of ${size} ranks, so all of them end.`;
    }
    if (this.#entered < 0 || haveWholeState(left, size)) return undefined;
    return `No rank that is left has one of the ${size} parts of the state, so all of them end.`;
  }

  /**
   * Makes the membership of all ranks that are there and tells it to them. `lost` says why a rank of the membership
   * before is gone. The first membership waits for all ranks. Ranks that come wait until those before them have joined
   * each other: otherwise some ranks would wait in one membership for ranks that have gone over to the next one. Ranks that
   * make up no whole replica wait, too.
   */
  #form(lost: string | undefined): void {
    if (this.#grace !== undefined || (this.#told.length === 0 && this.#has('starting'))) return;
    if (lost === undefined && this.#isChanging) return;
    const replicaSize = this.#replicaSize ?? 1;
    const there = this.#slots.filter(
      ({ phase }) => phase === 'member' || (phase === 'ready' && !this.#has('finished')),
    );
    const next = chooseMembers(there, replicaSize);
    const joining = next.filter(({ phase }) => phase === 'ready');
    if (next.length === 0 || (joining.length === 0 && lost === undefined)) return;
    const epoch = this.#told.length;
    const come = joining
      .filter((slot) => !slot.waits && (epoch > 0 || !this.#first.has(slot)))
      .map(({ number }) => number);
    const told: Told = { slots: next, lost: this.#lost, come, entered: new Set() };
    this.#told.push(told);
    this.#lost = [];
    const worldSize = next.length;
    const hosts = next.map(({ host }) => host);
    for (const [rank, slot] of next.entries()) {
      slot.phase = 'member';
      slot.waits = false;
      const place = { rank, worldSize, replicaSize, hosts };
      slot.order({ kind: 'membership', epoch, place, lost });
    }
    for (const slot of there) {
      if (next.includes(slot)) continue;
      slot.waits = true;
      if (slot.phase === 'member') {
        slot.order({ kind: 'membership', epoch, place: undefined, lost });
      }
      slot.phase = 'ready';
    }
    // Ranks that call init() never say that they have joined the others.
    if (epoch === 0 && this.#bound !== undefined) this.#announce([told], next, undefined);
  }

  /** Ends ranks that would join others which have ended their training. */
  #dismissNewcomers(): void {
    // At the start, a rank may end while others still load the script.
    if (this.#told.length === 0) return;
    for (const slot of this.#slots) {
      // In the first membership, ranks that call init() never say that they have joined the others.
      const isNew = slot.phase === 'member' && !slot.hasEntered && this.#told.length > 1;
      if (slot.phase !== 'starting' && slot.phase !== 'ready' && !isNew) continue;
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
    this.#endAll({ kind: 'abort', rank, reason });
    this.#grace = setTimeout(() => this.#force(), this.#options.graceMs ?? GRACE_MS);
  }

  #force(): void {
    this.#ending.push(Promise.all(this.#slots.map((slot) => slot.terminate())));
  }

  /** Asks all ranks to end. None is started again. */
  #endAll(order: Exclude<LauncherOrder, { readonly kind: 'membership' }>): void {
    this.#due.giveUp();
    for (const slot of this.#slots) slot.order(order);
  }

  #has(phase: MemberSlot['phase']): boolean {
    return this.#slots.some((slot) => slot.phase === phase);
  }
}
