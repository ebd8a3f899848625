import type { Audited, Made } from '../protocol/messages.ts';
import type { AuditCounts } from '../protocol/run-status.ts';
import { AuditSchedule } from './audit-schedule.ts';
import type { Peer } from './peer.ts';

/** What audits are made of. */
export interface AuditsOptions {
  /** The share of the updates that are made again by others. 0: none. */
  readonly share: number;
  /** Numbers from 0 below 1 that nobody can guess. */
  readonly random: () => number;
  readonly onNotice?: ((notice: string) => void) | undefined;
}

/** Whoever has said of an update what two others contradict, and what it was. */
export interface Contradicted {
  readonly peer: Peer;
  readonly found: string;
}

/** A member makes an update again. */
export interface Assigned {
  readonly auditor: Peer;
  readonly round: number;
  readonly member: number;
  readonly seed: number;
}

/** An update that is made again. */
interface Audit {
  readonly round: number;
  readonly audited: Peer;
  readonly made: Made;
  /** Whether it was drawn now. Otherwise it stands for an earlier one that nobody could make again. */
  readonly isDrawn: boolean;
  /** Who took part in the round and computes in the same way, and has not been asked. */
  readonly candidates: Set<Peer>;
  /** What its member and others say that it is. */
  readonly words: Map<Peer, string>;
  /** Who makes it again now, and in which round that began. */
  auditor: Peer | null;
  sinceRound: number;
}

/** Members keep the states with which so many rounds began. */
const MAX_ROUNDS = 3;

/**
 * Has some updates made again by others, who must find the same bits. If they find others, one more member is asked, until
 * two say the same: what one member says alone shuts out nobody.
 */
export class Audits {
  readonly #options: AuditsOptions;
  readonly #schedules = new WeakMap<Peer, AuditSchedule>();
  /** Whose next update is made again, because nobody could do it with the one before. */
  readonly #due = new WeakSet<Peer>();
  /** Of whom it was said that nobody else computes in the same way. */
  readonly #alone = new WeakSet<Peer>();
  readonly #open = new Set<Audit>();
  #counts = { updates: 0, made: 0, missed: 0, disputed: 0 };

  constructor(options: AuditsOptions) {
    this.#options = options;
  }

  get isOn(): boolean {
    return this.#options.share > 0;
  }

