// What a rank's worker and its page tell each other, because only pages have WebRTC.

/** A message of a worker to its page. */
export type WorkerAsks =
  /** Is the page there? */
  | { readonly kind: 'hello' }
  | {
      readonly kind: 'connect';
      readonly id: number;
      readonly begins: boolean;
      readonly stun: readonly string[];
    }
  | { readonly kind: 'signal'; readonly id: number; readonly text: string }
  | { readonly kind: 'send'; readonly id: number; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'close'; readonly id: number };

/** A message of a page to a rank's worker. */
export type PageSays =
  | { readonly kind: 'here' }
  | { readonly kind: 'signal'; readonly id: number; readonly text: string }
  | { readonly kind: 'opened'; readonly id: number }
  | { readonly kind: 'received'; readonly id: number; readonly bytes: Uint8Array<ArrayBuffer> }
  /** So many bytes are still in the page. */
  | { readonly kind: 'buffered'; readonly id: number; readonly bytes: number }
  | { readonly kind: 'closed'; readonly id: number };

/** The field under which these messages lie, because scripts may post messages of their own. */
const key = 'shardwiseDirect';

export function wrapDirect(message: WorkerAsks | PageSays): Readonly<Record<string, unknown>> {
  return { [key]: message };
}

/** Reads a message of a worker. Returns undefined for other messages. */
export function unwrapAsked(data: unknown): WorkerAsks | undefined {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the page and its workers are one program
  return messageOf(data) as WorkerAsks | undefined;
}

/** Reads a message of the page. Returns undefined for other messages. */
export function unwrapSaid(data: unknown): PageSays | undefined {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the page and its workers are one program
  return messageOf(data) as PageSays | undefined;
}

function messageOf(data: unknown): unknown {
  return typeof data === 'object' && data !== null && key in data ? data[key] : undefined;
}
