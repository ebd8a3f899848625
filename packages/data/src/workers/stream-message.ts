import type { ErrorReport } from '@shardwise/core/extend';
import type { Share, SharedItem, StreamPlace } from '../streams/read-share.ts';

/** The data that a worker of a stream is started with. */
export interface StreamTask {
  readonly module: string;
  readonly exportName: string;
  readonly arguments: readonly unknown[];
  readonly epoch: number;
  readonly from: StreamPlace;
  readonly share: Share;
}

/** The answer to a request for the next item. */
export type StreamReply<T> =
  | { readonly kind: 'item'; readonly item: SharedItem<T> }
  | { readonly kind: 'end' }
  | { readonly kind: 'error'; readonly error: ErrorReport };
