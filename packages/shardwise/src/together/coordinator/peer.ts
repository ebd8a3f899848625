import {
  type Commit,
  encodeMessage,
  type Enter,
  type FromCoordinator,
} from '../protocol/messages.ts';
import type { Link } from '../protocol/link.ts';
import { Speed } from './speed.ts';

/** A state by its hash, and the number of rounds that led to it. */
export interface StateHash {
  readonly completed: number;
  readonly hash: string;
}

/** A state that a member waits for. */
interface Awaited {
  readonly completed: number;
  /** The member that sends it. */
  readonly from: Peer;
  received: number;
  /** When another member is asked, if one says that it has this state. Null: the round before has not ended. */
  deadlineMs: number | null;
}

/** Where a member stands. */
export type Place =
  /** It has been let in, and has not said what it trains. */
  | { readonly kind: 'admitted' }
  /** It needs the state of another one. Null: nobody is there who could send it. */
  | { readonly kind: 'waiting'; readonly awaited: Awaited | null }
  /** It has the state of the present round. */
  | { readonly kind: 'ready' }
  /** It has the state of an earlier round, and catches up. */
  | { readonly kind: 'behind' }
  /** It makes the update of another one again. */
  | { readonly kind: 'auditing' };

/** A member as its coordinator sees it. */
export class Peer {
  readonly number: number;
  readonly name: string;
  /** The place of its token among those of the run. */
  readonly token: number;
  /** Whether it can reach other members without the coordinator. It then sends its updates here only when it is asked. */
  readonly isDirect: boolean;
  readonly link: Link;
  readonly speed: Speed;
  place: Place = { kind: 'admitted' };
  /** What it trains. Null before it has said so. */
  description: Enter | null = null;
  /** What it has said about its latest update. */
  commit: Commit | null = null;
  /** The latest state that it had. */
  state: StateHash | null = null;
  /** The number of states that it has been asked for. */
  given = 0;
  /** The members whose states did not arrive, or were wrong. */
  readonly avoided: Set<Peer> = new Set<Peer>();
  /** The number of rounds with an update of this member. */
  updates = 0;
  loss: number | null = null;

  constructor(
    { number, name, token, isDirect }: Pick<Peer, 'number' | 'name' | 'token' | 'isDirect'>,
    link: Link,
    nowMs: number,
  ) {
    this.number = number;
    this.name = name;
    this.token = token;
    this.isDirect = isDirect;
    this.link = link;
    this.speed = new Speed(nowMs);
  }

  /** How it computes. Members with the same text get the same bits. Null: others cannot make its updates again. */
  get computes(): string | null {
    return this.description?.computes ?? null;
  }

  tell(message: FromCoordinator): void {
    this.link.send(encodeMessage(message));
  }

  /** Whether it gets the updates of a round. */
  follows(round: number): boolean {
    const { place } = this;
    if (place.kind === 'waiting') return place.awaited !== null && place.awaited.completed <= round;
    return place.kind !== 'admitted';
  }
}
