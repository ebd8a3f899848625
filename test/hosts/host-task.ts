import type { ShmWorld } from '@shardwise/collectives/node';
import type { DType } from '@shardwise/core/spec';
import type { ErrorReport, ProcessGroupScenario } from '@shardwise/testing/ranks';

export const SECRET = 'the secret of a test';

/** The timeout is far beyond the limit of heartbeats. A rank that has noticed nothing else ends with it. */
export const REDUCE_TIMEOUT_MS = 20_000;

/** The task of a rank once it has joined. */
export type HostTask =
  | { readonly kind: 'scenario'; readonly scenario: ProcessGroupScenario }
  /** All-reduces the values of `contribution` once and returns their bytes. */
  | { readonly kind: 'reduce'; readonly dtype: DType; readonly elements: number }
  /** All-reduces until a call fails. No call takes longer than REDUCE_TIMEOUT_MS. */
  | { readonly kind: 'forever'; readonly elements: number };

/** What a rank is told for each world that it joins. */
export interface HostWorld {
  readonly rank: number;
  /** The number of each rank's host. */
  readonly hosts: readonly number[];
  /** The address at which the other hosts reach the rank's host. */
  readonly address: string;
  readonly store: { readonly host: string; readonly port: number };
  readonly epoch: number;
  /** The world of shared memory on the rank's host. If undefined, all messages use tcp. */
  readonly shared: ShmWorld | undefined;
  readonly algorithm: string | undefined;
  readonly joinTimeoutMs: number | undefined;
  readonly task: HostTask;
}

/** The messages to a rank. */
export type HostRequest =
  /** `serve` makes the rank serve the store of all worlds at this address. */
  { readonly serve: string } | { readonly join: HostWorld };

/** The messages from a rank. */
export type HostMessage =
  | { readonly kind: 'serving'; readonly port: number }
  /** The rank has joined and, if it reduces, has reduced once. */
  | { readonly kind: 'ready' }
  | { readonly kind: 'fulfilled'; readonly value: unknown }
  | { readonly kind: 'rejected'; readonly report: ErrorReport };

/** Returns numbers whose sum depends on the order of additions. They differ by rank and have very different sizes. */
export function contribution(rank: number, elements: number): readonly number[] {
  let state = rank + 1;
  return Array.from({ length: elements }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state / 2 ** 31 - 1) * 2 ** (state % 13);
  });
}
