import type { ShmWorld } from '@shardwise/collectives/node';
import type { DType } from '@shardwise/core/spec';
import type { ErrorReport, ProcessGroupScenario } from '@shardwise/testing/ranks';

export const SECRET = 'the secret of a test';

/** Far beyond the limit of heartbeats: a rank that has noticed nothing else ends by it. */
export const REDUCE_TIMEOUT_MS = 20_000;

/** What a rank does once it has joined. */
export type HostTask =
  | { readonly kind: 'scenario'; readonly scenario: ProcessGroupScenario }
  /** All-reduces the values of `valuesOf` once, and returns their bytes. */
  | { readonly kind: 'reduce'; readonly dtype: DType; readonly elements: number }
  /** All-reduces until that fails; no call takes longer than REDUCE_TIMEOUT_MS. */
  | { readonly kind: 'forever'; readonly elements: number };

/** What a rank is told for each world that it is to be part of. */
export interface HostWorld {
  readonly rank: number;
  /** By rank. */
  readonly hosts: readonly number[];
  /** What its host is called by the others. */
  readonly address: string;
  readonly store: { readonly host: string; readonly port: number };
  readonly epoch: number;
  /** What the ranks of its host share; undefined: all messages go over tcp. */
  readonly shared: ShmWorld | undefined;
  readonly algorithm: string | undefined;
  readonly joinTimeoutMs: number | undefined;
  readonly task: HostTask;
}

/** Sent to a rank. */
export type HostRequest =
  /** To keep the store of all worlds, on this address. */
  { readonly serve: string } | { readonly join: HostWorld };

/** Sent by a rank. */
export type HostMessage =
  | { readonly kind: 'serving'; readonly port: number }
  /** It has joined and, where it reduces, reduced once. */
  | { readonly kind: 'ready' }
  | { readonly kind: 'fulfilled'; readonly value: unknown }
  | { readonly kind: 'rejected'; readonly report: ErrorReport };

/** Whose sum depends on the order: of each rank others, and of very different sizes. */
export function contribution(rank: number, elements: number): readonly number[] {
  let state = rank + 1;
  return Array.from({ length: elements }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state / 2 ** 31 - 1) * 2 ** (state % 13);
  });
}
