import { worldSizeOf } from '../../rendezvous/generation.ts';
import { describeEnd } from '../failure.ts';
import { failureKind } from '../failure-kind.ts';
import { heedSignals } from '../heed-signals.ts';
import { GRACE_MS, type LaunchEnd, type LaunchOptions } from '../launch.ts';
import type { EnteredMessage, MemberMessage } from '../ranks/member-message.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import { type LaunchResult, lostBy, type RankEnd, type RankOutcome } from '../ranks/rank-handle.ts';
import { type Break, BrokenConnections, describeBreak } from './broken-connections.ts';
import { chooseMembers, lackOf } from './choose-members.ts';
import { DueRestarts } from './due-restarts.ts';
import { memberStarts } from './member-start.ts';
import { MemberReports } from './member-reports.ts';
import { MemberSlot, type SlotPlace } from './member-slot.ts';
import { changeText } from './membership-change.ts';
import type { MembersOptions } from './members-options.ts';
import { RemoteHosts } from './remote-hosts.ts';
import { reasonOf, type Told, ToldMemberships } from './told-memberships.ts';

/**
 * Runs a script on the ranks of all hosts, of which some may be lost while the others go on. Waits for all of them. It
 * runs on the host that leads; the launchers of other hosts do what it says (`followLeader`).
 *
 *   a rank is lost ── enough are left, and they survive ──► the others get a new membership at once, except those that
 *                  │                                        make up no whole replica, which wait
 *                  └─ otherwise ──► all ranks are ended, as `launch` does
 *   a host is lost ── as if all its ranks were lost at once, but none is started in their place
 *   a host comes   ── its ranks are started
 *   a connection of two ranks breaks ──► they get a new membership of the same ranks, and connect again
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
  readonly #told = new ToldMemberships();
  readonly #reports: MemberReports;
  readonly #broken = new BrokenConnections((found) => this.#reconnect(found));
  readonly #due: DueRestarts;
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
    this.#reports = new MemberReports((message) => options.onMessage(message));
    const { store } = members;
    this.#hosts =
      store === undefined
        ? undefined
        : new RemoteHosts(store, options.generation, {
            onCame: (places) => {
              if (!this.#isOver && this.#grace === undefined) this.#take(places);
            },
            onLost: (host, reason) => this.#loseHost(host, reason),
            onNotice: (text) => members.onNotice(text),
          });
  }

  async run(own: readonly SlotPlace[]): Promise<LaunchResult> {
    const { ended, generation } = this.#options;
    const hosts = this.#hosts;
    this.#take([...own, ...(hosts?.begin(generation.nodeRank) ?? [])]);
    this.#first = new Set(this.#slots);
    this.#told.lose(...(hosts?.lostAtFirst() ?? []));
    if (hosts !== undefined) this.#members.onHosts((change) => hosts.change(change));
    const heedNoMore = heedSignals(this.#options, {
      onStop: () => this.#endAll({ kind: 'stop' }),
      onForce: () => this.#force(),
    });
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
      this.#broken.forget();
      heedNoMore();
      await Promise.all(this.#ending);
      await hosts?.close();
    }
  }

  /** Starts ranks, in the place of those that were there before with the same numbers. */
  #take(places: readonly SlotPlace[]): void {
    const slots = places.map(
      (place) =>
        new MemberSlot(place, {
          onMessage: (message) => this.#reports.pass(message),
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
    else if (!this.#isEnding && !this.#isOver && !this.#hasRunning(slot.host)) {
      // If the host was lost, whoever has its place now has not failed.
      if (slot.canStartAgain) this.#hosts?.giveUp(slot.host, describeEnd(outcome));
    }
  }

  /** The ranks of a host are lost at once, so that no membership has some of them. */
  #loseHost(host: number, reason: string): void {
    const slots = this.#slots.filter((slot) => slot.host === host);
    for (const slot of slots) slot.abandon();
    const living = slots.filter(({ phase }) => phase !== 'finished' && phase !== 'gone');
    if (living.length === 0) return;
    this.#lose(living, lostBy(reason));
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
      case 'committed':
        slot.hasCommitted = true;
        this.#hosts?.forgive(slot.host);
        return;
      case 'broken':
        if (message.epoch !== this.#told.count - 1) return;
        this.#broken.report(slot, message, this.#told.latest?.slots ?? []);
        return;
      default:
        message satisfies never;
    }
  }

  /** Has the members connect again, in a new membership, unless connections of one of them break again and again. */
  #reconnect(found: Break): void {
    // Members that have finished have closed their connections. The error of those that need them says so.
    if (this.#grace !== undefined || this.#bound !== undefined || this.#has('finished')) return;
    const blame = this.#broken.blame(found, performance.now());
    if (blame === undefined) {
      this.#told.break(found);
      this.#form(describeBreak(found));
      return;
    }
    const { slot, count } = blame;
    const times = `${count} times in ten minutes, the last time because of this: ${found.reason}`;
    if (slot !== undefined) this.#ending.push(slot.expel(`others could not reach it ${times}`));
    else this.#fail(0, lostBy(`ranks could not reach each other ${times}`));
  }

  /**
   * Notes that a rank has joined the others of a membership, with a state of `step` updates. When all have, all reports
   * of the memberships before have come, and those of this one are passed on.
   */
  #enter(slot: MemberSlot, { epoch, step }: EnteredMessage): void {
    const { isKnown, since } = this.#told.enter(slot, epoch);
    this.#reports.release(slot);
    if (!isKnown) return;
    this.#reports.hold(slot);
    if (since === undefined) return;
    const slots = since.at(-1)?.slots ?? [];
    // The members make updates from now on, which those that wait do not have.
    for (const other of this.#slots) if (!slots.includes(other)) other.hasEntered = false;
    this.#announce(since, step);
    for (const each of slots) this.#reports.release(each);
    if (!this.#told.isChanging) this.#due.start();
    this.#form(undefined);
  }

  /**
   * Tells the user who trains from now on, if these are others than before. `since`: the memberships since those of whom
   * the user knows. `step`: undefined if the ranks do not say where they begin.
   */
  #announce(since: readonly Told[], step: number | undefined): void {
    const slots = since.at(-1)?.slots ?? [];
    const worldSize = slots.length;
    const atFirst = worldSizeOf(this.#options.generation);
    // Before the first membership, the user knows of the ranks with which the generation has begun.
    const known = this.#reports.worldSize || atFirst;
    this.#reports.number(slots);
    const changed = reasonOf(since, atFirst);
    if (changed === '' && worldSize === known) return;
    const reason = changed || `${worldSize} ranks make up whole replicas`;
    const waiting = this.#slots.filter(({ waits }) => waits).map(({ number }) => number);
    this.#options.onMessage({ kind: 'membership', worldSize, step: step ?? 0, reason });
    this.#members.onNotice(changeText({ worldSize, step, reason, waiting }));
  }

  #lose(slots: readonly MemberSlot[], end: RankEnd): void {
    for (const slot of slots) {
      this.#reports.release(slot);
      this.#reports.exit(slot, end.exitCode);
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
    // This launcher ends ranks by itself only if all are to end, or if they would join others that have finished.
    const isOwnDoing = this.#isEnding || (end.terminated && this.#has('finished'));
    if (first === undefined || isOwnDoing) return;
    const hasStepped = this.#slots.some((each) => each.hasStepped);
    const occursAgain = !hasStepped && failureKind(end.error) !== undefined;
    const lack = this.#lack();
    if (occursAgain || (areMembers && this.#bound !== undefined) || lack !== undefined) {
      if (lack !== undefined) this.#members.onNotice(lack);
      this.#fail(first.number, end);
      return;
    }
    this.#told.lose({ numbers: slots.map(({ number }) => number), end });
    // A launcher that has ended its ranks by itself is about to end.
    if (!this.#isOver && !end.terminated) for (const slot of slots) this.#due.add(slot, end);
    if (areMembers || this.#told.count === 0) this.#form(areMembers ? describeEnd(end) : undefined);
    if (!this.#told.isChanging) this.#due.start();
  }

  /** Whether all ranks are to end. */
  get #isEnding(): boolean {
    return this.#grace !== undefined || this.#options.signal.aborted;
  }

  #hasRunning(host: number): boolean {
    return [...this.#running].some((slot) => slot.host === host);
  }

  /** Whether ranks that come have nothing more to do. */
  get #isOver(): boolean {
    return this.#options.stop.aborted || this.#has('finished');
  }

  /** Why those that are left cannot go on. */
  #lack(): string | undefined {
    const left = this.#slots.filter(
      ({ phase }) => phase !== 'gone' && (phase !== 'starting' || this.#told.count === 0),
    );
    const { haveEntered } = this.#told;
    return lackOf(left, { ...this.#members, replicaSize: this.#replicaSize ?? 1, haveEntered });
  }

  /**
   * Makes the membership of all ranks that are there and tells it to them. `lost` says why a rank of the membership
   * before is gone. The first membership waits for all ranks. Ranks that come wait until those before them have joined
   * each other: otherwise some ranks would wait in one membership for ranks that have gone over to the next one. Ranks that
   * make up no whole replica wait, too.
   */
  #form(lost: string | undefined): void {
    if (this.#grace !== undefined || (this.#told.count === 0 && this.#has('starting'))) return;
    if (lost === undefined && this.#told.isChanging) return;
    const replicaSize = this.#replicaSize ?? 1;
    const there = this.#slots.filter(
      ({ phase }) => phase === 'member' || (phase === 'ready' && !this.#has('finished')),
    );
    const next = chooseMembers(there, replicaSize);
    const joining = next.filter(({ phase }) => phase === 'ready');
    if (next.length === 0 || (joining.length === 0 && lost === undefined)) return;
    const epoch = this.#told.count;
    const lack = epoch === 0 ? this.#lack() : undefined;
    if (lack !== undefined) {
      // A host was lost before its ranks were started, or the script says only now how large a replica is.
      const { numbers: [number = 0] = [], end = lostBy(lack) } = this.#told.lost[0] ?? {};
      this.#members.onNotice(lack);
      this.#fail(number, end);
      return;
    }
    const come = joining
      .filter((slot) => !slot.waits && (epoch > 0 || !this.#first.has(slot)))
      .map(({ number }) => number);
    const told = this.#told.tell(next, come);
    this.#broken.forget();
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
    if (epoch === 0 && this.#bound !== undefined) this.#announce([told], undefined);
  }

  /** Ends ranks that would join others which have ended their training. */
  #dismissNewcomers(): void {
    // At the start, a rank may end while others still load the script.
    if (this.#told.count === 0) return;
    for (const slot of this.#slots) {
      // In the first membership, ranks that call init() never say that they have joined the others.
      const isNew = slot.phase === 'member' && !slot.hasEntered && this.#told.count > 1;
      if (slot.phase !== 'starting' && slot.phase !== 'ready' && !isNew) continue;
      slot.phase = 'gone';
      this.#ending.push(slot.terminate());
    }
  }

  #fail(number: number, end: RankEnd): void {
    this.#culprit = number;
    this.#options.onFailure?.(number, end);
    this.#release({ rank: number, reason: describeEnd(end) });
  }

  /** Releases the ranks from their calls, and ends those that do not end by themselves. */
  #release({ rank, reason }: LaunchEnd): void {
    if (this.#grace !== undefined) return;
    this.#broken.forget();
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
