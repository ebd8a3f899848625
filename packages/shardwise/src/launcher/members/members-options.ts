import type { Store } from '@shardwise/core/extend';
import type { HostChange } from '../../rendezvous/generation.ts';

/** How a run goes on without ranks that are lost. */
export interface MembersOptions {
  /** The least number of ranks with which the others go on. */
  readonly min: number;
  /** Takes one restart of the budget. Returns false if none is left, so that the others go on without the rank. */
  readonly takeRestart: () => boolean;
  /** Tells the user who goes on. */
  readonly onNotice: (text: string) => void;
  /** The store of the hosts. Undefined if this host is the only one. */
  readonly store: Store | undefined;
  /** Hears of the hosts that go and come. */
  readonly onHosts: (listener: (change: HostChange) => void) => void;
}
