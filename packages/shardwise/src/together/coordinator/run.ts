import type { Audited, Commit, Enter, Refuse } from '../protocol/messages.ts';
import { encodePiece, type Piece } from '../protocol/pieces.ts';
import type { Audits, Contradicted } from './audits.ts';
import type { CoordinatorOptions } from './coordinator-options.ts';
import type { Introductions } from './introductions.ts';
import type { Peer, StateHash } from './peer.ts';
import { Round } from './round.ts';
import { StateHashes } from './state-hashes.ts';

/** How long an update may go from member to member before the coordinator passes it on. */
const MAX_DIRECT_MS = 10_000;
/** It must be there before the round is over. */
const MAX_DIRECT_SHARE = 1 / 4;

type Times = Pick<CoordinatorOptions, 'roundTimeoutMs' | 'stateTimeoutMs' | 'now'>;

/**
 * The rounds of one run, one after the other. A round's group is who has the state when it begins. It ends when all of
 * them have sent their updates or have left, or some time after the first update. Its updates are those that were complete
 * by then. Who was late catches up, and who is new or has another state gets the state of a member.
 */
export class Run {
  readonly description: Enter;
  readonly #times: Times;
  readonly #audits: Audits;
  readonly #introductions: Introductions;
  readonly #peers = new Set<Peer>();
  readonly #hashes = new StateHashes();
  #round: Round;
  /** Who refuses whose update of the latest round. */
  #refusals = new Map<number, Set<Peer>>();

  /** `founder` has the state with which the run begins. */
  constructor(
    description: Enter,
    founder: Peer,
    times: Times,
    { audits, introductions }: { readonly audits: Audits; readonly introductions: Introductions },
  ) {
    this.description = description;
    this.#times = times;
    this.#audits = audits;
    this.#introductions = introductions;
    const state = founder.state ?? { completed: description.completed, hash: description.hash };
    this.#hashes.declare(state);
    this.#peers.add(founder);
    founder.place = { kind: 'ready' };
    founder.tell({ kind: 'begin', completed: state.completed });
    this.#round = this.#newRound(state.completed);
    this.#begin();
  }

  /** The number of rounds that have ended. */
  get completed(): number {
    return this.#round.number;
  }

