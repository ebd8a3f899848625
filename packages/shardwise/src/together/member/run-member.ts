import type {
  Members,
  MemberState,
  RefusedUpdate,
  RoundResult,
  RunDescription,
} from '@shardwise/strategies';
import type { Frame, Link } from '../protocol/link.ts';
import { PROTOCOL_VERSION } from '../protocol/limits.ts';
import {
  encodeMessage,
  type FromCoordinator,
  type FromMember,
  type NamedMember,
  parseFromCoordinator,
} from '../protocol/messages.ts';
import { decodePiece, framesOf, type Piece } from '../protocol/pieces.ts';
import { cannotConnect, leftError, lostError, refusedError } from './member-errors.ts';
import { DirectLinks } from './direct-links.ts';
import { MemberAudit } from './member-audit.ts';
import type { MemberOptions } from './member-options.ts';
import { Arriving, RoundView } from './round-view.ts';

/** A state that is on its way to this member. */
interface AwaitedState {
  readonly completed: number;
  readonly data: Arriving;
  hash: string | null;
}

/** The rounds that may end before this member takes their updates. After that it needs the state. */
const MAX_MISSED_ROUNDS = 16;
/** The bytes that may wait to be sent before the next piece does. */
const MAX_UNSENT_BYTES = 4 * 1024 * 1024;
const WAIT_FOR_SENDING_MS = 10;
const [FIRST_RETRY_MS, LAST_RETRY_MS] = [500, 15_000];
const REPORT_MS = 1000;

/**
 * A member of a run that has a coordinator. If its connection is lost, it connects again, and then takes the state of the
 * others as a newcomer does.
 */
export class RunMember implements Members {
  readonly specificationVersion = 1;
  readonly audits: MemberAudit;
  readonly #direct: DirectLinks | null;
  /** The round whose update the coordinator has asked for. */
  #relayed: number | null = null;
  readonly #options: MemberOptions;
  #link: Link | null = null;
  #number = 0;
  #description: { readonly run: RunDescription; readonly model: string } | null = null;
  /** The state that this member has. */
  #state: { readonly completed: number; readonly hash: string } | null = null;
  #hasBegun = false;
  #open: { readonly round: number; readonly size: number; readonly isIn: boolean } | null = null;
  #rounds = new Map<number, RoundView>();
  #awaited: AwaitedState | null = null;
  #arrived: MemberState | null = null;
  /** Who was promised a state that this member does not have yet. */
  #promised: readonly { readonly to: number; readonly completed: number }[] = [];
  #failure: Error | null = null;
  /** It was away from the run for so long that it needs the state when it goes on. */
  #isAway = false;
  #changed = Promise.withResolvers<void>();
  #samples = 0;
  #reportedMs = -Infinity;

  constructor(options: MemberOptions) {
    this.#options = options;
    this.#number = options.number ?? 0;
    this.audits = new MemberAudit({
      digest: options.digest,
      tell: (message) => this.#tell(message),
      number: () => this.#number,
    });
    const { connectDirectly: connect, delay } = options;
    const tell = (message: FromMember): void => this.#tell(message);
    const receive = (piece: Piece): void => this.#takeDirectly(piece);
    this.#direct = connect === null ? null : new DirectLinks({ connect, tell, receive, delay });
  }

  /** The number of this member. After a lost connection, its first rank has another one. */
  get number(): number {
    return this.#number;
  }

  /** The number of members in the present round. 0: it is not known, because there is no connection. */
  get groupSize(): number {
    return this.#open?.size ?? 0;
  }

  /** The number of members that get the updates of this one directly. The others get them by the coordinator. */
  get directLinks(): number {
    return this.#direct?.reached.length ?? 0;
  }