  get counts(): AuditCounts {
    return { share: this.#options.share, ...this.#counts };
  }

  /**
   * A round has ended. Draws which of its updates are made again, and by whom of `free`, who stand at its end. Returns the
   * tasks, also those of earlier rounds that nobody has done.
   */
  begin(round: number, whole: readonly Peer[], free: readonly Peer[]): readonly Assigned[] {
    if (!this.isOn) return [];
    for (const audited of whole) {
      const { commit } = audited;
      if (commit === null || commit.round !== round || commit.made === null) continue;
      this.#counts.updates += 1;
      const [isDrawn, isDue] = [this.#scheduleOf(audited).draw(), this.#due.delete(audited)];
      if (!isDrawn && !isDue) continue;
      const candidates = whole.filter(
        (each) => each !== audited && each.computes === audited.computes,
      );
      this.#open.add({
        round,
        audited,
        made: commit.made,
        isDrawn,
        candidates: new Set(candidates),
        words: new Map([[audited, wordOf(commit.hash, commit.made)]]),
        auditor: null,
        sinceRound: round,
      });
    }
    const busy = new Set([...this.#open].map(({ auditor }) => auditor));
    const unused = new Set(free.filter((each) => !busy.has(each)));
    return [...this.#open].flatMap((audit) => this.#assign(audit, round, unused));
  }

  /** A member has made an update again. Returns those whose words two others contradict. */
  answer(auditor: Peer, answer: Audited): readonly Contradicted[] {
    const audit = this.#openOf(auditor, answer);
    if (audit === undefined) return [];
    audit.auditor = null;
    this.#counts.made += 1;
    audit.words.set(auditor, wordOf(answer.hash, answer));
    const votes = [...audit.words.values()];
    const word = votes.find((each, at) => votes.indexOf(each) < at);
    if (word === undefined) {
      if (audit.words.size === 2) this.#disputed(audit, auditor);
      return [];
    }
    this.#open.delete(audit);
    return [...audit.words].flatMap(([peer, own]): readonly Contradicted[] => {
      if (own === word) return [];
      const update = `the update of round ${audit.round}`;
      const found =
        peer === audit.audited
          ? `${update}, of which two others who have made it again have other bits`
          : `an audit of ${update} of member ${audit.audited.number}, of which two others have other bits`;
      return [{ peer, found }];
    });
  }

  /** Whether a member was asked for this update, which it cannot make again. */
  cannot(auditor: Peer, of: { readonly round: number; readonly member: number }): boolean {
    const audit = this.#openOf(auditor, of);
    if (audit === undefined) return false;
    audit.auditor = null;
    return true;
  }

  /** A member has left. Its own updates are still made again, and its audits by others. */
  remove(peer: Peer): void {
    for (const audit of this.#open) {
      audit.candidates.delete(peer);
      if (audit.auditor === peer) audit.auditor = null;
    }
  }

  /** A run begins. What was open belongs to another one, whose states are gone. */
  forget(): void {
    this.#open.clear();
  }

  /** Who has been at an audit for too many rounds. They are not waited for any longer. */
  late(round: number): readonly Peer[] {
    return [...this.#open].flatMap((audit) => {
      const { auditor, sinceRound } = audit;
      if (auditor === null || round - sinceRound < MAX_ROUNDS) return [];
      audit.auditor = null;
      return [auditor];
    });
  }

  #scheduleOf(peer: Peer): AuditSchedule {
    const { share, random } = this.#options;
    const known = this.#schedules.get(peer) ?? new AuditSchedule(share, random);
    this.#schedules.set(peer, known);
    return known;
  }

  #openOf(
    auditor: Peer,
    { round, member }: { readonly round: number; readonly member: number },
  ): Audit | undefined {
    return [...this.#open].find(
      (each) => each.auditor === auditor && each.round === round && each.audited.number === member,
    );
  }

  /** Gives an update to somebody who is free. Without anybody, it waits, until nobody has its state any more. */
  #assign(audit: Audit, round: number, unused: Set<Peer>): readonly Assigned[] {
    if (audit.auditor !== null) return [];
    const able = [...audit.candidates].filter((each) => unused.has(each));
    const auditor = able[Math.floor(this.#options.random() * able.length)];
    const isLast = round - audit.round >= MAX_ROUNDS - 1 || audit.candidates.size === 0;
    if (auditor === undefined) {
      if (isLast) this.#giveUp(audit);
      return [];
    }
    audit.auditor = auditor;
    audit.sinceRound = round;
    audit.candidates.delete(auditor);
    unused.delete(auditor);
    this.#alone.delete(audit.audited);
    return [{ auditor, round: audit.round, member: audit.audited.number, seed: audit.made.seed }];
  }

  #giveUp(audit: Audit): void {
    this.#open.delete(audit);
    const { audited, words, round, isDrawn } = audit;
    if (words.size > 1) {
      this.#notice(
        `nobody is left who could decide about the update of round ${round} of member ${audited.number} (${audited.name})`,
      );
      return;
    }
    if (isDrawn) this.#counts.missed += 1;
    this.#due.add(audited);
    if (this.#alone.has(audited)) return;
    this.#alone.add(audited);
    this.#notice(
      `nobody is free who computes in the same way as member ${audited.number} (${audited.name}), so that its updates are not made again`,
    );
  }

  #disputed({ round, audited }: Audit, auditor: Peer): void {
    this.#counts.disputed += 1;
    this.#notice(
      `member ${auditor.number} (${auditor.name}) has other bits for the update of round ${round} of member ${audited.number} (${audited.name}); another one is asked`,
    );
  }

  #notice(text: string): void {
    this.#options.onNotice?.(text);
  }
}

function wordOf(hash: string, { middle }: Pick<Made, 'middle'>): string {
  return `${hash} ${middle}`;
}
