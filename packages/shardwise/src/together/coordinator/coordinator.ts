import type { Frame, Link, LinkEvents } from '../protocol/link.ts';
import { PROTOCOL_VERSION } from '../protocol/limits.ts';
import {
  encodeMessage,
  type Enter,
  type FromMember,
  parseFromMember,
  type Refusal,
} from '../protocol/messages.ts';
import { decodePiece } from '../protocol/pieces.ts';
import type { RunStatus } from '../protocol/run-status.ts';
import { Audits } from './audits.ts';
import type { CoordinatorOptions } from './coordinator-options.ts';
import { differenceOf } from './difference-of.ts';
import { Introductions } from './introductions.ts';
import { Peer } from './peer.ts';
import { Run } from './run.ts';
import { memberStatus } from './status.ts';

/**
 * Introduces members to each other and passes on what they send. Its word decides which updates a round has; it computes
 * nothing with them. It has no clock of its own: `tick` looks at the time.
 */
export class Coordinator {
  readonly #options: CoordinatorOptions;
  readonly #peers = new Set<Peer>();
  readonly #audits: Audits;
  readonly #introductions = new Introductions();
  /** The tokens of those who have cheated. */
  readonly #excluded = new Set<number>();
  #run: Run | null = null;
  #latestNumber = 0;
  #relayedBytes = 0;

  constructor(options: CoordinatorOptions) {
    this.#options = options;
    const { audit: share, random, onNotice } = options;
    this.#audits = new Audits({ share, random, onNotice });
  }