  /** Connects, and waits until the coordinator lets this member in. Rejects with RefusedError. */
  async connect(): Promise<void> {
    await this.#connectOnce();
    if (this.#failure !== null) throw this.#failure;
    if (this.#number === 0) throw cannotConnect(this.#options.url);
  }

  /** Leaves the run. Waiting calls reject. */
  close(): void {
    this.#fail(leftError(this.#options.url));
  }

  /** Says what the others may see of this member: samples that it has trained on since the last report, and the loss. */
  report({ loss, samples }: { readonly loss: number; readonly samples: number }): void {
    this.#samples += samples;
    const nowMs = this.#options.now();
    if (nowMs - this.#reportedMs < REPORT_MS) return;
    this.#reportedMs = nowMs;
    const isShown = Number.isFinite(loss) && Math.abs(loss) < 1e30;
    this.#tell({ kind: 'report', loss: isShown ? loss : null, samples: this.#samples });
  }

  async enter(run: RunDescription, own: MemberState): Promise<MemberState | null> {
    const { digest } = this.#options;
    const model = await digest(new TextEncoder().encode(run.model));
    this.#state = { completed: own.completed, hash: await digest(own.bytes) };
    this.#description = { run, model };
    this.#tellEnter();
    for (;;) {
      this.#requireHere();
      const state = this.#takeArrived();
      if (state !== null) return state;
      if (this.#hasBegun) return null;
      await this.#changed.promise;
    }
  }

  async exchange(round: number, message: Uint8Array): Promise<RoundResult> {
    const update = message.slice();
    const hash = await this.#options.digest(update);
    let sentBy: Link | null = null;
    for (;;) {
      const result = this.#result(round);
      if (result !== null) return result;
      const link = this.#link;
      if (link !== null && link !== sentBy && this.#isIn(round)) {
        sentBy = link;
        this.#roundView(round).keepOwn(this.#number, update);
        const [directTo, made] = [this.#direct?.reached ?? [], this.audits.madeOf(round)];
        this.#tell({ kind: 'commit', round, hash, directTo, made });
        if (this.#direct === null) this.#relayed = round;
        else this.#direct.send(round, update);
      } else if (link !== null && this.#relayed === round && this.#isIn(round)) {
        this.#relayed = null;
        const frames = framesOf({ kind: 'update', round, member: this.#number }, update);
        await this.#send(frames, () => this.#link === link && this.#isIn(round));
      } else await this.#changed.promise;
    }
  }

  async follow(completed: number): Promise<RoundResult | null> {
    for (;;) {
      const result = this.#result(completed);
      if (result !== null) return result;
      if (this.#isIn(completed)) return null;
      await this.#changed.promise;
    }
  }

  async took(state: MemberState): Promise<void> {
    const { completed } = state;
    const hash = await this.#options.digest(state.bytes);
    this.#state = { completed, hash };
    for (const round of this.#rounds.keys()) if (round < completed) this.#rounds.delete(round);
    this.#tell({ kind: 'took', completed, hash });
    const promised = this.#promised;
    this.#promised = promised.filter((each) => each.completed > completed);
    for (const each of promised) {
      if (each.completed < completed) this.#tell({ kind: 'cannotGive', to: each.to });
      // Training goes on while the state is on its way.
      if (each.completed === completed) this.#give(each.to, state).catch(() => undefined);
    }
  }

  refuse(round: number, refused: readonly RefusedUpdate[]): void {
    for (const { name, number, reason } of refused) {
      this.#options.onNotice(
        `round ${round}: the update of member ${number} (${name}) is not used: ${reason}`,
      );
    }
    this.#tell({ kind: 'refuse', round, numbers: refused.map(({ number }) => number) });
  }

  /** A plan prints its data. */
  toJSON(): object {
    return {};
  }

  /** The result of a round that has ended, or the state that has come in its place. Null: neither. */
  #result(round: number): RoundResult | null {
    this.#requireHere();
    const state = this.#takeArrived();
    if (state !== null) return { kind: 'state', state };
    const view = this.#rounds.get(round);
    if (view === undefined || !view.hasEnded) return null;
    const updates = view.updates();
    if (updates !== null) return { kind: 'updates', updates };
    // What was sent while this member was not there cannot be had again.
    this.#rounds.clear();
    this.#link?.close();
    return null;
  }

  #takeArrived(): MemberState | null {
    const state = this.#arrived;
    this.#arrived = null;
    if (state !== null) {
      this.#options.onNotice(
        `takes the state of the other members after ${state.completed} rounds`,
      );
    }
    return state;
  }

  #isIn(round: number): boolean {
    return this.#open !== null && this.#open.round === round && this.#open.isIn;
  }

  /** Goes on with a run from which this member was away. */
  #requireHere(): void {
    if (this.#failure !== null) throw this.#failure;
    if (!this.#isAway) return;
    this.#isAway = false;
    this.#reconnect().catch(() => undefined);
  }

  async #give(to: number, { completed, bytes }: MemberState): Promise<void> {
    const link = this.#link;
    const frames = framesOf({ kind: 'state', round: completed, member: to }, bytes);
    await this.#send(frames, () => link !== null && this.#link === link);
  }

  /** Sends frames as fast as the link takes them, while `isWanted`. */
  async #send(frames: Iterable<Frame>, isWanted: () => boolean): Promise<void> {
    for (const frame of frames) {
      while (isWanted() && (this.#link?.bufferedBytes ?? 0) > MAX_UNSENT_BYTES) {
        await this.#options.delay(WAIT_FOR_SENDING_MS);
      }
      if (!isWanted()) return;
      this.#link?.send(frame);
    }
  }

  #tell(message: FromMember): void {
    this.#link?.send(encodeMessage(message));
  }

  #tellEnter(): void {
    const [description, state] = [this.#description, this.#state];
    if (description === null || state === null) return;
    const { run, model } = description;
    const { settings, messageBytes, stateBytes } = run;
    const common = { model, settings, messageBytes: [...messageBytes], stateBytes };
    this.#tell({ kind: 'enter', ...common, ...state, computes: this.audits.computes });
  }

  /** Settles when the coordinator has answered, or the connection has ended. */
  #connectOnce(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { token, name } = this.#options;
    const direct = this.#direct !== null;
    const hello = { kind: 'hello', version: PROTOCOL_VERSION, token, name, direct } as const;
    const link = this.#options.connect({
      opened: () => link.send(encodeMessage(hello)),
      receive: (frame) => {
        this.#receive(link, frame);
        if (this.#link === link || this.#failure !== null) resolve();
      },
      closed: () => {
        resolve();
        this.#lost(link);
      },
    });
    return promise;
  }

  #lost(link: Link): void {
    if (this.#link !== link) return;
    this.#link = null;
    this.#open = null;
    this.#awaited = null;
    this.#arrived = null;
    this.#promised = [];
    this.audits.lost();
    this.#direct?.lost();
    this.#relayed = null;
    this.#rounds.clear();
    if (this.#failure !== null || this.#isAway) return;
    this.#options.onNotice('has lost the connection to the coordinator, and tries again');
    this.#reconnect().catch(() => undefined);
  }

  async #reconnect(): Promise<void> {
    const { reconnectTimeoutMs, delay, now, url } = this.#options;
    const endMs = now() + reconnectTimeoutMs;
    for (
      let waitMs = FIRST_RETRY_MS;
      this.#link === null;
      waitMs = Math.min(LAST_RETRY_MS, 2 * waitMs)
    ) {
      if (this.#failure !== null) return;
      if (now() > endMs) return this.#fail(lostError(url, reconnectTimeoutMs));
      await delay(waitMs);
      await this.#connectOnce();
    }
  }

  #receive(link: Link, frame: Frame): void {
    if (typeof frame === 'string') {
      const message = parseFromCoordinator(frame);
      if (message !== null) this.#follow(link, message);
    } else if (this.#link === link) {
      const piece = decodePiece(frame);
      if (piece !== null) this.#take(piece);
    }
    this.#wake();
  }

  #follow(link: Link, message: FromCoordinator): void {
    switch (message.kind) {
      case 'welcome':
        this.#link = link;
        this.#number = message.number;
        return this.#tellEnter();
      case 'refused':
        return this.#fail(refusedError(this.#options.url, message.reason, message.found));
      case 'begin':
        this.#hasBegun = true;
        this.#awaited = null;
        return undefined;
      case 'await':
        return this.#await(message.completed);
      case 'give':
        return this.#promise(message);
      case 'state':
        if (this.#awaited?.completed !== message.completed) return undefined;
        this.#awaited.hash = message.hash;
        return this.#checkAwaited();
      case 'meet':
        return this.#direct?.meet(message.number, message.begins);
      case 'signal':
        return this.#direct?.signal(message.from, message.text);
      case 'relay':
        this.#relayed = message.round;
        return undefined;
      case 'audit': {
        const { round, member, seed } = message;
        return this.audits.asked({ round, member, seed });
      }
      case 'round':
        return this.#begins(message.round, message.group);
      case 'closed':
        return this.#ended(message.round, message.updates);
      case 'alive':
        return undefined;
      default:
        return message satisfies never;
    }
  }

  #begins(round: number, group: readonly number[]): void {
    this.#open = { round, size: group.length, isIn: group.includes(this.#number) };
  }

  #await(completed: number): void {
    if (this.#description === null) return;
    const data = new Arriving(this.#description.run.stateBytes);
    this.#awaited = { completed, data, hash: null };
    this.#arrived = null;
    for (const round of this.#rounds.keys()) if (round < completed) this.#rounds.delete(round);
  }

  #promise({ to, completed }: { readonly to: number; readonly completed: number }): void {
    if (this.#state === null || completed <= this.#state.completed) {
      this.#tell({ kind: 'cannotGive', to });
    } else {
      // Who is promised another state does not wait for the one before.
      const others = this.#promised.filter((each) => each.to !== to);
      this.#promised = [...others, { to, completed }];
    }
  }

  #take(piece: Piece): void {
    if (piece.kind === 'update') {
      if (piece.round === this.#open?.round) this.#roundView(piece.round).receive(piece);
      return;
    }
    if (this.#awaited?.completed !== piece.round) return;
    if (this.#awaited.data.receive(piece)) this.#checkAwaited();
  }

  /** Takes a piece of another member, which may be some rounds ahead of what this one has heard. */
  #takeDirectly(piece: Piece): void {
    const { round, member } = piece;
    const first = this.#open?.round ?? this.#awaited?.completed;
    if (first === undefined || round < first || round > first + MAX_MISSED_ROUNDS) return;
    const update = this.#roundView(round).receiveDirectly(piece);
    if (update === null) return;
    const tell = async (): Promise<void> => {
      const hash = await this.#options.digest(update);
      this.#tell({ kind: 'got', round, from: member, hash });
    };
    tell().catch(() => undefined);
  }

  #checkAwaited(): void {
    const awaited = this.#awaited;
    if (awaited === null || awaited.hash === null || !awaited.data.isWhole) return;
    const { completed, hash, data } = awaited;
    const check = async (): Promise<void> => {
      const found = await this.#options.digest(data.bytes);
      // Another state may have been promised meanwhile.
      if (this.#awaited !== awaited) return;
      this.#awaited = null;
      if (found === hash) this.#arrived = { completed, bytes: data.bytes };
      else this.#tell({ kind: 'wrongState', completed });
      this.#wake();
    };
    check().catch((error: unknown) => {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    });
  }

  #ended(round: number, updates: readonly NamedMember[]): void {
    const first =
      this.#awaited?.completed ?? this.#arrived?.completed ?? this.#state?.completed ?? 0;
    if (round < first) return;
    this.#roundView(round).end(updates);
    // Others may send updates of rounds that have not begun.
    const missed = [...this.#rounds.values()].filter(({ hasEnded }) => hasEnded).length;
    if (missed <= MAX_MISSED_ROUNDS) return;
    this.#options.onNotice(`has missed ${missed} rounds, and will take the state of the others`);
    this.#isAway = true;
    this.#link?.close();
  }

  #roundView(round: number): RoundView {
    const { run } = this.#description ?? {};
    const { [round % (run?.messageBytes.length ?? 1)]: bytes = 0 } = run?.messageBytes ?? [];
    const view = this.#rounds.get(round) ?? new RoundView(bytes);
    this.#rounds.set(round, view);
    return view;
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#link?.close();
    this.#wake();
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