  /** Whether somebody is there who has the state, or can compute it. */
  get hasState(): boolean {
    return [...this.#peers].some((peer) => this.#hasState(peer));
  }

  /** Who waits for the state, in the order of arrival. */
  get waiting(): readonly Peer[] {
    return this.#all('waiting');
  }

  /** The number of rounds in the state that a member could go on from. -1: it is not one of this run. */
  progressOf({ state }: Peer): number {
    if (state === null || this.#hashes.hashOf(state.completed) !== state.hash) return -1;
    return state.completed;
  }

  /** A member has come. It gets the state, and takes part when the next round after that begins. */
  add(peer: Peer): void {
    this.#peers.add(peer);
    this.#await(peer);
  }

  remove(peer: Peer): void {
    this.#peers.delete(peer);
    this.#audits.remove(peer);
    this.#round.group.delete(peer);
    for (const other of this.waiting) {
      if (other.place.kind !== 'waiting') continue;
      if (other.place.awaited?.from === peer) this.#await(other);
    }
    this.#settle();
  }

  /** A member says what its state is. */
  took(peer: Peer, state: StateHash): void {
    const { place } = peer;
    if (place.kind === 'admitted') return;
    peer.state = { completed: state.completed, hash: state.hash };
    if (place.kind === 'waiting') {
      if (place.awaited === null || place.awaited.completed !== state.completed) return;
      if (this.#hashes.hashOf(state.completed) !== state.hash) return;
      peer.avoided.clear();
      peer.place = { kind: 'behind' };
    }
    const others = [...this.#peers].filter((other) => other !== peer);
    const isAlone = !others.some((other) => this.#hasState(other));
    if (isAlone && state.completed > this.completed) this.#beginAgain(peer.state);
    this.#hashes.report(peer, state);
    const known = this.#hashes.hashOf(state.completed);
    if (known !== undefined && known !== state.hash) this.#await(peer);
    this.#settle();
  }

  /**
   * The only member that has the state came again before an outer step whose updates it had, and has taken this step now.
   * Nobody can send an update of the present round any more.
   */
  #beginAgain(state: StateHash): void {
    this.#hashes.declare(state);
    this.#round = this.#newRound(state.completed);
    this.#begin();
    for (const peer of this.waiting) this.#await(peer);
  }

  /** A member that should send its state has gone on already. */
  cannotGive(peer: Peer, to: number): void {
    for (const other of this.waiting) {
      if (other.number !== to || other.place.kind !== 'waiting') continue;
      if (other.place.awaited?.from === peer) this.#await(other);
    }
  }

  /** The state that has arrived is not that of the run. */
  wrongState(peer: Peer, completed: number): void {
    const awaited = peer.place.kind === 'waiting' ? peer.place.awaited : null;
    if (awaited === null || awaited.completed !== completed) return;
    // Before it has come, the member that was asked would send it twice, which nobody may.
    if (awaited.received < this.description.stateBytes) return;
    peer.avoided.add(awaited.from);
    this.#await(peer);
  }

  /** A member says what its update is. Returns false for what no member would say. */
  commits(peer: Peer, commit: Commit): boolean {
    const present = this.#round;
    if (commit.round > present.number || peer.place.kind === 'admitted') return false;
    // It was late, or is not in the group.
    if (commit.round < present.number || !present.group.has(peer)) return true;
    if (!present.commit(peer, commit, this.#times.now())) return false;
    this.#settle();
    return true;
  }

  /** A member has the update of another one, which was sent to it directly. */
  got(peer: Peer, { round, from, hash }: { round: number; from: number; hash: string }): void {
    const present = this.#round;
    const sender = [...present.group].find(({ number }) => number === from);
    if (round !== present.number || sender === undefined || !peer.follows(round)) return;
    present.claim(sender, peer, hash);
    this.#settle();
  }

  /** A member says whether it reaches another one directly. */
  linked(peer: Peer, to: number, isOpen: boolean): void {
    this.#introductions.linked(peer, to, isOpen);
    this.#settle();
  }

  /** A member has made the update of another one again. Returns those whose words two others contradict. */
  audited(peer: Peer, answer: Audited): readonly Contradicted[] {
    const contradicted = this.#audits.answer(peer, answer);
    this.#hasAudited(peer);
    return contradicted;
  }

  /** A member cannot make an update again. */
  cannotAudit(peer: Peer, of: { readonly round: number; readonly member: number }): void {
    if (this.#audits.cannot(peer, of)) this.#hasAudited(peer);
  }

  /** Counts who does not use whose update. Returns those whom more than half of the members refuse. */
  refused(peer: Peer, { round, numbers }: Refuse): readonly Peer[] {
    if (round !== this.completed - 1 || !this.#hasState(peer)) return [];
    const needed = this.#all('ready').length / 2;
    return numbers.flatMap((number) => {
      const by = this.#refusals.get(number) ?? new Set();
      this.#refusals.set(number, by.add(peer));
      const other = [...this.#peers].find((each) => each.number === number);
      return other !== undefined && by.size > needed ? [other] : [];
    });
  }

  /** Passes on a piece. Returns the bytes that were sent, or false for what no member would send. */
  pass(peer: Peer, piece: Piece): number | false {
    return piece.kind === 'update' ? this.#passUpdate(peer, piece) : this.#passState(peer, piece);
  }

  tick(): void {
    const now = this.#times.now();
    const { firstWholeMs } = this.#round;
    if (firstWholeMs !== null && now - firstWholeMs >= this.#times.roundTimeoutMs) this.#end();
    for (const peer of this.waiting) {
      if (peer.place.kind !== 'waiting') continue;
      const { awaited } = peer.place;
      if (awaited === null) this.#await(peer);
      else if (awaited.deadlineMs !== null && now >= awaited.deadlineMs) {
        // Members whose messages overlap their updates may all take the outer step later.
        if (!this.#hashes.isReported(awaited.completed)) {
          awaited.deadlineMs = now + this.#times.stateTimeoutMs;
          continue;
        }
        peer.avoided.add(awaited.from);
        this.#await(peer);
      }
    }
    this.#settle();
  }

  #passUpdate(peer: Peer, { round, offset, bytes }: Piece): number | false {
    const present = this.#round;
    if (round > present.number || peer.place.kind === 'admitted') return false;
    // It was late, or is not in the group.
    if (round < present.number || !present.group.has(peer)) return 0;
    if (this.#audits.isOn && !isAuditable(peer, round)) return false;
    const receivers = [...this.#peers].filter(
      (other) => other !== peer && other.follows(round) && present.isPassedTo(peer, other),
    );
    if (!present.receive(peer, offset, bytes, this.#times.now())) return false;
    const frame = encodePiece({ kind: 'update', round, member: peer.number, offset, bytes });
    for (const other of receivers) other.link.send(frame);
    this.#settle();
    return receivers.length * bytes.byteLength;
  }

  #passState(peer: Peer, { round, member, offset, bytes }: Piece): number | false {
    if (!this.#hasState(peer)) return false;
    const other = [...this.#peers].find((each) => each.number === member);
    const awaited = other?.place.kind === 'waiting' ? other.place.awaited : null;
    // The member has gone, or was promised the state of another one meanwhile.
    if (other === undefined || awaited === null) return 0;
    if (awaited.from !== peer || awaited.completed !== round) return 0;
    const received = awaited.received + bytes.byteLength;
    if (offset !== awaited.received || received > this.description.stateBytes) return false;
    awaited.received = received;
    const isWhole = received === this.description.stateBytes;
    awaited.deadlineMs = isWhole ? Infinity : this.#times.now() + this.#times.stateTimeoutMs;
    other.link.send(encodePiece({ kind: 'state', round, member: peer.number, offset, bytes }));
    return bytes.byteLength;
  }

  /** Asks a member for the state after the present round, from which `peer` can follow. */
  #await(peer: Peer): void {
    peer.place = { kind: 'waiting', awaited: null };
    this.#round.group.delete(peer);
    const others = this.#all('ready').filter((other) => other !== peer);
    if (others.every((each) => peer.avoided.has(each))) peer.avoided.clear();
    const [from] = others
      .filter((each) => !peer.avoided.has(each))
      .toSorted((a, b) => a.given - b.given || a.number - b.number);
    if (from === undefined) return;
    from.given += 1;
    const completed = this.completed + 1;
    const awaited = { completed, from, received: 0, deadlineMs: null };
    peer.place = { kind: 'waiting', awaited };
    peer.tell({ kind: 'await', completed, from: from.number });
    from.tell({ kind: 'give', completed, to: peer.number });
  }

  /** Draws all conclusions from what has changed. */
  #settle(): void {
    for (const { state, wrong } of this.#hashes.decide(this.#peers)) {
      for (const peer of this.waiting) this.#tellState(peer, state);
      for (const peer of wrong) {
        if (this.#peers.has(peer) && this.#hasState(peer)) this.#await(peer);
      }
    }
    for (const peer of this.#all('behind')) {
      const { state } = peer;
      const isThere = state?.completed === this.completed;
      if (isThere && this.#hashes.hashOf(state.completed) === state.hash) {
        peer.place = { kind: 'ready' };
      }
    }
    this.#route();
    const round = this.#round;
    const hasBegun = round.group.size > 0 || round.whole.length > 0;
    if (hasBegun && round.isComplete) this.#end();
    else if (!hasBegun && this.#all('ready').length > 0) {
      this.#round = this.#newRound(round.number);
      this.#begin();
    }
  }

  /** Asks for updates that go from member to member and do not reach all of them. */
  #route(): void {
    const round = this.#round;
    const nowMs = this.#times.now();
    const maxMs = Math.min(MAX_DIRECT_MS, MAX_DIRECT_SHARE * this.#times.roundTimeoutMs);
    const followers = [...this.#peers].filter((peer) => peer.follows(round.number));
    for (const peer of round.underWay) {
      // Whoever of two is wrong, the update goes through the coordinator, which knows its hash.
      for (const other of round.takeClaims(peer)) this.#introductions.unlink(peer, other);
      const lacking = round.lacking(peer, followers);
      if (lacking.length === 0) round.complete(peer, nowMs);
      if (round.elapsedMs(peer, nowMs) >= maxMs) {
        for (const other of lacking) this.#introductions.unlink(peer, other);
      }
      const direct = peer.commit?.directTo ?? [];
      const apart = lacking.filter(
        (other) => !direct.includes(other.number) || !this.#introductions.areLinked(peer, other),
      );
      if (apart.length > 0 && round.beginPass(peer, apart)) {
        peer.tell({ kind: 'relay', round: round.number });
      }
    }
  }

  /** Ends the round, and begins the next one with those who are there. */
  #end(): void {
    const round = this.#round;
    const { whole } = round;
    for (const peer of whole) peer.updates += 1;
    for (const peer of round.group) if (!whole.includes(peer)) peer.place = { kind: 'behind' };
    for (const peer of this.#audits.late(round.number)) this.#hasAudited(peer);
    const ready = this.#all('ready');
    for (const { auditor, ...task } of this.#audits.begin(round.number, whole, ready)) {
      auditor.place = { kind: 'auditing' };
      auditor.tell({ kind: 'audit', ...task });
    }
    const updates = whole.map(({ number, name }) => ({ number, name }));
    for (const peer of this.#peers) peer.tell({ kind: 'closed', round: round.number, updates });
    const completed = round.number + 1;
    this.#hashes.expect(completed, whole);
    this.#refusals = new Map();
    const deadlineMs = this.#times.now() + this.#times.stateTimeoutMs;
    for (const { place } of this.#peers) {
      if (place.kind !== 'waiting' || place.awaited === null) continue;
      place.awaited.deadlineMs ??= deadlineMs;
    }
    this.#round = this.#newRound(completed);
    this.#begin();
  }

  /** A member follows the run again. */
  #hasAudited(peer: Peer): void {
    if (peer.place.kind !== 'auditing') return;
    peer.place = { kind: 'behind' };
    this.#settle();
  }

  #newRound(number: number): Round {
    const { messageBytes } = this.description;
    const { [number % messageBytes.length]: bytes = 0 } = messageBytes;
    return new Round(number, bytes, this.#all('ready'));
  }

  #begin(): void {
    const { number: round } = this.#round;
    const group = [...this.#round.group].map(({ number }) => number);
    for (const peer of this.#peers) peer.tell({ kind: 'round', round, group });
  }

  #tellState(peer: Peer, { completed, hash }: StateHash): void {
    if (peer.place.kind !== 'waiting' || peer.place.awaited?.completed !== completed) return;
    peer.tell({ kind: 'state', completed, hash });
  }

  #hasState({ place }: Peer): boolean {
    return place.kind === 'ready' || place.kind === 'behind' || place.kind === 'auditing';
  }

  #all(kind: Peer['place']['kind']): readonly Peer[] {
    return [...this.#peers].filter(({ place }) => place.kind === kind);
  }
}

function isAuditable({ commit }: Peer, round: number): boolean {
  return commit?.round === round && commit.made !== null;
}