  get status(): RunStatus {
    const peers = [...this.#peers];
    const all = peers.reduce((sum, { speed }) => sum + speed.samples, 0);
    return {
      completed: this.#run?.completed ?? 0,
      members: peers.map((peer) => memberStatus(peer, all, this.#introductions.wayOf(peer, peers))),
      relayedBytes: this.#relayedBytes,
      audits: this.#audits.counts,
    };
  }

  /** Somebody has connected. Its frames are those of a stranger until it has said the token. */
  connect(link: Link): LinkEvents {
    let peer: Peer | null = null;
    let isOpen = true;
    return {
      receive: (frame) => {
        if (!isOpen) return;
        if (peer !== null) this.#receive(peer, frame);
        else {
          peer = this.#admit(link, frame);
          isOpen = peer !== null;
        }
      },
      closed: () => {
        isOpen = false;
        if (peer !== null) this.#remove(peer, 'its connection was closed');
      },
    };
  }

  /** Ends what takes too long. Call it several times in each second. */
  tick(): void {
    for (const peer of this.#peers) this.#requireFast(peer);
    this.#run?.tick();
    this.#foundAgain();
  }

  #admit(link: Link, frame: Frame): Peer | null {
    const hello = typeof frame === 'string' ? parseFromMember(frame) : null;
    const refuse = (reason: Refusal, found: string): null => {
      link.send(encodeMessage({ kind: 'refused', reason, found }));
      link.close();
      return null;
    };
    if (hello?.kind !== 'hello') return refuse('protocol', 'a first message that is no hello');
    const token = this.#options.tokenOf(hello.token);
    if (token < 0) return refuse('token', 'another token');
    if (this.#excluded.has(token)) {
      return refuse(
        'audit',
        'the token of a member whose words about an update two others contradict',
      );
    }
    if (hello.version !== PROTOCOL_VERSION) {
      return refuse('version', `version ${hello.version} of the messages, not ${PROTOCOL_VERSION}`);
    }
    if (this.#peers.size >= this.#options.maxMembers) {
      return refuse('full', `${this.#peers.size} members, which are as many as may be`);
    }
    this.#latestNumber += 1;
    const peer = new Peer(
      { number: this.#latestNumber, name: hello.name, token, isDirect: hello.direct },
      link,
      this.#options.now(),
    );
    this.#peers.add(peer);
    peer.tell({ kind: 'welcome', number: peer.number });
    this.#notice(peer, 'has come');
    return peer;
  }

  #receive(peer: Peer, frame: Frame): void {
    if (!this.#peers.has(peer)) return;
    if (typeof frame !== 'string') return this.#pass(peer, frame);
    const message = parseFromMember(frame);
    if (message === null) return this.#refuse(peer, 'protocol', 'a message that no member sends');
    this.#follow(peer, message);
  }

  #follow(peer: Peer, message: FromMember): void {
    const run = this.#run;
    switch (message.kind) {
      case 'hello':
        return this.#refuse(peer, 'protocol', 'a second hello');
      case 'enter':
        return this.#enter(peer, message);
      case 'report':
        peer.loss = message.loss;
        peer.speed.report(message.samples, this.#options.now());
        return undefined;
      case 'alive':
        return undefined;
      case 'took':
        return run?.took(peer, message);
      case 'cannotGive':
        return run?.cannotGive(peer, message.to);
      case 'wrongState':
        return run?.wrongState(peer, message.completed);
      case 'got':
        return run?.got(peer, message);
      case 'linked':
        return run?.linked(peer, message.to, message.isOpen);
      case 'signal':
        return this.#introductions.signal(peer, message.to, message.text);
      case 'commit':
        if (run?.commits(peer, message) === false) {
          this.#refuse(peer, 'protocol', 'a word about an update that no member says');
        }
        return undefined;
      case 'audited':
        for (const { peer: other, found } of run?.audited(peer, message) ?? []) {
          this.#exclude(other, found);
        }
        return undefined;
      case 'cannotAudit':
        return run?.cannotAudit(peer, message);
      case 'refuse':
        for (const other of run?.refused(peer, message) ?? []) {
          this.#refuse(other, 'excluded', 'updates that most members refuse');
        }
        return undefined;
      default:
        return message satisfies never;
    }
  }

  #enter(peer: Peer, message: Enter): void {
    if (peer.description !== null) {
      this.#refuse(peer, 'protocol', 'a second model in one connection');
      return;
    }
    const found = this.#differenceOf(message);
    if (found !== null) {
      this.#refuse(peer, 'model', found);
      return;
    }
    peer.description = message;
    peer.state = { completed: message.completed, hash: message.hash };
    if (this.#run === null) this.#found(peer, message);
    else this.#run.add(peer);
    this.#introductions.add(peer);
  }

  /** Says why a member cannot take part, or returns null. */
  #differenceOf(message: Enter): string | null {
    if (this.#audits.isOn && message.computes === null) {
      return 'updates that others cannot make again, without the option `audit` of diloco, while the coordinator has --audit';
    }
    return this.#run === null ? null : differenceOf(this.#run.description, message);
  }

  /** Shuts out a member that may have left meanwhile, and whoever has its token, unless all have the same. */
  #exclude(peer: Peer, found: string): void {
    if (this.#options.tokens > 1) this.#excluded.add(peer.token);
    for (const other of this.#peers) {
      const isSame = other === peer || (this.#options.tokens > 1 && other.token === peer.token);
      if (isSame) this.#refuse(other, 'audit', found);
    }
  }

  /** The state of a member becomes that of a new run. */
  #found(peer: Peer, description: Enter): Run {
    this.#audits.forget();
    const run = new Run(description, peer, this.#options, {
      audits: this.#audits,
      introductions: this.#introductions,
    });
    this.#run = run;
    this.#notice(peer, `has the state of the run, after ${run.completed} rounds`);
    return run;
  }

  #pass(peer: Peer, frame: Uint8Array): void {
    const piece = decodePiece(frame);
    const isPassed = piece !== null && this.#run !== null && this.#run.pass(peer, piece);
    if (isPassed === false) {
      this.#refuse(peer, 'protocol', 'data that no member sends');
      return;
    }
    this.#relayedBytes += isPassed;
  }

  #requireFast(peer: Peer): void {
    const { bufferedBytes } = peer.link;
    if (bufferedBytes <= this.#options.maxBufferedBytes) return;
    this.#refuse(peer, 'slow', `${bufferedBytes} bytes on their way, more than the link carries`);
  }

  #refuse(peer: Peer, reason: Refusal, found: string): void {
    peer.tell({ kind: 'refused', reason, found });
    this.#remove(peer, found);
    peer.link.close();
  }

  #remove(peer: Peer, reason: string): void {
    if (!this.#peers.delete(peer)) return;
    this.#notice(peer, `has gone: ${reason}`);
    this.#introductions.remove(peer);
    if (peer.description !== null) this.#run?.remove(peer);
    this.#foundAgain();
  }

  /**
   * If nobody is left who has the state, the run goes back to the latest state of those who wait: of a member that has
   * lost its connection and come again, or of a new one.
   */
  #foundAgain(): void {
    const run = this.#run;
    if (run === null || run.hasState) return;
    this.#run = null;
    const [first, ...others] = run.waiting.toSorted(
      (a, b) => run.progressOf(b) - run.progressOf(a),
    );
    if (first === undefined || first.description === null) return;
    const next = this.#found(first, first.description);
    for (const other of others) next.add(other);
  }

  #notice({ number, name }: Peer, text: string): void {
    this.#options.onNotice?.(`member ${number} (${name}) ${text}`);
  }
}
